//! Writing field sections (RFC 9204, section 4.5).

use bytes::{BufMut, BytesMut};

use super::static_table::{Match, find};
use super::{huffman, integer};

/// Appends what every section begins with: no dynamic entry is needed, and the base is 0 (RFC 9204, section 4.5.1).
pub fn encode_prefix(output: &mut BytesMut) {
    output.put_slice(&[0, 0]);
}

/// Appends one field line in its shortest form. A `sensitive` one is never put into a table by the next hops (RFC
/// 9204, section 7.1.3), so it stands there as a literal.
pub fn encode_line(name: &[u8], value: &[u8], sensitive: bool, output: &mut BytesMut) {
    let never = if sensitive { 0x20 } else { 0 };
    match find(name, value) {
        Match::Both(index) if !sensitive => integer::encode(index, 6, 0xc0, output),
        Match::Both(index) | Match::Name(index) => {
            integer::encode(index, 4, 0x50 | never, output);
            encode_string(value, 7, 0, output);
        }
        Match::Neither => {
            encode_string(name, 3, 0x20 | never >> 1, output);
            encode_string(value, 7, 0, output);
        }
    }
}

/// A string, as a Huffman code where that is shorter (RFC 9204, section 4.1.2).
fn encode_string(text: &[u8], prefix: u8, flags: u8, output: &mut BytesMut) {
    let coded = huffman::size(text);
    if coded < text.len() {
        integer::encode(coded as u64, prefix, flags | 1 << prefix, output);
        huffman::encode(text, output);
    } else {
        integer::encode(text.len() as u64, prefix, flags, output);
        output.put_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decode::all;
    use super::super::{FieldLine, Limits, QpackError};
    use super::*;

    const WIDE: Limits = Limits {
        bytes: 1 << 20,
        lines: 1000,
    };

    fn line(name: &str, value: &str) -> FieldLine {
        FieldLine {
            name: name.to_owned().into(),
            value: value.to_owned().into(),
        }
    }

    fn written(name: &str, value: &str, sensitive: bool) -> BytesMut {
        let mut output = BytesMut::new();
        encode_line(name.as_bytes(), value.as_bytes(), sensitive, &mut output);
        output
    }

    #[test]
    fn reads_the_sample_of_rfc_9204_appendix_b_1() {
        let section = b"\x00\x00\x51\x0b/index.html";
        assert_eq!(all(section, WIDE), Ok(vec![line(":path", "/index.html")]));
    }

    #[test]
    fn refuses_the_sections_of_appendix_b_that_need_a_dynamic_table() {
        for section in [&b"\x03\x81\x10\x11"[..], b"\x05\x00\x80\xc1\x81"] {
            assert_eq!(all(section, WIDE), Err(QpackError::Dynamic));
        }
        // Without a count that would be required, each dynamic form is refused for itself, and so is a negative base.
        for section in [
            &b"\0\0\x80"[..],
            b"\0\0\x10",
            b"\0\0\x40\0",
            b"\0\0\0\0",
            b"\0\x80",
            b"\0\x81\xc1",
        ] {
            assert_eq!(all(section, WIDE), Err(QpackError::Dynamic));
        }
    }

    #[test]
    fn reads_the_static_reference_of_appendix_b_4() {
        assert_eq!(all(b"\0\0\xc1", WIDE), Ok(vec![line(":path", "/")]));
    }

    #[test]
    fn refuses_what_the_static_table_does_not_have_and_what_is_cut_off() {
        assert_eq!(all(b"\0\0\xff\x24", WIDE), Err(QpackError::NoEntry));
        assert_eq!(
            all(b"\0\0\xff\x23", WIDE),
            Ok(vec![line("x-frame-options", "sameorigin")])
        );
        let section = b"\0\0\x51\x0b/index.html\xff\x23";
        for end in [0, 1, 3, 4, 8, 14, 16] {
            assert_eq!(
                all(&section[..end], WIDE),
                Err(QpackError::Truncated),
                "{end}"
            );
        }
        assert_eq!(
            all(b"\0\0\x27\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", WIDE),
            Err(QpackError::Overflow)
        );
    }

    #[test]
    fn writes_the_shortest_form() {
        assert_eq!(written(":method", "GET", false), &b"\xd1"[..]);
        assert_eq!(written(":status", "500", false), &b"\xff\x08"[..]);
        // "/index.html" is 8 bytes as a Huffman code.
        assert_eq!(written(":path", "/index.html", false)[..2], b"\x51\x88"[..]);
        assert_eq!(written("\u{e9}", "", false), &b"\x22\xc3\xa9\x00"[..]);
    }

    #[test]
    fn marks_what_is_sensitive_and_does_not_refer_to_its_value() {
        assert_eq!(written("authorization", "", true), &b"\x7f\x45\x00"[..]);
        assert_eq!(written(":path", "/", true), &b"\x71\x01/"[..]);
        assert_eq!(written("a\0", "", true)[0], 0x32);
    }

    #[test]
    fn limits_are_exact() {
        let section = b"\0\0\xc1\xc1";
        let limits = |bytes, lines| Limits { bytes, lines };
        assert!(all(section, limits(76, 2)).is_ok());
        assert_eq!(all(section, limits(75, 2)), Err(QpackError::TooLarge));
        assert_eq!(all(section, limits(76, 1)), Err(QpackError::TooMany));
        // Few bytes that stand for many: each of these is the longest entry of the static table.
        let bomb = [&[0, 0][..], &[0xff, 0x16].repeat(10_000)].concat();
        assert_eq!(
            all(&bomb, limits(65_536, 100_000)),
            Err(QpackError::TooLarge)
        );
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(
            lines in proptest::collection::vec(("[a-z:-]{0,20}", "\\PC{0,40}", any::<bool>()), 0..20),
        ) {
            let mut section = BytesMut::new();
            encode_prefix(&mut section);
            for (name, value, sensitive) in &lines {
                encode_line(name.as_bytes(), value.as_bytes(), *sensitive, &mut section);
            }
            let expected: Vec<_> = lines.iter().map(|(name, value, _)| line(name, value)).collect();
            prop_assert_eq!(all(&section, WIDE), Ok(expected));
        }
    }
}
