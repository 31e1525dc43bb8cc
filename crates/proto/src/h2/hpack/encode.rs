//! Writing field sections (RFC 7541, section 6): static references and literals that go into no table.

use bytes::{BufMut, BytesMut};
use http::HeaderName;

use super::static_table::{find_name, find_value};
use super::table::PseudoName;
use crate::qpack::{huffman, integer};

/// The shortest value for which a Huffman code is tried, in bytes: below it little is won.
const WORTH_CODING: usize = 8;

/// Appends a pseudo-field.
pub fn encode_pseudo(name: PseudoName, value: &[u8], output: &mut BytesMut) {
    encode_line(name.as_str().as_bytes(), value, false, output);
}

/// Appends a field. A `sensitive` one is never put into a table by the next hops (RFC 7541, section 7.1.3).
pub fn encode_field(name: &HeaderName, value: &[u8], sensitive: bool, output: &mut BytesMut) {
    encode_line(name.as_str().as_bytes(), value, sensitive, output);
}

/// Appends a new size of the dynamic table, which is to stand first in a section.
pub fn encode_table_size(size: u32, output: &mut BytesMut) {
    integer::encode(size.into(), 5, 0x20, output);
}

fn encode_line(name: &[u8], value: &[u8], sensitive: bool, output: &mut BytesMut) {
    let flags = if sensitive { 0x10 } else { 0 };
    match find_name(name) {
        Some(first) => match find_value(first, value) {
            Some(index) if !sensitive => return integer::encode(index as u64, 7, 0x80, output),
            _ => integer::encode(first as u64, 4, flags, output),
        },
        None => {
            output.put_u8(flags);
            encode_string(name, output);
        }
    }
    encode_string(value, output);
}

/// A string, as a Huffman code where that is shorter (RFC 7541, section 5.2).
fn encode_string(text: &[u8], output: &mut BytesMut) {
    let coded = if text.len() < WORTH_CODING {
        text.len()
    } else {
        huffman::size(text)
    };
    if coded < text.len() {
        integer::encode(coded as u64, 7, 0x80, output);
        huffman::encode(text, output);
    } else {
        integer::encode(text.len() as u64, 7, 0, output);
        output.put_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Decoder;
    use super::*;

    fn written(name: &str, value: &str, sensitive: bool) -> BytesMut {
        let mut output = BytesMut::new();
        encode_line(name.as_bytes(), value.as_bytes(), sensitive, &mut output);
        output
    }

    #[test]
    fn writes_static_references_and_literals_that_go_into_no_table() {
        assert_eq!(written(":method", "GET", false), &b"\x82"[..]);
        assert_eq!(written(":status", "500", false), &b"\x8e"[..]);
        assert_eq!(written(":path", "/a", false), &b"\x04\x02/a"[..]);
        assert_eq!(written("x-a", "b", false), &b"\x00\x03x-a\x01b"[..]);
        // RFC 7541, C.2.3.
        assert_eq!(
            written("authorization", "x", true),
            &b"\x1f\x08\x01x"[..],
            "never indexed"
        );
        // "www.example.com" is 12 bytes as a Huffman code (RFC 7541, C.4.1).
        assert_eq!(
            written(":authority", "www.example.com", false)[..2],
            b"\x01\x8c"[..]
        );
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(
            lines in proptest::collection::vec(("[a-z:-]{1,20}", "\\PC{0,40}", any::<bool>()), 0..20),
        ) {
            let mut section = BytesMut::new();
            encode_table_size(0, &mut section);
            for (name, value, sensitive) in &lines {
                encode_line(name.as_bytes(), value.as_bytes(), *sensitive, &mut section);
            }
            let mut read = Vec::new();
            Decoder::default()
                .decode(section.freeze(), |name, value| read.push((name.as_bytes().to_vec(), value)))
                .unwrap();
            let expected: Vec<_> = lines
                .into_iter()
                .map(|(name, value, _)| (name.into_bytes(), bytes::Bytes::from(value)))
                .collect();
            prop_assert_eq!(read, expected);
        }
    }
}
