//! Heads of requests and responses, the same for every HTTP version.

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Version};

use crate::fields::Fields;
use crate::upgrade::Protocol;

/// The content of an exchange once it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request and a response.
    Message,
    /// Bytes in both directions: CONNECT (RFC 9110, 9.3.6).
    Connect,
    /// HTTP datagrams: CONNECT-UDP (RFC 9298).
    ConnectUdp,
    /// IP packets: CONNECT-IP (RFC 9484).
    ConnectIp,
    /// Bytes in both directions, within capsules: connect-tcp (draft-ietf-httpbis-connect-tcp).
    ConnectTcp,
    /// Bytes in both directions under any other protocol: Upgrade (RFC 9110, 7.8) or extended CONNECT (RFC 8441).
    Upgrade,
}

impl Kind {
    /// The kind of an exchange under this protocol.
    pub fn of_protocol(protocol: &Protocol) -> Self {
        match protocol {
            Protocol::ConnectUdp => Self::ConnectUdp,
            Protocol::ConnectTcp => Self::ConnectTcp,
            Protocol::ConnectIp => Self::ConnectIp,
            Protocol::WebSocket | Protocol::Ptth | Protocol::Other(_) => Self::Upgrade,
        }
    }

    /// Whether it is asked for by extended CONNECT, or over HTTP/1.1 by Upgrade.
    pub fn is_extended(self) -> bool {
        match self {
            Self::ConnectUdp | Self::ConnectIp | Self::ConnectTcp | Self::Upgrade => true,
            Self::Message | Self::Connect => false,
        }
    }

    /// Whether it carries packets, which over HTTP/3 may come as datagrams (RFC 9297, section 2.1). All else is bytes.
    pub fn carries_packets(self) -> bool {
        matches!(self, Self::ConnectUdp | Self::ConnectIp)
    }

    /// Whether it is asked for at a proxy that has a URI template, and carries capsules.
    pub fn is_templated(self) -> bool {
        matches!(self, Self::ConnectUdp | Self::ConnectIp | Self::ConnectTcp)
    }
}

/// The head of a request.
///
/// An HTTP/1.1 `Upgrade` is represented as the extended CONNECT that means the same, so `method` is `CONNECT` and `protocol`
/// the upgrade token for both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The scheme of the URI; `None` for CONNECT and for HTTP/1.1 origin form.
    pub scheme: Option<Scheme>,
    /// The authority of the URI, or of `Host` in origin form; for CONNECT, host and port of the target.
    pub authority: Option<Authority>,
    /// Path and query as [`path`](crate::path) made them; `None` only for CONNECT without a protocol; `*` for `OPTIONS *`.
    pub path: Option<PathAndQuery>,
    /// `:protocol` of an extended CONNECT, or the protocol of `Upgrade`.
    pub protocol: Option<Protocol>,
    /// The fields, without those that frame the message on its connection.
    pub fields: Fields,
    /// The version it arrived in.
    pub version: Version,
    /// Whether it arrived in HTTP/1.1 origin form, as requests to an origin or a gateway do.
    pub origin_form: bool,
}

impl RequestHead {
    /// The kind of the exchange.
    pub fn kind(&self) -> Kind {
        match (&self.method, &self.protocol) {
            (&Method::CONNECT, None) => Kind::Connect,
            (&Method::CONNECT, Some(protocol)) => Kind::of_protocol(protocol),
            _ => Kind::Message,
        }
    }

    /// The method as it stood on the wire: an HTTP/1.1 upgrade is a GET.
    pub fn wire_method(&self) -> &Method {
        if self.is_h1_upgrade() {
            &Method::GET
        } else {
            &self.method
        }
    }

    /// The status that opens the tunnel which this request asks for, on the wire.
    pub fn opening_status(&self) -> StatusCode {
        if self.is_h1_upgrade() {
            StatusCode::SWITCHING_PROTOCOLS
        } else {
            StatusCode::OK
        }
    }

    fn is_h1_upgrade(&self) -> bool {
        self.protocol.is_some() && !matches!(self.version, Version::HTTP_2 | Version::HTTP_3)
    }

    /// Takes the content; the method and the version stay, and with them the kind of message.
    #[must_use]
    pub fn take(&mut self) -> Self {
        Self {
            method: self.method.clone(),
            scheme: self.scheme.take(),
            authority: self.authority.take(),
            path: self.path.take(),
            protocol: self.protocol.take(),
            fields: std::mem::take(&mut self.fields),
            version: self.version,
            origin_form: self.origin_form,
        }
    }

    /// Bytes of memory that it takes.
    pub fn footprint(&self) -> usize {
        let authority = self.authority.as_ref().map_or(0, |it| it.as_str().len());
        let path = self.path.as_ref().map_or(0, |it| it.as_str().len());
        self.fields.footprint() + authority + path
    }

    /// The path without its query; empty for CONNECT.
    pub fn path(&self) -> &str {
        self.path.as_ref().map_or("", PathAndQuery::path)
    }
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: StatusCode,
    /// The fields, without those that frame the message on its connection.
    pub fields: Fields,
    /// The version it arrived in.
    pub version: Version,
}

impl ResponseHead {
    /// A head with this status and no fields.
    pub fn new(status: StatusCode) -> Self {
        Self {
            status,
            fields: Fields::new(),
            version: Version::HTTP_11,
        }
    }
}
