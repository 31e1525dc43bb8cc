//! What heads and trailer sections share: where they end, and their field lines (RFC 9112 2.2, 5).

use bytes::Bytes;
use http::header::InvalidHeaderName;
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use memchr::{memchr, memchr_iter};

use super::error::DecodeErrorKind as Kind;
pub(super) use crate::quoted::{is_tchar as is_token_byte, is_token};
use crate::trace_context::TRACEPARENT;

/// What a search for the end of a section found.
pub(super) enum HeadSection {
    /// It ends before this offset, and has this many lines, the empty one included.
    Complete { end: usize, lines: usize },
    /// More bytes are needed.
    Partial,
    /// It does not end within the limit, and has this many whole lines within it.
    TooLarge { lines: usize },
}

/// Finds the empty line that ends the section beginning at `start`; the limit counts from the start of `buf`.
///
/// A line that ends in LF alone is refused as soon as it is seen (RFC 9112 2.2 lets a recipient accept it; two
/// recipients that differ in this are what request smuggling lives on).
pub(super) fn find_section(buf: &[u8], start: usize, limit: usize) -> Result<HeadSection, Kind> {
    let window = &buf[..buf.len().min(limit)];
    let mut line = start;
    let mut lines = 0;
    for offset in memchr_iter(b'\n', window.get(start..).unwrap_or_default()) {
        let lf = start + offset;
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
    section: &Bytes,
    mut at: usize,
    lines: usize,
    limit: usize,
) -> Result<HeaderMap, Kind> {
    let mut fields =
        HeaderMap::try_with_capacity(lines.min(limit)).map_err(|_| Kind::TooManyFields)?;
    let mut count = 0;
    while let Some(lf) = memchr(b'\n', &section[at..]) {
        let end = at + lf - 1;
        if end == at {
            break;
        }
        count += 1;
        if count > limit {
            return Err(Kind::TooManyFields);
        }
        let (name, value) = decode_field(section, at, end)?;
        fields
            .try_append(name, value)
            .map_err(|_| Kind::TooManyFields)?;
        at = end + 2;
    }
    Ok(fields)
}

/// Reads the field line at `start..end`; the value shares the bytes of the section.
fn decode_field(
    section: &Bytes,
    start: usize,
    end: usize,
) -> Result<(HeaderName, HeaderValue), Kind> {
    let line = &section[start..end];
    if line.first().copied().is_some_and(is_blank) {
        return Err(Kind::ObsFold);
    }
    // Names are short: to look for their end byte by byte is faster than to prepare to look for it in strides.
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return Err(cr_or(line, Kind::MissingColon));
    };
    let name = decode_name(&line[..colon]).map_err(|_| name_fault(&line[..colon]))?;
    let value = trim(&line[colon + 1..]);
    let value = HeaderValue::from_maybe_shared(section.slice_ref(value))
        .map_err(|_| cr_or(value, Kind::BadValue))?;
    Ok((name, value))
}

/// Reads a field's name. Those that Hermes itself writes in every request are no standard names, and would be allocated each time.
fn decode_name(name: &[u8]) -> Result<HeaderName, InvalidHeaderName> {
    match name {
        b"traceparent" => Ok(TRACEPARENT),
        b"user" => Ok(HeaderName::from_static("user")),
        _ => HeaderName::from_bytes(name),
    }
}

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

/// Whether a byte may stand in a field value or a reason phrase (RFC 9110 5.5): no controls but HTAB.
pub(super) fn is_text_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Whether all bytes are text bytes. It looks at all of them in any case, which lets the compiler look at many at once.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .fold(true, |fits, byte| fits & is_text_byte(*byte))
}

/// Space or tab.
pub(super) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The bytes without the spaces and tabs around them.
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}
