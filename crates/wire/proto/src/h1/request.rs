//! Request heads (RFC 9112 3).

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Version};
use memchr::memchr;

use super::connection::{self, Options};
use super::error::{DecodeError, DecodeErrorKind as Kind};
use super::framing::{self, Framing};
use super::head::{HeadSection, cr_or, decode_fields, decode_version, find_section, is_token_byte};
use super::limits::MessageLimits;
use super::target::{RequestTarget, check_authority, decode_target};
use crate::fields::Fields;
use crate::fields::names::{CONTENT_LENGTH, HOST};
use crate::upgrade::Protocol;

/// The head of a request, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// The method, a token.
    pub method: Method,
    /// The request target.
    pub target: RequestTarget,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields as they came, hop-by-hop ones included; Host is the authority of the target when that has one.
    pub fields: Fields,
    /// How long the content is; never `UntilClose`.
    pub framing: Framing,
    /// Whether another request may follow on this connection.
    ///
    /// Always false for HTTP/1.0, because a proxy must not keep such a connection (RFC 9112 9.3), and for CONNECT,
    /// because bytes after a refused one may be a tunnel's payload (RFC 9931).
    pub keep_alive: bool,
    /// The protocol of Upgrade that could be spoken, when Connection lists `upgrade` in HTTP/1.1
    /// (RFC 9110 7.8). [Protocols of connections](Protocol::is_of_connections) are ignored, as
    /// section 7.8 allows.
    pub upgrade: Option<Protocol>,
}

/// Takes one request head from the front of `buf`, and nothing after it; `None` means that more bytes are needed.
///
/// # Errors
/// The first rule that the head broke. The content of `buf` is then unspecified: answer and close.
pub fn decode_request(
    buf: &mut BytesMut,
    limits: &MessageLimits,
) -> Result<Option<RequestHead>, DecodeError> {
    let Some(start) = first_line(buf)? else {
        return Ok(None);
    };
    match find_section(buf, start, limits.head_bytes)? {
        HeadSection::Partial => Ok(None),
        HeadSection::TooLarge { lines: 0 } => Err(Kind::TargetTooLong.into()),
        HeadSection::TooLarge { .. } => Err(Kind::HeadTooLarge.into()),
        HeadSection::Complete { end, lines } => {
            let head = buf.split_to(end).freeze().slice(start..);
            Ok(Some(decode_head(&head, lines, limits)?))
        }
    }
}

/// The offset of the request line: one empty line may stand before it (RFC 9112 2.2).
fn first_line(buf: &[u8]) -> Result<Option<usize>, Kind> {
    let start = match buf {
        [] | [b'\r'] => return Ok(None),
        [b'\r', b'\n', ..] => 2,
        _ => 0,
    };
    match buf.get(start) {
        None => Ok(None),
        Some(byte) if is_token_byte(*byte) => Ok(Some(start)),
        Some(b'\n') => Err(Kind::BareLf),
        Some(b'\r') if start > 0 => Err(Kind::LeadingEmptyLines),
        Some(b'\r') => Err(Kind::BareCr),
        Some(_) => Err(Kind::BadMethod),
    }
}

fn decode_head(head: &Bytes, lines: usize, limits: &MessageLimits) -> Result<RequestHead, Kind> {
    let line_end = memchr(b'\n', head).ok_or(Kind::BadRequestLine)?;
    let (method, target, version) = decode_line(head, line_end - 1)?;
    let mut fields = decode_fields(head, line_end + 1, lines, limits.fields)?;
    if limits.keeps_spelling {
        fields.spell(&head[line_end + 1..]);
    }
    settle_host(&target, version, &mut fields)?;
    let options = connection::options(&fields)?;
    let upgrade = upgrade(version, options, &fields)?;
    let opens_tunnel = method == Method::CONNECT || (method == Method::GET && upgrade.is_some());
    let framing = request_framing(&method, version, opens_tunnel, &mut fields)?;

    Ok(RequestHead {
        upgrade,
        keep_alive: version == Version::HTTP_11 && !options.close && method != Method::CONNECT,
        method,
        target,
        version,
        fields,
        framing,
    })
}

/// Reads `method SP target SP version` (RFC 9112 3).
fn decode_line(head: &Bytes, end: usize) -> Result<(Method, RequestTarget, Version), Kind> {
    let line = &head[..end];
    let fault = cr_or(line, Kind::BadRequestLine);
    let method_end = memchr(b' ', line).ok_or(fault)?;
    let after = &line[method_end + 1..];
    let target_end = memchr(b' ', after).ok_or(fault)?;
    let target = &after[..target_end];
    let version = &after[target_end + 1..];

    if target.is_empty() || version.contains(&b' ') || fault == Kind::BareCr {
        return Err(fault);
    }

    // The version comes first: a peer that speaks another one is told so.
    let version = decode_version(version)?;
    let method = Method::from_bytes(&line[..method_end]).map_err(|_| Kind::BadMethod)?;
    let target = decode_target(&method, head.slice_ref(target))?;

    Ok((method, target, version))
}

/// Checks Host, then sets it to the authority of the target (RFC 9112 3.2, 3.2.2).
fn settle_host(target: &RequestTarget, version: Version, fields: &mut Fields) -> Result<(), Kind> {
    let authority = target.authority();
    let mut hosts = fields.values(HOST);
    let host = hosts.next();

    // The authority of the target was checked already.
    let agrees =
        authority.is_some_and(|authority| host.is_some_and(|host| host == authority.as_str()));
    match host {
        None if version == Version::HTTP_11 => return Err(Kind::MissingHost),
        Some(host) if !agrees => {
            check_authority(host.as_bytes()).map_err(|_| Kind::BadHost)?;
        }
        None | Some(_) => {}
    }

    if hosts.next().is_some() {
        return Err(Kind::SeveralHosts);
    }
    if let Some(authority) = authority.filter(|_| !agrees) {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| Kind::BadAuthority)?;
        fields.insert(HOST, host);
    }

    Ok(())
}

/// A request without a declared length has no content (RFC 9112 6.3); CONNECT never has content.
///
/// Some clients (WinINet) send `Content-Length: 0` with CONNECT. It cannot be misread, and goes no
/// further.
fn request_framing(
    method: &Method,
    version: Version,
    opens_tunnel: bool,
    fields: &mut Fields,
) -> Result<Framing, Kind> {
    match framing::declared(fields, version)? {
        Some(Framing::Length(0)) if opens_tunnel => {
            fields.remove(CONTENT_LENGTH);
            Ok(Framing::Empty)
        }
        Some(_) if *method == Method::CONNECT => Err(Kind::ConnectWithContent),
        framing => Ok(framing.unwrap_or(Framing::Empty)),
    }
}

/// RFC 9110 7.8: Upgrade counts only in HTTP/1.1 and only when Connection lists it.
fn upgrade(version: Version, options: Options, fields: &Fields) -> Result<Option<Protocol>, Kind> {
    if version == Version::HTTP_11 && options.upgrade {
        return connection::protocol(fields);
    }
    Ok(None)
}
