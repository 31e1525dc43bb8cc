//! Writing heads (RFC 9112 3, 4, 5). Targets and hosts are checked once more, wherever they come
//! from: a head that was built from HTTP/2, from configuration or from code must not smuggle a line
//! either. [`Fields`] cannot hold such a line.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};
use http::{Method, StatusCode};

use super::connection;
use super::error::MessageEncodeError;
use super::framing::{self, Framing};
use super::head::is_token;
use super::target::{RequestTarget, check_authority, check_bytes};
use crate::fields::names::HOST;
use crate::fields::{Class, Fields};

/// Bytes for the parts that are not fields of the message: the first line, and the fields of its
/// framing.
const FIRST_LINES: usize = 128;

/// Appends the head of an HTTP/1.1 request to `out`, Host first.
///
/// Host is the authority of `target`, or else that of `fields`. Content-Length and Transfer-Encoding come from
/// `framing` alone; those in `fields` are passed over. All other fields are written as they are: removing hop-by-hop
/// fields is the caller's task.
///
/// # Errors
/// When the request cannot be written safely; `out` is then as it was.
pub fn encode_request(
    method: &Method,
    target: &RequestTarget,
    fields: &Fields,
    framing: Framing,
    out: &mut BytesMut,
) -> Result<(), MessageEncodeError> {
    encode_request_for(method, target, host(target, fields)?, fields, framing, out)
}

/// As [`encode_request`], for the host that is given: that in `fields` is passed over.
///
/// # Errors
/// As for [`encode_request`].
pub fn encode_request_for(
    method: &Method,
    target: &RequestTarget,
    host: &[u8],
    fields: &Fields,
    framing: Framing,
    out: &mut BytesMut,
) -> Result<(), MessageEncodeError> {
    check_request(method, target, framing)?;
    check_authority(host).map_err(|_| MessageEncodeError::BadHost)?;
    out.reserve(usual_size(fields) + 2 * host.len());

    all_or_nothing(out, |out| {
        out.put_slice(method.as_str().as_bytes());
        out.put_u8(b' ');
        put_target(target, out)?;
        out.put_slice(b" HTTP/1.1\r\n");
        let framing = match framing {
            Framing::Empty if expects_content(method) => Framing::Length(0),
            framing => framing,
        };

        if fields.is_spelled() {
            put_spelled(host, framing, fields, out);
            return Ok(());
        }
        out.put_slice(b"host: ");
        out.put_slice(host);
        out.put_slice(b"\r\n");
        put_framing(framing, out);
        put_fields(fields, out);
        Ok(())
    })
}

/// Writes the fields of a request for an origin that tells capitals from small letters.
fn put_spelled(host: &[u8], framing: Framing, fields: &Fields, out: &mut BytesMut) {
    out.put_slice(b"Host: ");
    out.put_slice(host);
    out.put_slice(b"\r\n");
    match framing {
        Framing::Empty | Framing::UntilClose => {}
        // Writing to a growing buffer cannot fail.
        Framing::Length(length) => drop(write!(out, "Content-Length: {length}\r\n")),
        Framing::Chunked => out.put_slice(b"Transfer-Encoding: chunked\r\n"),
    }

    fields.put_spelled(Class::FRAMING, out);
    out.put_slice(b"\r\n");
}

/// Appends the head of an HTTP/1.1 response to `out`.
///
/// `method` is that of the request answered. Content-Length and Transfer-Encoding come from `framing` alone, with one
/// exception: in an answer to HEAD and in a 304, `Empty` keeps the Content-Length of `fields`, for it tells of content
/// that is not sent (RFC 9110 8.6). `Empty` writes `content-length: 0` wherever a length may stand; `UntilClose` writes
/// `connection: close`. For an HTTP/1.0 client choose `UntilClose` instead of `Chunked`.
///
/// # Errors
/// When the response cannot be written safely; `out` is then as it was.
pub fn encode_response(
    status: StatusCode,
    fields: &Fields,
    framing: Framing,
    method: &Method,
    out: &mut BytesMut,
) -> Result<(), MessageEncodeError> {
    let announced = announced(status, fields, framing, method)?;
    let options = connection::options(fields).map_err(|_| MessageEncodeError::BadField)?;
    out.reserve(usual_size(fields));

    all_or_nothing(out, |out| {
        out.put_slice(b"HTTP/1.1 ");
        out.put_slice(status.as_str().as_bytes());
        out.put_u8(b' ');
        out.put_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        out.put_slice(b"\r\n");
        put_framing(announced, out);

        if announced == Framing::UntilClose && !options.close {
            out.put_slice(b"connection: close\r\n");
        }
        put_fields(fields, out);
        Ok(())
    })
}

/// The framing that a response announces; `Empty` announces nothing.
fn announced(
    status: StatusCode,
    fields: &Fields,
    framing: Framing,
    method: &Method,
) -> Result<Framing, MessageEncodeError> {
    // RFC 9110 8.6, 9.3.6; RFC 9112 6.1: no Content-Length and no Transfer-Encoding in these.
    let tunnel = *method == Method::CONNECT && status.is_success();
    if tunnel || status.is_informational() || status == StatusCode::NO_CONTENT {
        return match framing {
            Framing::Empty => Ok(Framing::Empty),
            _ => Err(MessageEncodeError::BadFraming),
        };
    }

    let without_content = *method == Method::HEAD || status == StatusCode::NOT_MODIFIED;
    match framing {
        Framing::Length(length) => Ok(Framing::Length(length)),
        Framing::Empty if without_content => {
            let kept = framing::content_length(fields).map_err(|_| MessageEncodeError::BadField)?;
            Ok(kept.map_or(Framing::Empty, Framing::Length))
        }
        Framing::Empty => Ok(Framing::Length(0)),
        Framing::Chunked | Framing::UntilClose if without_content => Ok(Framing::Empty),
        Framing::Chunked | Framing::UntilClose => Ok(framing),
    }
}

fn check_request(
    method: &Method,
    target: &RequestTarget,
    framing: Framing,
) -> Result<(), MessageEncodeError> {
    if !is_token(method.as_str().as_bytes()) {
        return Err(MessageEncodeError::BadMethod);
    }
    let connect = *method == Method::CONNECT;
    let form_fits = match target {
        RequestTarget::Authority(authority) => {
            connect && matches!(check_authority(authority.as_str().as_bytes()), Ok(Some(_)))
        }
        RequestTarget::Asterisk => *method == Method::OPTIONS,
        RequestTarget::Origin(path) => !connect && path.as_str() != "*",
        RequestTarget::Absolute { path, .. } => {
            !connect && (path.as_str() != "*" || *method == Method::OPTIONS)
        }
    };

    if !form_fits {
        return Err(MessageEncodeError::BadTarget);
    }
    if framing == Framing::UntilClose || (connect && framing != Framing::Empty) {
        return Err(MessageEncodeError::BadFraming);
    }

    Ok(())
}

/// The bytes of Host: exactly one (RFC 9112 3.2).
fn host<'a>(target: &'a RequestTarget, fields: &'a Fields) -> Result<&'a [u8], MessageEncodeError> {
    if let Some(authority) = target.authority() {
        return Ok(authority.as_str().as_bytes());
    }
    let mut hosts = fields.values(HOST);
    let host = hosts.next().ok_or(MessageEncodeError::MissingHost)?;

    if hosts.next().is_some() {
        return Err(MessageEncodeError::BadHost);
    }
    Ok(host.as_bytes())
}

fn put_target(target: &RequestTarget, out: &mut BytesMut) -> Result<(), MessageEncodeError> {
    let start = out.len();
    match target {
        RequestTarget::Origin(path) => put_path(path.as_str(), out),
        RequestTarget::Authority(authority) => out.put_slice(authority.as_str().as_bytes()),
        RequestTarget::Asterisk => out.put_u8(b'*'),
        RequestTarget::Absolute {
            scheme,
            authority,
            path,
        } => {
            out.put_slice(scheme.as_str().as_bytes());
            out.put_slice(b"://");
            out.put_slice(authority.as_str().as_bytes());
            if path.as_str() != "*" {
                put_path(path.as_str(), out);
            }
        }
    }

    check_bytes(&out[start..]).map_err(|_| MessageEncodeError::BadTarget)
}

fn put_path(path: &str, out: &mut BytesMut) {
    if !path.starts_with('/') {
        out.put_u8(b'/');
    }
    out.put_slice(path.as_bytes());
}

/// RFC 9110 8.6: these methods say so when they have no content.
fn expects_content(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

fn put_framing(framing: Framing, out: &mut BytesMut) {
    match framing {
        Framing::Empty | Framing::UntilClose => {}
        Framing::Length(length) => put_length(length, out),
        Framing::Chunked => out.put_slice(b"transfer-encoding: chunked\r\n"),
    }
}

fn put_length(length: u64, out: &mut BytesMut) {
    // Writing to a growing buffer cannot fail.
    let _ = write!(out, "content-length: {length}\r\n");
}

/// Writes every field but those that the codec writes itself, and the empty line.
fn put_fields(fields: &Fields, out: &mut BytesMut) {
    put_lines(fields, Class::FRAMING, out);
    out.put_slice(b"\r\n");
}

/// Writes all lines but those of a class.
pub(super) fn put_lines(fields: &Fields, without: Class, out: &mut BytesMut) {
    for piece in fields.wire(without) {
        out.put_slice(piece);
    }
}

/// Bytes that most heads with these fields take, so that the buffer grows once.
fn usual_size(fields: &Fields) -> usize {
    FIRST_LINES + fields.size() + fields.len() * ": \r\n".len()
}

/// Undoes a half-written message.
fn all_or_nothing(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), MessageEncodeError>,
) -> Result<(), MessageEncodeError> {
    let start = out.len();
    write(out).inspect_err(|_| out.truncate(start))
}
