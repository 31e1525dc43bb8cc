//! How the length of a message's content is known (RFC 9112 6).

use http::Version;

use super::error::DecodeErrorKind as Kind;
use super::head::{is_token, trim};
use crate::fields::Fields;
use crate::fields::names::{CONTENT_LENGTH, TRANSFER_ENCODING};

/// How the end of the content is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no content, and nothing announces any.
    Empty,
    /// Exactly this many bytes.
    Length(u64),
    /// The chunked coding (RFC 9112 7.1); the only framing with trailers.
    Chunked,
    /// Everything until the connection closes; responses only.
    UntilClose,
}

/// Reads the framing that the fields declare; `None` if they declare no framing.
pub(super) fn declared(fields: &Fields, version: Version) -> Result<Option<Framing>, Kind> {
    let length = content_length(fields)?;
    if !fields.contains_key(TRANSFER_ENCODING) {
        return Ok(length.map(Framing::Length));
    }

    // RFC 9112 6.1: with both, two recipients can disagree about the end, which is request smuggling.
    if length.is_some() {
        return Err(Kind::LengthAndTransferEncoding);
    }
    // RFC 9112 6.1: in HTTP/1.0 its framing is faulty, as the sender may not know the field.
    if version == Version::HTTP_10 {
        return Err(Kind::TransferEncodingInHttp10);
    }

    only_chunked(fields)?;
    Ok(Some(Framing::Chunked))
}

/// The value of the one Content-Length line, if there is one.
pub(super) fn content_length(fields: &Fields) -> Result<Option<u64>, Kind> {
    let mut lines = fields.values(CONTENT_LENGTH);
    let Some(value) = lines.next() else {
        return Ok(None);
    };

    if lines.next().is_some() {
        return Err(Kind::SeveralLengths);
    }
    decimal(value.as_bytes()).map(Some)
}

/// Reads `1*DIGIT` (RFC 9110 8.6): no sign, no space, no list.
fn decimal(digits: &[u8]) -> Result<u64, Kind> {
    if digits.contains(&b',') {
        return Err(Kind::LengthList);
    }
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Kind::BadLength);
    }

    digits
        .iter()
        .try_fold(0u64, |sum, digit| {
            sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .ok_or(Kind::LengthOverflow)
}

/// Accepts `chunked`, once and alone, over all lines.
fn only_chunked(fields: &Fields) -> Result<(), Kind> {
    let mut seen = false;
    for line in fields.values(TRANSFER_ENCODING) {
        for coding in line.as_bytes().split(|byte| *byte == b',').map(trim) {
            if !is_token(coding) {
                return Err(Kind::BadTransferEncoding);
            }
            if !coding.eq_ignore_ascii_case(b"chunked") {
                return Err(Kind::UnknownTransferCoding);
            }

            if seen {
                return Err(Kind::RepeatedChunked);
            }
            seen = true;
        }
    }

    Ok(())
}
