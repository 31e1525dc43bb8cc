//! The rules for fields that HTTP/2 and HTTP/3 share (RFC 9113, section 8.2; RFC 9114, section
//! 4.2).

use http::HeaderValue;

use crate::fields::names::{CONTENT_LENGTH, COOKIE};
use crate::fields::{Class, FieldValue, Fields, NameId};

/// Whether a field belongs to a connection of HTTP/1.1, and so makes a message malformed.
pub(crate) fn is_connection_specific(id: NameId, value: &[u8]) -> bool {
    id.is(Class::CONNECTION) || (id.is(Class::TE) && value != b"trailers")
}

/// Whether no one should be able to guess it byte by byte (RFC 7541, section 7.1.3; RFC 9204, section 7.1.3).
pub(crate) fn is_secret(id: NameId, value: FieldValue<'_>) -> bool {
    value.is_sensitive() || id.is(Class::SECRET)
}

/// Crumbs of a cookie are one field again elsewhere (RFC 9113, section 8.2.3; RFC 9114, section 4.2.1).
pub(crate) fn join_cookies(fields: &mut Fields) {
    let mut crumbs = fields.values(COOKIE);
    if crumbs.next().is_none() || crumbs.next().is_none() {
        return;
    }

    let crumbs: Vec<&[u8]> = fields.values(COOKIE).map(FieldValue::as_bytes).collect();
    if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        fields.insert(COOKIE, cookie);
    }
}

/// The length that fields announce is not one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoLength;

/// The length of the content that `fields` announce.
///
/// # Errors
/// There are several, or one that is no number (RFC 9110, section 8.6).
pub(crate) fn content_length(fields: &Fields) -> Result<Option<u64>, NoLength> {
    let mut lengths = fields.values(CONTENT_LENGTH);
    let Some(length) = lengths.next() else {
        return Ok(None);
    };

    let digits = length.as_bytes();
    let number = std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok());
    match number {
        // `parse` would take a sign.
        Some(number) if lengths.next().is_none() && digits.iter().all(u8::is_ascii_digit) => {
            Ok(Some(number))
        }
        _ => Err(NoLength),
    }
}

/// Makes one line of several lengths that are the same number, as a response may have them (RFC 9110, section 8.6); whether there is
/// one line now.
pub(crate) fn join_lengths(fields: &mut Fields) -> bool {
    let mut members = fields
        .values(CONTENT_LENGTH)
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii);
    let Some(first) = members.next() else {
        return false;
    };

    let is_number = !first.is_empty() && first.iter().all(u8::is_ascii_digit);
    let is_same = is_number && members.all(|member| member == first);
    let length = HeaderValue::from_bytes(first);
    match length {
        Ok(length) if is_same => {
            fields.insert(CONTENT_LENGTH, length);
            true
        }
        _ => false,
    }
}

/// As [`content_length`], for a response: the same number may be there several times.
///
/// # Errors
/// As for [`content_length`].
pub(crate) fn response_length(fields: &mut Fields) -> Result<Option<u64>, NoLength> {
    match content_length(fields) {
        Err(NoLength) if join_lengths(fields) => content_length(fields),
        length => length,
    }
}
