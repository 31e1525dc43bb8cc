//! A decoder reads the encoder's output as the original, for any input.

use bytes::BytesMut;

use super::{HpackDecoder, HpackEncoder};
use crate::fields::LineName;

/// Names of the lines that arbitrary bytes choose.
const NAMES: [&[u8]; 4] = [b":path", b"via", b"x-user", b"authorization"];

/// Takes arbitrary bytes as lines, with sizes of the table among them: each line, written to one connection, is read as it was.
pub(crate) fn fuzz_one(data: &[u8]) {
    let [most, rest @ ..] = data else { return };
    let mut encoder = HpackEncoder::new(usize::from(*most) * 16);
    let mut decoder = HpackDecoder::default();

    for command in rest.chunks(3) {
        let [kind, value @ ..] = command else { return };
        if *kind == u8::MAX {
            encoder.allow(value.first().map_or(0, |size| u32::from(*size) * 16));
        }

        let name = NAMES[usize::from(kind % 4)];
        let is_sensitive = kind & 0x40 != 0;
        let mut section = BytesMut::new();
        encoder.begin(&mut section);
        encoder.line(LineName::parse(name), value, is_sensitive, &mut section);

        let mut lines = 0;
        let read = decoder.decode(&section, |read, text| {
            assert_eq!((read.as_bytes(), text), (name, value));
            lines += 1;
        });
        assert_eq!((read, lines), (Ok(()), 1));
    }
}
