//! The common part of heads and trailer sections: their end, and their field lines (RFC 9112 2.2,
//! 5).

use std::ops::Range;

use http::Version;
use memchr::{memchr, memchr_iter};

use super::error::DecodeErrorKind as Kind;
use crate::fields::{Fields, NAME_BYTES, is_value};
pub(super) use crate::quoted::{is_tchar as is_token_byte, is_token};

/// The result of a search for the end of a section.
pub(super) enum HeadSection {
    /// The section ends before this offset, and has this many lines, the empty one included.
    Complete { end: usize, lines: usize },
    /// More bytes are needed.
    Partial,
    /// The section does not end within the limit, and has this many whole lines within it.
    TooLarge { lines: usize },
}

/// Finds the empty line that ends the section beginning at `start`; the limit counts from the start of `buf`.
///
/// A line that ends in LF alone is refused as soon as it is seen (RFC 9112 2.2 lets a recipient
/// accept it; request smuggling lives on two recipients that differ in this).
pub(super) fn find_section(buf: &[u8], start: usize, limit: usize) -> Result<HeadSection, Kind> {
    let window = &buf[..buf.len().min(limit)];
    let mut line = start;
    let mut lines = 0;

    for offset in memchr_iter(b'\n', window.get(start..).unwrap_or_default()) {
        let lf = start + offset;
        // The first test also keeps `lf - 1` within this line.
        if lf == line || window[lf - 1] != b'\r' {
            return Err(Kind::BareLf);
        }

        lines += 1;
        if lf == line + 1 {
            return Ok(HeadSection::Complete { end: lf + 1, lines });
        }

        line = lf + 1;
    }

    if buf.len() >= limit {
        return Ok(HeadSection::TooLarge { lines });
    }
    Ok(HeadSection::Partial)
}

/// Reads the field lines of a complete section, from `at` to its empty line.
pub(super) fn decode_fields(
    section: &[u8],
    at: usize,
    lines: usize,
    limit: usize,
) -> Result<Fields, Kind> {
    let section = &section[at..];
    let mut fields = Fields::of_wire(section, lines.min(limit));
    let mut start = 0;
    while let Some(lf) = memchr(b'\n', &section[start..]) {
        let end = start + lf - 1;
        if end == start {
            break;
        }
        if fields.len() == limit {
            return Err(Kind::TooManyFields);
        }

        decode_field(section, start..end, &mut fields)?;
        start = end + 2;
    }

    Ok(fields)
}

/// Reads one field line, which the fields have at the same place.
fn decode_field(section: &[u8], place: Range<usize>, fields: &mut Fields) -> Result<(), Kind> {
    let line = &section[place.clone()];
    if line.first().copied().is_some_and(is_blank) {
        return Err(Kind::ObsFold);
    }

    let colon = decode_name(line, &mut fields.text_mut()[place.start..])?;
    let value = trim(&line[colon + 1..]);
    if !is_value(value) {
        return Err(cr_or(value, Kind::BadValue));
    }

    // The value: the text behind the colon, without blanks around it.
    let blanks = line[colon + 1..].len() - trim_start(&line[colon + 1..]).len();
    let value_start = place.start + colon + 1 + blanks;
    let name = place.start..place.start + colon;
    fields.came(name, value_start..value_start + value.len());
    Ok(())
}

/// Reads a field's name, writes it in lower case, and gives the place of the colon behind it.
fn decode_name(line: &[u8], lower: &mut [u8]) -> Result<usize, Kind> {
    // Names are short: to look for their end byte by byte is faster than to prepare to look for it in strides.
    for (at, (byte, lower)) in line.iter().zip(lower).enumerate() {
        match LOWER[usize::from(*byte)] {
            0 if *byte == b':' && (1..=NAME_BYTES).contains(&at) => return Ok(at),
            0 => break,
            small => *lower = small,
        }
    }

    // Only a refused line is read again, for its reason.
    match line.iter().position(|byte| *byte == b':') {
        Some(colon) => Err(name_fault(&line[..colon])),
        None => Err(cr_or(line, Kind::MissingColon)),
    }
}

/// Each byte of a token in lower case; 0 for those that no token has.
static LOWER: [u8; 256] = {
    let mut lower = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        if is_token_byte(byte) {
            lower[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    lower
};

/// Says which rule a refused field name broke.
fn name_fault(name: &[u8]) -> Kind {
    match name.last() {
        None => Kind::EmptyName,
        Some(last) if is_blank(*last) => Kind::SpaceBeforeColon,
        Some(_) => cr_or(name, Kind::BadName),
    }
}

/// `BareCr` when the bytes hold CR, otherwise the fault given.
pub(super) fn cr_or(bytes: &[u8], fault: Kind) -> Kind {
    if bytes.contains(&b'\r') {
        Kind::BareCr
    } else {
        fault
    }
}

/// Reads `HTTP/1.0` or `HTTP/1.1`; the name is case-sensitive (RFC 9112 2.3).
pub(super) fn decode_version(bytes: &[u8]) -> Result<Version, Kind> {
    match bytes {
        b"HTTP/1.1" => Ok(Version::HTTP_11),
        b"HTTP/1.0" => Ok(Version::HTTP_10),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Err(Kind::UnsupportedVersion)
        }
        _ => Err(Kind::BadVersion),
    }
}

/// Space or tab.
pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The bytes without the spaces and tabs before them.
fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    bytes
}

/// The bytes without the spaces and tabs around them.
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    let mut bytes = trim_start(bytes);

    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }

    bytes
}
