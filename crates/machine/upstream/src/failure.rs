//! Why no connection came about. Nothing of the exchange was processed in any of these cases.

use std::fmt;
use std::sync::Arc;

use hermes_net::descriptors::Shortage;
use hermes_net::dns::{DnsError, DnsErrorKind};
use hermes_net::tls::{
    TlsError, TlsErrorKind, alert_ends_handshake, remedy_of_alert, remedy_of_certificate,
};
use hermes_net::{ConnectError, ConnectErrorKind};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

/// A connection that could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The last one tried: the endpoint as it is configured, the target as it was requested, or the
    /// upstream's name.
    pub endpoint: String,
    /// The failure, for people.
    pub reason: String,
    /// Endpoints, as configured, that failed before it.
    pub before: Vec<Arc<str>>,
}

/// The kind of a [`ConnectFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The name could not be resolved.
    Dns {
        /// No server answered in time.
        timeout: bool,
    },
    /// A request named a host without a dot that no route knows; it is never asked of DNS.
    Dotless,
    /// No socket listens there.
    Refused,
    /// There is no way to the address.
    Unreachable,
    /// No usable connection in time.
    Timeout,
    /// The TLS handshake failed.
    Tls {
        /// The peer's certificate is not believed.
        certificate: bool,
    },
    /// The peer ended the TLS handshake with this alert.
    TlsAlert(u8),
    /// Every address of the target is forbidden.
    Prohibited,
    /// The rules of the proxy on the way do not allow the target.
    Denied,
    /// The upstream has no endpoint that could be tried.
    NoEndpoint,
    /// The proxy on the way did not open a tunnel.
    Via {
        /// The status of its answer, if there was one.
        status: Option<StatusCode>,
    },
    /// The peer does not speak HTTP, or broke off before it did.
    Protocol,
    /// The peer agreed to no version of HTTP that is needed (ALPN).
    Alpn,
    /// A configured bound of the upstream is reached.
    Limit,
    /// No descriptor is left on this machine.
    Descriptors,
    /// No local port is left towards the address.
    Ports,
    /// This machine could not try.
    Local,
}

impl FailureKind {
    /// Whether the two ends do not believe each other's certificates, or share no version: the same endpoint would say the same
    /// the next time, until someone changes it or this node.
    #[must_use]
    pub fn is_of_trust(self) -> bool {
        match self {
            Self::Tls { certificate } => certificate,
            Self::TlsAlert(id) => alert_ends_handshake(id),
            Self::Alpn => true,
            _ => false,
        }
    }
}

impl ConnectFailure {
    pub(crate) fn new(
        kind: FailureKind,
        endpoint: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            endpoint: endpoint.into(),
            reason: reason.into(),
            before: Vec::new(),
        }
    }

    pub(crate) fn timeout(endpoint: impl Into<String>) -> Self {
        Self::new(FailureKind::Timeout, endpoint, "no connection in time")
    }

    pub(crate) fn connect(endpoint: &str, error: &ConnectError) -> Self {
        let kind = match error.kind {
            ConnectErrorKind::Refused => FailureKind::Refused,
            ConnectErrorKind::Timeout => FailureKind::Timeout,
            ConnectErrorKind::Unreachable | ConnectErrorKind::Other => FailureKind::Unreachable,
            ConnectErrorKind::Dns(kind) => dns_kind(kind),
            ConnectErrorKind::NoAddress => FailureKind::NoEndpoint,
            ConnectErrorKind::Descriptors => FailureKind::Descriptors,
            ConnectErrorKind::Ports => FailureKind::Ports,
            ConnectErrorKind::Local => FailureKind::Local,
        };
        Self::new(kind, endpoint, error.to_string())
    }

    /// The kind of a shortage on this machine, if a socket's error reports one.
    #[must_use]
    pub fn kind_of_socket(error: &std::io::Error) -> Option<FailureKind> {
        Some(match Shortage::of(error)? {
            Shortage::Descriptors => FailureKind::Descriptors,
            Shortage::Ports => FailureKind::Ports,
        })
    }

    pub(crate) fn dns(endpoint: &str, error: &DnsError) -> Self {
        Self::new(dns_kind(error.kind), endpoint, error.to_string())
    }

    pub(crate) fn tls(endpoint: &str, error: &TlsError) -> Self {
        let kind = match error.kind {
            TlsErrorKind::Certificate => FailureKind::Tls { certificate: true },
            TlsErrorKind::Alert { id } => FailureKind::TlsAlert(id),
            TlsErrorKind::Timeout => FailureKind::Timeout,
            TlsErrorKind::Protocol
            | TlsErrorKind::BadName
            | TlsErrorKind::Eof
            | TlsErrorKind::Io => FailureKind::Tls { certificate: false },
        };
        let reason = match error.kind {
            TlsErrorKind::Certificate => {
                with(error, remedy_of_certificate(error.fault, &error.detail))
            }
            TlsErrorKind::Alert { id } => with(error, remedy_of_alert(id)),
            _ => error.to_string(),
        };
        Self::new(kind, endpoint, reason)
    }

    /// Whether it speaks against the endpoint, and not only against this machine or its configuration.
    pub(crate) fn is_of_endpoint(&self) -> bool {
        !matches!(
            self.kind,
            FailureKind::Limit
                | FailureKind::Descriptors
                | FailureKind::Ports
                | FailureKind::Local
                | FailureKind::NoEndpoint
                | FailureKind::Prohibited
                | FailureKind::Denied
                | FailureKind::Dotless
        )
    }

    /// How far the attempt came, for people: the step that failed.
    pub fn step(&self) -> &'static str {
        match self.kind {
            FailureKind::Dns { .. } | FailureKind::Dotless => "the name",
            FailureKind::Refused | FailureKind::Unreachable => "the connection",
            FailureKind::Timeout => "time",
            FailureKind::Tls { certificate: true } => "its certificate",
            FailureKind::Tls { certificate: false } => "TLS",
            FailureKind::TlsAlert(_) => "TLS, which it refuses",
            FailureKind::Via { .. } | FailureKind::Denied => "the proxy on the way",
            FailureKind::Protocol | FailureKind::Alpn => "HTTP",
            FailureKind::Prohibited
            | FailureKind::NoEndpoint
            | FailureKind::Limit
            | FailureKind::Descriptors
            | FailureKind::Ports
            | FailureKind::Local => "this node",
        }
    }

    /// The error type to show in `Proxy-Status` (RFC 9209, section 2.3).
    pub fn proxy_error(&self) -> ProxyError {
        match self.kind {
            FailureKind::Dns { timeout: true } => ProxyError::DnsTimeout,
            FailureKind::Dns { timeout: false } => ProxyError::DnsError,
            FailureKind::Dotless => ProxyError::DestinationNotFound,
            FailureKind::Refused => ProxyError::ConnectionRefused,
            FailureKind::Unreachable => ProxyError::DestinationIpUnroutable,
            FailureKind::Timeout => ProxyError::ConnectionTimeout,
            FailureKind::Tls { certificate: true } => ProxyError::TlsCertificateError,
            FailureKind::Tls { certificate: false } => ProxyError::TlsProtocolError,
            FailureKind::TlsAlert(_) => ProxyError::TlsAlertReceived,
            FailureKind::Prohibited => ProxyError::DestinationIpProhibited,
            FailureKind::Denied => ProxyError::HttpRequestDenied,
            FailureKind::NoEndpoint | FailureKind::Via { .. } => ProxyError::DestinationUnavailable,
            FailureKind::Protocol | FailureKind::Alpn => ProxyError::HttpProtocolError,
            FailureKind::Limit | FailureKind::Descriptors | FailureKind::Ports => {
                ProxyError::ConnectionLimitReached
            }
            FailureKind::Local => ProxyError::ProxyInternalError,
        }
    }
}

/// An error and its remedy, if that is known.
fn with(error: &TlsError, remedy: &str) -> String {
    match remedy {
        "" => error.to_string(),
        remedy => format!("{error}; {remedy}"),
    }
}

fn dns_kind(kind: DnsErrorKind) -> FailureKind {
    match kind {
        DnsErrorKind::Dotless => FailureKind::Dotless,
        DnsErrorKind::Timeout => FailureKind::Dns { timeout: true },
        DnsErrorKind::NotFound | DnsErrorKind::Failed | DnsErrorKind::Invalid => {
            FailureKind::Dns { timeout: false }
        }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reason has the address that was dialled; where that is the endpoint itself, once is enough.
        match self.reason.strip_prefix(self.endpoint.as_str()) {
            Some(rest) if rest.starts_with(": ") => f.write_str(&self.reason),
            _ => write!(f, "{}: {}", self.endpoint, self.reason),
        }
    }
}

impl std::error::Error for ConnectFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_named_once() {
        let text = |reason: &str| {
            ConnectFailure::new(FailureKind::Refused, "127.0.0.1:1", reason).to_string()
        };
        assert_eq!(
            text("127.0.0.1:1: connection refused"),
            "127.0.0.1:1: connection refused"
        );
        assert_eq!(
            text("127.0.0.1:11: connection refused"),
            "127.0.0.1:1: 127.0.0.1:11: connection refused"
        );
        assert_eq!(
            text("connection refused"),
            "127.0.0.1:1: connection refused"
        );
    }
}
