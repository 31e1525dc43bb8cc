//! Vectors of messages, by hand from RFC 1928, RFC 1929 and the memo of SOCKS4a.

use super::*;

fn target(host: &str, port: u16) -> SocksTarget {
    SocksTarget {
        host: host.to_owned(),
        port,
    }
}

fn request(version: SocksVersion, command: SocksCommand) -> SocksRequest {
    SocksRequest { version, command }
}

/// Every prefix of it lacks something.
fn all_needed<'a, T: PartialEq + std::fmt::Debug>(
    bytes: &'a [u8],
    decode: impl Fn(&'a [u8]) -> Decoded<T>,
) -> T {
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length]), Ok(None), "{length} bytes");
    }
    let (message, length) = decode(bytes).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    message
}

#[test]
fn a_client_of_version_5_names_its_methods() {
    for (bytes, none, password) in [
        (&[5, 1, 0][..], true, false),
        (&[5, 2, 0, 2], true, true),
        (&[5, 3, 0x80, 1, 2], false, true),
        (&[5, 0], false, false),
    ] {
        let expected = SocksHello::Methods(SocksMethods { none, password });
        assert_eq!(all_needed(bytes, decode_hello), expected);
    }
    assert_eq!(SocksMethod::None.encode(), [5, 0]);
    assert_eq!(SocksMethod::Password.encode(), [5, 2]);
    assert_eq!(SocksMethod::Unacceptable.encode(), [5, 0xff]);
}

#[test]
fn a_client_of_version_4_asks_at_once() {
    let of = |host, port| {
        let command = SocksCommand::Connect(target(host, port));
        SocksHello::Request(request(SocksVersion::V4, command))
    };
    let address = b"\x04\x01\x00\x50\xc0\x00\x02\x01alice\0";
    assert_eq!(all_needed(address, decode_hello), of("192.0.2.1", 80));
    let name = b"\x04\x01\x01\xbb\0\0\0\x07alice\0example.org\0";
    assert_eq!(all_needed(name, decode_hello), of("example.org", 443));
    // No name follows: 0.0.0.0 is an address.
    let zero = b"\x04\x01\x00\x50\0\0\0\0\0";
    assert_eq!(all_needed(zero, decode_hello), of("0.0.0.0", 80));

    let bind = b"\x04\x02\x00\x50\xc0\x00\x02\x01\0";
    let bind = all_needed(bind, decode_hello);
    let from = SocksCommand::Bind(target("192.0.2.1", 80));
    assert_eq!(bind, SocksHello::Request(request(SocksVersion::V4, from)));
    let other = b"\x04\x03\x00\x50\xc0\x00\x02\x01\0";
    assert_eq!(decode_hello(other), Err(SocksError::UnknownCommand(3)));
}

#[test]
fn a_text_of_version_4_that_does_not_end_is_refused_at_its_bound() {
    let mut bytes = b"\x04\x01\x00\x50\0\0\0\x01".to_vec();
    bytes.extend([b'a'; MAX_TEXT]);
    assert_eq!(decode_hello(&bytes), Ok(None));
    bytes.push(b'a');
    assert_eq!(decode_hello(&bytes), Err(SocksError::TooLong));

    bytes.pop();
    bytes.push(0);
    bytes.extend([b'a'; MAX_TEXT + 1]);
    assert_eq!(decode_hello(&bytes), Err(SocksError::TooLong));
}

#[test]
fn a_password_may_be_any_bytes() {
    let bytes = b"\x01\x05alice\x04\xff\0:\n";
    let password = all_needed(bytes, decode_password);
    assert_eq!(password.user, b"alice");
    assert_eq!(password.password, b"\xff\0:\n");
    assert!(!format!("{password:?}").contains("255"));

    assert_eq!(decode_password(&[5, 1]), Err(SocksError::UnknownVersion(5)));
    assert_eq!(password_status(true), [1, 0]);
    assert_eq!(password_status(false), [1, 1]);
}

#[test]
fn a_request_has_an_address_or_a_name() {
    let connect = |host, port| {
        let command = SocksCommand::Connect(target(host, port));
        request(SocksVersion::V5, command)
    };
    for (bytes, expected) in [
        (
            &b"\x05\x01\0\x01\xc0\0\x02\x01\0\x50"[..],
            connect("192.0.2.1", 80),
        ),
        (
            b"\x05\x01\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb",
            connect("2001:db8::1", 443),
        ),
        (
            b"\x05\x01\0\x03\x0bexample.org\x01\xbb",
            connect("example.org", 443),
        ),
    ] {
        assert_eq!(all_needed(bytes, decode_request), expected);
    }
    let associate = all_needed(b"\x05\x03\0\x01\0\0\0\0\0\0", decode_request);
    assert_eq!(associate.command, SocksCommand::Associate);
    // PySocks writes this name where it means no address.
    let named = all_needed(b"\x05\x03\0\x03\x010\0\0", decode_request);
    assert_eq!(named.command, SocksCommand::Associate);
    let bind = all_needed(b"\x05\x02\0\x01\xc0\0\x02\x01\0\x50", decode_request);
    assert_eq!(bind.command, SocksCommand::Bind(target("192.0.2.1", 80)));
}

#[test]
fn a_host_has_one_spelling() {
    for (bytes, host) in [
        (&b"\x05\x01\0\x03\x03db.\0\x50"[..], "db"),
        (b"\x05\x01\0\x03\x09127.0.0.1\0\x50", "127.0.0.1"),
        (b"\x05\x01\0\x03\x10::ffff:127.0.0.1\0\x50", "127.0.0.1"),
        (
            b"\x05\x01\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\0\x50",
            "127.0.0.1",
        ),
    ] {
        let connect = SocksCommand::Connect(target(host, 80));
        assert_eq!(all_needed(bytes, decode_request).command, connect);
    }
}

#[test]
fn requests_that_cannot_be_served_say_why() {
    for (bytes, reply) in [
        (
            &b"\x05\x04\0\x01\0\0\0\0\0\0"[..],
            SocksReply::CommandNotSupported,
        ),
        (
            b"\x05\x01\0\x02\0\0\0\0\0\0",
            SocksReply::AddressTypeNotSupported,
        ),
        (b"\x05\x01\0\x03\x00\0\x50", SocksReply::HostUnreachable),
        (
            b"\x05\x01\0\x03\x04a\r\nb\0\x50",
            SocksReply::HostUnreachable,
        ),
        (b"\x05\x01\0\x03\x03a\0b\0\x50", SocksReply::HostUnreachable),
        (
            b"\x05\x01\0\x03\x02\xc3\x28\0\x50",
            SocksReply::HostUnreachable,
        ),
        (
            b"\x05\x01\0\x03\x05127.1\0\x50",
            SocksReply::HostUnreachable,
        ),
        (
            b"\x05\x01\0\x03\x06fe80%1\0\x50",
            SocksReply::HostUnreachable,
        ),
        (b"\x04\x01\0\x01\0\0\0\0\0\0", SocksReply::GeneralFailure),
    ] {
        let error = decode_request(bytes).unwrap_err();
        assert_eq!(error.reply(), reply, "{bytes:?}: {error}");
    }
}

#[test]
fn replies_have_the_form_of_their_version() {
    let bound = "192.0.2.1:1080".parse().unwrap();
    assert_eq!(
        SocksReply::Succeeded.encode(SocksVersion::V5, bound),
        [5, 0, 0, 1, 192, 0, 2, 1, 4, 56]
    );
    let bound6 = "[2001:db8::1]:1080".parse().unwrap();
    assert_eq!(
        SocksReply::TtlExpired.encode(SocksVersion::V5, bound6)[..5],
        [5, 6, 0, 4, 0x20]
    );
    assert_eq!(
        SocksReply::Succeeded.encode(SocksVersion::V4, bound),
        [0, 0x5a, 4, 56, 192, 0, 2, 1]
    );
    assert_eq!(
        SocksReply::NotAllowed.encode(SocksVersion::V4, bound)[1],
        0x5b
    );
}

#[test]
fn a_datagram_says_where_it_goes_and_a_fragment_is_dropped() {
    let mut bytes = encode_datagram("192.0.2.1:53".parse().unwrap());
    assert_eq!(bytes, b"\0\0\0\x01\xc0\0\x02\x01\0\x35");
    bytes.extend(b"payload");
    assert_eq!(decode_datagram(&bytes), Ok((target("192.0.2.1", 53), 10)));

    bytes[2] = 1;
    assert_eq!(decode_datagram(&bytes), Err(SocksError::Fragment));
    for length in 0..10 {
        assert_eq!(
            decode_datagram(&encode_datagram("192.0.2.1:53".parse().unwrap())[..length]),
            Err(SocksError::CutOff)
        );
    }
}
