//! Heads of requests (RFC 9114, sections 4.3.1 and 4.4; RFC 9220).

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Version};

use super::code::Fault;
use super::fields::{self, FieldEncodeError, Received};
use crate::fields::names::HOST;
use crate::fields::{Fields, LineName, PseudoName};
use crate::head::RequestHead;
use crate::path::{self, BadPath};
use crate::pseudo_fields::PseudoFields;
use crate::qpack::SectionEncoder;
use crate::upgrade::Protocol;

/// A request that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// A breach of the protocol.
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

/// Reads the head of a request. The authority is that of `:authority`, or else of `Host`: always there for CONNECT, and then
/// with a port if there is no protocol.
///
/// # Errors
/// The section cannot be read, is too large, or the request is malformed.
pub fn decode_request(received: Received<'_>) -> Result<RequestHead, BadRequest> {
    let (pseudo, mut fields) = fields::decode(received)?;
    if pseudo.has(PseudoName::Status) {
        return Err(Fault::message("a request with :status").into());
    }

    let method = pseudo
        .get(PseudoName::Method)
        .ok_or(Fault::message("a request without :method"))?;
    let method =
        Method::from_bytes(method).map_err(|_| Fault::message(":method is not a token"))?;
    let authority = settle_authority(pseudo.bytes(PseudoName::Authority), &mut fields)?;
    let protocol = pseudo
        .get(PseudoName::Protocol)
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
        version: Version::HTTP_3,
        origin_form: false,
    })
}

/// RFC 9114, section 4.4: neither scheme nor path, and a host with a port (RFC 9110, section 9.3.6).
fn check_connect(pseudo: &PseudoFields, authority: Option<&Authority>) -> Result<(), Fault> {
    if pseudo.has(PseudoName::Scheme) || pseudo.has(PseudoName::Path) {
        return Err(Fault::message("CONNECT with :scheme or :path"));
    }
    match authority.and_then(Authority::port_u16) {
        // Port 0 cannot be connected to.
        Some(1..) if pseudo.has(PseudoName::Authority) => Ok(()),
        _ => Err(Fault::message("CONNECT without a host and a port")),
    }
}

/// RFC 9114, section 4.3.1: scheme and path are needed, and for http and https an authority and a path.
fn target(
    method: &Method,
    pseudo: &PseudoFields,
    authority: Option<&Authority>,
) -> Result<(Option<Scheme>, Option<PathAndQuery>), BadRequest> {
    let scheme = pseudo.get(PseudoName::Scheme);
    let path = pseudo.bytes(PseudoName::Path);
    let Some((scheme, path)) = scheme.zip(path) else {
        return Err(Fault::message("a request without :scheme or :path").into());
    };
    let scheme = Scheme::try_from(scheme).map_err(|_| Fault::message(":scheme is not a scheme"))?;
    let web = scheme == Scheme::HTTP || scheme == Scheme::HTTPS;

    if authority.is_none() && (web || method == Method::CONNECT) {
        return Err(Fault::message("a request without :authority and Host").into());
    }
    let path = match path[..] {
        // RFC 9110, section 7.1: the asterisk form is for OPTIONS alone.
        [b'*'] if method == Method::OPTIONS => PathAndQuery::from_static("*"),
        [b'/', ..] => path::decode(path)?,
        _ => return Err(Fault::message(":path is not a path").into()),
    };

    Ok((Some(scheme), Some(path)))
}

fn decode_protocol(protocol: &[u8]) -> Result<Protocol, Fault> {
    Protocol::parse(protocol).map_err(|_| Fault::message(":protocol is not one protocol"))
}

/// RFC 9114, section 4.3.1: sets `Host` to `:authority`, which must have no user.
fn settle_authority(
    pseudo: Option<Bytes>,
    fields: &mut Fields,
) -> Result<Option<Authority>, Fault> {
    // Two hosts could be read differently by two hops, so there must be one at most, and the same as `:authority`.
    let mut hosts = fields.values(HOST);
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
    pub fields: &'a Fields,
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
            ..
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

/// Writes the head of a request.
///
/// # Errors
/// The request would be malformed; the output is then as it was.
pub fn encode_request(
    request: &RequestParts<'_>,
    mut section: SectionEncoder<'_>,
) -> Result<(), FieldEncodeError> {
    check(request)?;
    let connect = *request.method == Method::CONNECT && request.protocol.is_none();
    let pseudo = [
        (PseudoName::Method, Some(request.method.as_str())),
        (
            PseudoName::Scheme,
            request.scheme.map(Scheme::as_str).filter(|_| !connect),
        ),
        (
            PseudoName::Authority,
            request.authority.map(Authority::as_str),
        ),
        (
            PseudoName::Path,
            request.path.map(PathAndQuery::as_str).filter(|_| !connect),
        ),
        (PseudoName::Protocol, request.protocol.map(Protocol::as_str)),
    ];

    for (name, value) in pseudo {
        if let Some(value) = value {
            section.line(LineName::Pseudo(name), value.as_bytes(), false);
        }
    }

    fields::encode(request.fields, &mut section)?;
    section.finish();
    Ok(())
}

fn check(request: &RequestParts<'_>) -> Result<(), FieldEncodeError> {
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

    Err(FieldEncodeError::Request(fault))
}
