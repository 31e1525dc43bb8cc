//! The trailer section after the last chunk (RFC 9110 6.5, RFC 9112 7.1.2).

use bytes::BytesMut;

use super::error::DecodeErrorKind as Kind;
use super::head::{HeadSection, decode_fields, find_section};
use super::repair;
use crate::fields::Fields;

/// Whether a field must not be a trailer: one that frames, routes, authenticates, controls or describes the message
/// (RFC 9110 6.5.1).
///
/// Trailers that came over HTTP/2 or HTTP/3 should be cleared of these before they are encoded here.
pub fn is_forbidden_trailer(name: &str) -> bool {
    matches!(
        name,
        // Framing, routing and the connection.
        "content-length" | "transfer-encoding" | "host" | "connection" | "keep-alive" | "proxy-connection"
        | "te" | "trailer" | "upgrade"
        // Request modifiers.
        | "cache-control" | "expect" | "max-forwards" | "pragma" | "range" | "if-match" | "if-none-match"
        | "if-modified-since" | "if-unmodified-since" | "if-range"
        // Authentication.
        | "authorization" | "proxy-authorization" | "www-authenticate" | "proxy-authenticate" | "cookie" | "set-cookie"
        // Response control.
        | "age" | "date" | "expires" | "location" | "retry-after" | "vary" | "warning"
        // The format of the content.
        | "content-encoding" | "content-type" | "content-range"
    )
}

/// The message that the trailers belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrailersOf {
    /// A client's: refused where they could be read as fields of the head.
    Request,
    /// An origin's, mended: its content has passed, and all that could come of a refusal is a reset.
    Response,
}

/// Whether they belong to a request or a response, and their limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrailerRules {
    pub(super) of: TrailersOf,
    /// Field lines.
    pub(super) fields: u32,
    /// Bytes of the section with its empty line.
    pub(super) bytes: u32,
}

/// Takes a whole trailer section from the front of `buf`; `None` means that more bytes are needed.
pub(super) fn decode_trailers(
    buf: &mut BytesMut,
    rules: TrailerRules,
) -> Result<Option<Fields>, Kind> {
    match find_section(buf, 0, rules.bytes as usize)? {
        HeadSection::Partial => Ok(None),
        HeadSection::TooLarge { .. } => Err(Kind::TrailersTooLarge),
        HeadSection::Complete { end, lines } => {
            let section = buf.split_to(end).freeze();
            let most = rules.fields as usize;
            let trailers = match rules.of {
                TrailersOf::Request => of_request(&section, lines, most)?,
                TrailersOf::Response => of_response(&section, lines, most)?,
            };
            Ok(Some(trailers))
        }
    }
}

fn of_request(section: &[u8], lines: usize, most: usize) -> Result<Fields, Kind> {
    let trailers = decode_fields(section, 0, lines, most)?;
    if trailers.names().any(|name| is_forbidden_trailer(&name)) {
        return Err(Kind::ForbiddenTrailer);
    }
    Ok(trailers)
}

/// RFC 9110 6.5.1: a field that must not be a trailer is discarded.
fn of_response(section: &[u8], lines: usize, most: usize) -> Result<Fields, Kind> {
    let mut trailers = repair::decode_fields(section, 0, lines, most)?;
    trailers.retain(|name| !is_forbidden_trailer(&name));
    Ok(trailers)
}
