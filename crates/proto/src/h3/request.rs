//! Heads of requests (RFC 9114, sections 4.3.1 and 4.4; RFC 9220).

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method};

use super::code::Fault;
use super::fields::{self, EncodeError, Pseudo, all_or_nothing};
use crate::path::{self, BadPath};
use crate::qpack::{self, Limits};
use crate::upgrade::Protocol;

/// The head of a request, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// `:scheme`; `None` for CONNECT without a protocol.
    pub scheme: Option<Scheme>,
    /// `:authority`, or else `Host`; always there for CONNECT, and then with a port if there is no protocol.
    pub authority: Option<Authority>,
    /// `:path`; `None` for CONNECT without a protocol; `*` for `OPTIONS *`.
    pub path: Option<PathAndQuery>,
    /// `:protocol` of extended CONNECT.
    pub protocol: Option<Protocol>,
    /// The fields without `Host`.
    pub fields: HeaderMap,
}

/// A request that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// It breaks the protocol.
    #[error("{}", .0.reason)]
    Fault(Fault),
    /// Its path is refused: answer 400, or 414.
    #[error(transparent)]
    Path(#[from] BadPath),
}

impl From<Fault> for BadRequest {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Reads the head of a request.
///
/// # Errors
/// The section cannot be read, is too large, or the request is malformed.
pub fn decode_request(section: Bytes, limits: Limits) -> Result<RequestHead, BadRequest> {
    let (pseudo, mut fields) = fields::decode(section, limits)?;
    if pseudo.status.is_some() {
        return Err(Fault::message("a request with :status").into());
    }
    let method = pseudo
        .method
        .as_deref()
        .ok_or(Fault::message("a request without :method"))?;
    let method = Method::from_bytes(method).map_err(|_| Fault::message(":method is no token"))?;
    let authority = settle_authority(pseudo.authority.clone(), &mut fields)?;
    let protocol = pseudo
        .protocol
        .as_deref()
        .map(decode_protocol)
        .transpose()?;
    let (scheme, path) = match (&method, &protocol) {
        (&Method::CONNECT, None) => {
            check_connect(&pseudo, authority.as_ref())?;
            (None, None)
        }
        (&Method::CONNECT, Some(_)) | (_, None) => target(&method, &pseudo, authority.as_ref())?,
        // RFC 8441, section 4, as RFC 9220 takes it over.
        (_, Some(_)) => return Err(Fault::message(":protocol without CONNECT").into()),
    };
    Ok(RequestHead {
        method,
        scheme,
        authority,
        path,
        protocol,
        fields,
    })
}

/// RFC 9114, section 4.4: neither scheme nor path, and a host with a port (RFC 9110, section 9.3.6).
fn check_connect(pseudo: &Pseudo, authority: Option<&Authority>) -> Result<(), Fault> {
    if pseudo.scheme.is_some() || pseudo.path.is_some() {
        return Err(Fault::message("CONNECT with :scheme or :path"));
    }
    match (&pseudo.authority, authority.map(Authority::port_u16)) {
        (Some(_), Some(Some(1..))) => Ok(()),
        _ => Err(Fault::message("CONNECT without a host and a port")),
    }
}

/// RFC 9114, section 4.3.1: scheme and path are needed, and for http and https an authority and a path.
fn target(
    method: &Method,
    pseudo: &Pseudo,
    authority: Option<&Authority>,
) -> Result<(Option<Scheme>, Option<PathAndQuery>), BadRequest> {
    let (Some(scheme), Some(path)) = (&pseudo.scheme, &pseudo.path) else {
        return Err(Fault::message("a request without :scheme or :path").into());
    };
    let scheme =
        Scheme::try_from(&scheme[..]).map_err(|_| Fault::message(":scheme is no scheme"))?;
    let web = scheme == Scheme::HTTP || scheme == Scheme::HTTPS;
    if authority.is_none() && (web || method == Method::CONNECT) {
        return Err(Fault::message("a request without :authority and Host").into());
    }
    let path = match path[..] {
        [b'*'] if method == Method::OPTIONS => PathAndQuery::from_static("*"),
        [b'/', ..] => path::decode(path.clone())?,
        _ => return Err(Fault::message(":path is no path").into()),
    };
    Ok((Some(scheme), Some(path)))
}

fn decode_protocol(protocol: &[u8]) -> Result<Protocol, Fault> {
    Protocol::parse(protocol).map_err(|_| Fault::message(":protocol is not one protocol"))
}

/// RFC 9114, section 4.3.1: `Host` says what `:authority` says, which names no user.
fn settle_authority(
    pseudo: Option<Bytes>,
    fields: &mut HeaderMap,
) -> Result<Option<Authority>, Fault> {
    let mut hosts = fields.get_all(HOST).iter();
    let host = hosts
        .next()
        .map(|host| Bytes::copy_from_slice(host.as_bytes()));
    if hosts.next().is_some() {
        return Err(Fault::message("several host fields"));
    }
    fields.remove(HOST);
    let parse = |bytes: Bytes| match Authority::from_maybe_shared(bytes) {
        Ok(authority) if !authority.as_str().contains('@') => Ok(authority),
        _ => Err(Fault::message("the authority is malformed")),
    };
    let authority = pseudo.map(parse).transpose()?;
    let host = host.map(parse).transpose()?;
    match (authority, host) {
        (Some(authority), Some(host)) if authority != host => {
            Err(Fault::message("host differs from :authority"))
        }
        (authority, host) => Ok(authority.or(host)),
    }
}

/// A request to be written; as [`RequestHead`], but of someone else's parts.
#[derive(Debug, Clone, Copy)]
pub struct RequestParts<'a> {
    /// The method.
    pub method: &'a Method,
    /// `:scheme`.
    pub scheme: Option<&'a Scheme>,
    /// `:authority`.
    pub authority: Option<&'a Authority>,
    /// `:path`.
    pub path: Option<&'a PathAndQuery>,
    /// `:protocol`.
    pub protocol: Option<&'a Protocol>,
    /// The fields; `Host` is passed over.
    pub fields: &'a HeaderMap,
}

impl<'a> From<&'a RequestHead> for RequestParts<'a> {
    fn from(head: &'a RequestHead) -> Self {
        let RequestHead {
            method,
            scheme,
            authority,
            path,
            protocol,
            fields,
        } = head;
        let scheme = scheme.as_ref();
        let authority = authority.as_ref();
        let path = path.as_ref();
        Self {
            method,
            scheme,
            authority,
            path,
            protocol: protocol.as_ref(),
            fields,
        }
    }
}

/// Appends the encoded head of a request to `output`.
///
/// # Errors
/// The request would be malformed; `output` is then as it was.
pub fn encode_request(
    request: &RequestParts<'_>,
    output: &mut BytesMut,
) -> Result<(), EncodeError> {
    check(request)?;
    all_or_nothing(output, |output| {
        qpack::encode_prefix(output);
        let connect = *request.method == Method::CONNECT && request.protocol.is_none();
        let pseudo = [
            (":method", Some(request.method.as_str())),
            (
                ":scheme",
                request.scheme.map(Scheme::as_str).filter(|_| !connect),
            ),
            (":authority", request.authority.map(Authority::as_str)),
            (
                ":path",
                request.path.map(PathAndQuery::as_str).filter(|_| !connect),
            ),
            (":protocol", request.protocol.map(Protocol::as_str)),
        ];
        for (name, value) in pseudo {
            if let Some(value) = value {
                qpack::encode_line(name.as_bytes(), value.as_bytes(), false, output);
            }
        }
        fields::encode(request.fields, output)
    })
}

fn check(request: &RequestParts<'_>) -> Result<(), EncodeError> {
    let connect = *request.method == Method::CONNECT;
    let whole = request.scheme.is_some() && request.path.is_some();
    let fault = match request.protocol {
        Some(_) if !connect => "a protocol without CONNECT",
        None if connect && request.authority.and_then(Authority::port_u16).is_none() => {
            "CONNECT without a port"
        }
        None if connect => return Ok(()),
        _ if !whole => "no scheme or no path",
        _ if request.authority.is_none() => "no authority",
        _ => return Ok(()),
    };
    Err(EncodeError::Request(fault))
}
