//! What HTTP/2 and HTTP/3 say of fields in the same words (RFC 9113, section 8.2; RFC 9114, section 4.2).

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, PROXY_AUTHORIZATION, SET_COOKIE, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Fields that belong to a connection of HTTP/1.1.
const CONNECTION_SPECIFIC: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Whether a field belongs to a connection of HTTP/1.1, and so makes a message malformed.
pub(crate) fn is_connection_specific(name: &HeaderName, value: &HeaderValue) -> bool {
    CONNECTION_SPECIFIC.contains(name) || (name == TE && value != "trailers")
}

/// What no one should be able to guess byte by byte (RFC 7541, section 7.1.3; RFC 9204, section 7.1.3).
pub(crate) fn is_secret(name: &HeaderName) -> bool {
    [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE].contains(name)
}

/// Crumbs of a cookie are one field again elsewhere (RFC 9113, section 8.2.3; RFC 9114, section 4.2.1).
pub(crate) fn join_cookies(fields: &mut HeaderMap) {
    let mut crumbs = fields.get_all(COOKIE).iter();
    if crumbs.next().is_none() || crumbs.next().is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = fields
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
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
pub(crate) fn content_length(fields: &HeaderMap) -> Result<Option<u64>, NoLength> {
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter();
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
