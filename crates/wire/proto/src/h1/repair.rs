//! Defects of a response's fields that a proxy mends before it passes them on (RFC 9112 5.1, 5.2; RFC 9110 5.5).
//!
//! A request with such a defect is refused: where two recipients differ on it, a request can be
//! smuggled. A response ends at its client, which sees the repaired field alone.

use bytes::BytesMut;
use memchr::memchr;

use super::error::DecodeErrorKind as Kind;
use super::head::{self, is_blank};
use crate::fields::Fields;

/// As [`head::decode_fields`]; a section with defects is read once more when they are mended.
pub(super) fn decode_fields(
    section: &[u8],
    at: usize,
    lines: usize,
    limit: usize,
) -> Result<Fields, Kind> {
    match head::decode_fields(section, at, lines, limit) {
        Err(Kind::ObsFold | Kind::SpaceBeforeColon | Kind::BadValue) => {
            let mended = mended(&section[at..]);
            head::decode_fields(&mended, 0, lines, limit)
        }
        decoded => decoded,
    }
}

/// The section without its defects. No byte moves to another line but those of folded lines, which join the one before.
fn mended(section: &[u8]) -> BytesMut {
    let mut mended = BytesMut::from(section);
    let mut start = 0;

    while let Some(length) = memchr(b'\n', &mended[start..]) {
        let end = start + length - 1;
        let is_fold = start > 0 && mended[start..end].first().copied().is_some_and(is_blank);
        if is_fold {
            // RFC 9112 5.2: each fold becomes spaces.
            mended[start - 2..start].fill(b' ');
            mend_value(&mut mended[start..end]);
        } else {
            let line = &mut mended[start..end];
            mend_name(line);
            let value = memchr(b':', line).map_or(line.len(), |colon| colon + 1);
            mend_value(&mut line[value..]);
        }

        start = end + 2;
    }

    mended
}

/// RFC 9112 5.1: a proxy removes white space between the name and the colon; here it goes behind the colon.
fn mend_name(line: &mut [u8]) {
    let Some(colon) = memchr(b':', line) else {
        return;
    };
    let blanks = line[..colon]
        .iter()
        .rev()
        .take_while(|byte| is_blank(**byte));
    let name_end = colon - blanks.count();
    if name_end > 0 {
        line.swap(name_end, colon);
    }
}

/// RFC 9110 5.5: control characters become spaces. CR is left to be refused: it would be a line to others.
fn mend_value(value: &mut [u8]) {
    for byte in value {
        let is_control = *byte < b' ' || *byte == 0x7f;
        if is_control && !matches!(*byte, b'\t' | b'\r') {
            *byte = b' ';
        }
    }
}
