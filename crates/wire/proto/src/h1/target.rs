//! The four forms of a request target (RFC 9112 3.2).

use std::net::Ipv6Addr;

use bytes::{BufMut, Bytes, BytesMut};
use http::Method;
use http::uri::{Authority, PathAndQuery, Scheme};

use super::error::DecodeErrorKind as Kind;
use crate::path;

/// The longest target that can be held.
#[doc(alias = "bound")]
const LONGEST: usize = u16::MAX as usize - 1;

/// The target of a request, in the form that it was written in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestTarget {
    /// `/path?query`: the authority is in Host (RFC 9112 3.2.1).
    Origin(PathAndQuery),
    /// `http://authority/path?query`: a request to a proxy (RFC 9112 3.2.2).
    Absolute {
        /// http or https.
        scheme: Scheme,
        /// Host and perhaps port, without user information.
        authority: Authority,
        /// Begins with `/`; is `*` when an OPTIONS request had an empty path, because then the last proxy must send
        /// the asterisk-form (RFC 9112 3.2.4).
        path: PathAndQuery,
    },
    /// `host:port`: CONNECT only; the port is 1 to 65535 (RFC 9112 3.2.3).
    Authority(Authority),
    /// `*`: OPTIONS only (RFC 9112 3.2.4).
    Asterisk,
}

impl RequestTarget {
    /// The authority, when the target itself names one.
    pub fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Absolute { authority, .. } | Self::Authority(authority) => Some(authority),
            Self::Origin(_) | Self::Asterisk => None,
        }
    }
}

/// Reads a target; the method decides which forms fit.
pub(super) fn decode_target(method: &Method, raw: Bytes) -> Result<RequestTarget, Kind> {
    if raw.len() > LONGEST {
        return Err(Kind::TargetTooLong);
    }
    if *method == Method::CONNECT {
        return connect_target(raw);
    }

    match raw[..] {
        [b'*'] if *method == Method::OPTIONS => Ok(RequestTarget::Asterisk),
        [b'/', ..] => decode_path(raw).map(RequestTarget::Origin),
        _ => absolute_target(method, &raw),
    }
}

/// Visible ASCII without a fragment (RFC 9110 7.1, RFC 9112 3.2).
pub(super) fn check_bytes(raw: &[u8]) -> Result<(), Kind> {
    let fits = raw.iter().fold(true, |fits, byte| {
        fits & byte.is_ascii_graphic() & (*byte != b'#')
    });
    if fits { Ok(()) } else { Err(Kind::BadTarget) }
}

fn connect_target(raw: Bytes) -> Result<RequestTarget, Kind> {
    // RFC 9110 9.3.6: a server MUST reject a CONNECT request with an empty or invalid port.
    match check_authority(&raw)? {
        Some(_) => decode_authority(raw).map(RequestTarget::Authority),
        None => Err(Kind::BadPort),
    }
}

fn absolute_target(method: &Method, raw: &Bytes) -> Result<RequestTarget, Kind> {
    let Some(colon) = raw.windows(3).position(|three| three == b"://") else {
        return Err(Kind::TargetForm);
    };
    let scheme = match &raw[..colon] {
        http if http.eq_ignore_ascii_case(b"http") => Scheme::HTTP,
        https if https.eq_ignore_ascii_case(b"https") => Scheme::HTTPS,
        _ => return Err(Kind::Scheme),
    };

    let rest = raw.slice(colon + 3..);
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .unwrap_or(rest.len());
    let authority = rest.slice(..end);
    check_authority(&authority)?;

    Ok(RequestTarget::Absolute {
        scheme,
        authority: decode_authority(authority)?,
        path: absolute_path(method, rest.slice(end..))?,
    })
}

/// RFC 9110 4.2.3: an empty path is `/`, except with OPTIONS, where it stands for the asterisk-form.
fn absolute_path(method: &Method, raw: Bytes) -> Result<PathAndQuery, Kind> {
    match raw.first() {
        None if *method == Method::OPTIONS => Ok(PathAndQuery::from_static("*")),
        None => Ok(PathAndQuery::from_static("/")),
        Some(b'/') => decode_path(raw),
        Some(_) => {
            let mut path = BytesMut::with_capacity(raw.len() + 1);
            path.put_u8(b'/');
            path.extend_from_slice(&raw);
            decode_path(path.freeze())
        }
    }
}

fn decode_path(raw: Bytes) -> Result<PathAndQuery, Kind> {
    Ok(path::decode(raw)?)
}

fn decode_authority(raw: Bytes) -> Result<Authority, Kind> {
    Authority::from_maybe_shared(raw).map_err(|_| Kind::BadAuthority)
}

/// Checks `host` or `host:port` and gives the port (RFC 9110 4.2.1, RFC 3986 3.2.2).
///
/// Percent-encoded hosts and IPvFuture literals are refused: nothing can be dialled from them.
pub(super) fn check_authority(raw: &[u8]) -> Result<Option<u16>, Kind> {
    if raw.contains(&b'@') {
        return Err(Kind::Userinfo);
    }
    let text = std::str::from_utf8(raw).map_err(|_| Kind::BadAuthority)?;
    let port = if let Some(literal) = text.strip_prefix('[') {
        let (host, port) = literal.split_once(']').ok_or(Kind::BadAuthority)?;
        host.parse::<Ipv6Addr>().map_err(|_| Kind::BadAuthority)?;
        port
    } else {
        let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
        if host.is_empty() || !host.bytes().all(is_host_byte) {
            return Err(Kind::BadAuthority);
        }
        port
    };

    match port.strip_prefix(':') {
        Some(digits) => check_port(digits).map(Some),
        None if port.is_empty() => Ok(None),
        None => Err(Kind::BadAuthority),
    }
}

fn check_port(digits: &str) -> Result<u16, Kind> {
    // `u16::from_str` would take a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Kind::BadPort);
    }
    match digits.parse() {
        Ok(0) | Err(_) => Err(Kind::BadPort),
        Ok(port) => Ok(port),
    }
}

/// RFC 3986 3.2.2: unreserved and sub-delims.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}
