//! Writing field sections (RFC 7541, section 6).

use bytes::{BufMut, BytesMut};

use super::repeated::Repeated;
use super::static_table::{find_name, find_value};
use crate::fields::LineName;
use crate::qpack::{integer, string};

/// The shortest value for which a Huffman code is tried, in bytes: below it little is won.
const WORTH_CODING: usize = 8;

/// Bytes of a peer's dynamic table before it says otherwise (RFC 9113, section 6.5.2).
const FIRST_TABLE: usize = 4096;

/// The encoder of one connection. Its sections must leave in the order in which they were written.
#[derive(Debug)]
pub struct HpackEncoder {
    /// Bytes of the dynamic table that are used.
    most: usize,
    /// Bytes that the peer has room for, as far as it was told.
    told: usize,
    /// The next section is to begin with the size of the table.
    resizes: bool,
    /// `None` until the first line that the static table does not hold: many connections never need it.
    repeated: Option<Box<Repeated>>,
}

impl HpackEncoder {
    /// An encoder that uses at most this many bytes of the peer's dynamic table. With 0 it keeps
    /// nothing, and its sections may leave in any order.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.min(FIRST_TABLE),
            told: FIRST_TABLE,
            resizes: false,
            repeated: None,
        }
    }

    /// The peer has room for this many bytes from now on. A table that was once made smaller stays
    /// small, which takes a single size update.
    pub fn allow(&mut self, size: u32) {
        let size = size as usize;
        if size >= self.told {
            return;
        }

        self.most = self.most.min(size);
        self.told = self.most;
        self.resizes = true;
        if let Some(repeated) = &mut self.repeated {
            repeated.resize(self.most);
        }
    }

    /// Writes the beginning of a section: to be called before its lines (RFC 7541, section 4.2).
    pub fn begin(&mut self, output: &mut BytesMut) {
        if std::mem::take(&mut self.resizes) {
            integer::encode(self.most as u64, 5, 0x20, output);
        }
    }

    /// Appends a line. A `sensitive` one is never put into a table, here or by the next hops (RFC 7541, section 7.1.3).
    pub fn line(
        &mut self,
        name: LineName<'_>,
        value: &[u8],
        sensitive: bool,
        output: &mut BytesMut,
    ) {
        let first = find_name(name);
        // Before any lookup: even a match in the static table must not turn it into an index.
        if sensitive {
            return literal(0x10, 4, first, name, value, output);
        }
        if let Some(index) = first.and_then(|first| find_value(first, value)) {
            return integer::encode(index as u64, 7, 0x80, output);
        }
        if self.most == 0 {
            return literal(0, 4, first, name, value, output);
        }

        let most = self.most;
        let repeated = self
            .repeated
            .get_or_insert_with(|| Box::new(Repeated::new(most)));
        match repeated.meet(name, value) {
            Met::Known(index) => integer::encode(index, 7, 0x80, output),
            Met::Again => literal(0x40, 6, first, name, value, output),
            Met::New => literal(0, 4, first, name, value, output),
        }
    }

    /// The table, newest first.
    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<(String, String)> {
        self.repeated
            .as_ref()
            .map_or_else(Vec::new, |repeated| repeated.lines())
    }
}

/// How an encoder meets a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// The table has it at this index.
    Known(u64),
    /// The line came a moment ago, and is in the table from now on.
    Again,
    /// The line is not known.
    New,
}

/// A literal line (RFC 7541, section 6.2); it takes its name from the static entry `first`, if
/// there is one.
fn literal(
    flags: u8,
    prefix: u8,
    first: Option<usize>,
    name: LineName<'_>,
    value: &[u8],
    output: &mut BytesMut,
) {
    match first {
        Some(first) => integer::encode(first as u64, prefix, flags, output),
        None => {
            output.put_u8(flags);
            string::encode(name.as_bytes(), 7, 0, WORTH_CODING, output);
        }
    }

    string::encode(value, 7, 0, WORTH_CODING, output);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::HpackDecoder;
    use super::*;

    fn written(name: &str, value: &str, sensitive: bool) -> BytesMut {
        let mut output = BytesMut::new();
        put(
            &mut HpackEncoder::new(0),
            (name, value, sensitive),
            &mut output,
        );
        output
    }

    fn put(encoder: &mut HpackEncoder, line: (&str, &str, bool), output: &mut BytesMut) {
        let (name, value, sensitive) = line;
        let name = LineName::parse(name.as_bytes());
        encoder.line(name, value.as_bytes(), sensitive, output);
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

    #[test]
    fn a_line_that_comes_again_goes_into_the_table_and_costs_one_byte_then() {
        let mut encoder = HpackEncoder::new(4096);
        let mut written = |value, sensitive| {
            let mut output = BytesMut::new();
            put(&mut encoder, ("x-a", value, sensitive), &mut output);
            output
        };
        assert_eq!(written("b", false), &b"\x00\x03x-a\x01b"[..]);
        assert_eq!(written("b", false), &b"\x40\x03x-a\x01b"[..]);
        assert_eq!(written("b", false), &b"\xbe"[..]);
        assert_eq!(
            written("b", true),
            &b"\x10\x03x-a\x01b"[..],
            "never indexed"
        );
        assert_eq!(encoder.lines(), [("x-a".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn what_the_peer_makes_smaller_is_said_once_and_stays_small() {
        let mut encoder = HpackEncoder::new(4096);
        let mut begun = |size: Option<u32>| {
            let mut output = BytesMut::new();
            if let Some(size) = size {
                encoder.allow(size);
            }
            encoder.begin(&mut output);
            output
        };
        assert_eq!(begun(None), &b""[..]);
        assert_eq!(begun(Some(65_536)), &b""[..]);
        assert_eq!(begun(Some(100)), &b"\x3f\x45"[..]);
        assert_eq!(begun(Some(4096)), &b""[..]);
        assert_eq!(begun(Some(0)), &b"\x20"[..]);

        let mut output = BytesMut::new();
        for _ in 0..3 {
            put(&mut encoder, ("x-a", "b", false), &mut output);
        }
        assert_eq!(output[..], b"\x00\x03x-a\x01b".repeat(3));
    }

    /// A section, and the room that the peer gives before it.
    type Written = (Option<u32>, Vec<(String, String, bool)>);

    fn sections() -> impl Strategy<Value = Vec<Written>> {
        let name = prop_oneof![
            "[a-z:-]{1,20}",
            Just("via".to_owned()),
            Just(":path".to_owned())
        ];
        let value = prop_oneof!["\\PC{0,40}", "[ab]{0,2}", "a{1500}"];
        let line = (name, value, prop::bool::weighted(0.1));
        let room = prop::option::weighted(0.1, 0_u32..5000);
        prop::collection::vec((room, prop::collection::vec(line, 0..20)), 0..20)
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(most in prop_oneof![Just(0_usize), 0..5000_usize], sections in sections()) {
            let (mut encoder, mut decoder) = (HpackEncoder::new(most), HpackDecoder::default());
            for (room, lines) in sections {
                let mut section = BytesMut::new();
                if let Some(room) = room {
                    encoder.allow(room);
                }

                encoder.begin(&mut section);
                for (name, value, sensitive) in &lines {
                    put(&mut encoder, (name, value, *sensitive), &mut section);
                }

                let mut read = Vec::new();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                decoder
                    .decode(&section, |name, value| read.push((text(name.as_bytes()), text(value))))
                    .unwrap();
                let expected: Vec<_> = lines.into_iter().map(|(name, value, _)| (name, value)).collect();
                prop_assert_eq!(read, expected);
                // The decoder keeps more where the encoder wants less than there is room for.
                prop_assert!(decoder.lines().starts_with(&encoder.lines()));
            }
        }
    }
}
