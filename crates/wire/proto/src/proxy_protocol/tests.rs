//! Headers from the specification, and the errors of broken ones.

use super::*;

fn proxied(source: &str, destination: &str) -> Header {
    Header::Proxied {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
    }
}

/// A header of version 2 with this command, family and rest.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family][..], &length, rest].concat()
}

const FOUR: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];

#[test]
fn reads_the_lines_of_version_1() {
    let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n";
    assert_eq!(
        decode(line),
        Ok(Some((proxied("192.168.0.1:56324", "192.168.0.11:443"), 47)))
    );
    let line = b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n";
    assert_eq!(
        decode(line),
        Ok(Some((
            proxied("[2001:db8::1]:1", "[::1]:65535"),
            line.len()
        )))
    );

    for line in [
        "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN ffff:f... whatever 1 2 3\r\n",
        "PROXY UNKNOWN a b 1 2\r\n",
    ] {
        assert_eq!(
            decode(line.as_bytes()),
            Ok(Some((Header::Unknown, line.len()))),
            "{line}"
        );
    }
}

#[test]
fn refuses_lines_that_break_the_grammar() {
    for line in [
        "PROXY TCP4 192.168.0.1 192.168.0.11 56324\r\n",
        "PROXY TCP4  192.168.0.1 192.168.0.11 56324 443\r\n",
        "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443 \r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.1 1 2\r\n",
        "PROXY TCP4 192.168.000.1 192.168.0.11 1 2\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 65536 443\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 +1 443\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 01 443\r\n",
        "PROXY UDP4 1.1.1.1 2.2.2.2 1 443\r\n",
        "PROXY tcp4 1.1.1.1 2.2.2.2 1 443\r\n",
        "PROXY \r\n",
    ] {
        assert_eq!(decode(line.as_bytes()), Err(BadHeader::Line), "{line}");
    }
    assert_eq!(
        decode(&[TEXT, &[b'x'; MAX_TEXT]].concat()),
        Err(BadHeader::Line)
    );
}

#[test]
fn waits_for_the_whole_header() {
    for whole in [
        &b"PROXY TCP4 1.1.1.1 2.2.2.2 1 443\r\n"[..],
        &binary(0x21, 0x11, &FOUR),
    ] {
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), Ok(None), "{length} bytes");
        }
        assert!(matches!(decode(whole), Ok(Some(_))));
    }
}

#[test]
fn refuses_what_is_no_header() {
    for first in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\x16\x03\x01",
        b"PROXX",
        b"\r\n\r\n\0\r\nQUIT\r",
        b"proxy ",
    ] {
        assert_eq!(decode(first), Err(BadHeader::Missing));
    }
}

#[test]
fn reads_version_2() {
    let header = binary(0x21, 0x11, &FOUR);
    assert_eq!(
        decode(&header),
        Ok(Some((proxied("192.0.2.1:56324", "198.51.100.2:443"), 28)))
    );
    let six = encode(Version::V2, proxied("[2001:db8::1]:1", "[2001:db8::2]:2"));
    assert_eq!(six.len(), FIXED + 36);
    assert_eq!(
        decode(&six),
        Ok(Some((proxied("[2001:db8::1]:1", "[2001:db8::2]:2"), 52)))
    );
}

#[test]
fn a_local_command_says_nothing_of_addresses() {
    for rest in [&[][..], &FOUR, &[1, 2, 3]] {
        let header = binary(0x20, 0x11, rest);
        assert_eq!(decode(&header), Ok(Some((Header::Local, header.len()))));
    }
}

#[test]
fn other_families_are_unknown() {
    for (family, length) in [
        (0x00, 0),
        (0x00, 5),
        (0x12, 12),
        (0x22, 36),
        (0x31, 216),
        (0x32, 216),
    ] {
        let header = binary(0x21, family, &vec![0; length]);
        assert_eq!(
            decode(&header),
            Ok(Some((Header::Unknown, header.len()))),
            "{family:#x}"
        );
    }
}

#[test]
fn refuses_unknown_versions_commands_and_families() {
    for (command, family) in [
        (0x11, 0x11),
        (0x31, 0x11),
        (0x22, 0x11),
        (0x21, 0x41),
        (0x21, 0x13),
    ] {
        assert_eq!(
            decode(&binary(command, family, &FOUR)),
            Err(BadHeader::Kind),
            "{command:#x} {family:#x}"
        );
    }
}

#[test]
fn refuses_what_reaches_beyond_its_length() {
    assert_eq!(
        decode(&binary(0x21, 0x11, &FOUR[..11])),
        Err(BadHeader::Short)
    );
    for tlvs in [
        &[4][..],
        &[4, 0],
        &[4, 0, 1],
        &[4, 0, 2, 9],
        &[4, 0, 0, 4, 255, 255, 1],
    ] {
        assert_eq!(
            decode(&binary(0x21, 0x11, &[&FOUR, tlvs].concat())),
            Err(BadHeader::Short),
            "{tlvs:?}"
        );
    }

    let fine = binary(
        0x21,
        0x11,
        &[&FOUR[..], &[4, 0, 0, 0xea, 0, 2, 1, 2]].concat(),
    );
    assert!(matches!(
        decode(&fine),
        Ok(Some((Header::Proxied { .. }, _)))
    ));
}

#[test]
fn bounds_the_length_before_anything_is_read() {
    let header = [SIGNATURE, &[0x21, 0x11, 0xff, 0xff][..]].concat();
    assert_eq!(decode(&header), Err(BadHeader::Long));
}

#[test]
fn checks_a_checksum_that_is_there() {
    // RFC 3720, B.4: 32 zeros.
    assert_eq!(crc32c([0; 32].iter()), 0x8a91_36aa);
    let mut header = binary(
        0x21,
        0x11,
        &[&FOUR[..], &[CRC32C, 0, 4, 0, 0, 0, 0]].concat(),
    );
    let sum = crc32c(header.iter()).to_be_bytes();
    let at = header.len() - 4;
    header[at..].copy_from_slice(&sum);
    assert!(matches!(decode(&header), Ok(Some(_))));
    header[FIXED] ^= 1;
    assert_eq!(decode(&header), Err(BadHeader::Checksum));
}

#[test]
fn writes_two_families_as_one() {
    let mixed = proxied("192.0.2.1:1", "[2001:db8::2]:2");
    assert_eq!(
        encode(Version::V1, mixed),
        b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"
    );
    let six = proxied("[::ffff:192.0.2.1]:1", "[2001:db8::2]:2");
    assert_eq!(decode(&encode(Version::V2, mixed)), Ok(Some((six, 52))));
}
