//! The other end of a stream: its addresses, and its identity by TLS.

use std::any::Any;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::shown_chain::ShownChain;

/// The properties of a stream, known since it was accepted or connected.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    /// The address at the other end.
    pub peer: PeerAddress,
    /// Our own address, where the stream has one.
    pub local: Option<SocketAddr>,
    /// The results of the TLS handshake; `None` on a clear stream. Boxed, as most waiting streams
    /// are clear.
    pub tls: Option<Box<TlsPeer>>,
    /// The sender, as the ingress that made the stream describes it; `None` for streams of the listeners' own protocols.
    pub origin: Option<Arc<IngressOrigin>>,
}

impl StreamInfo {
    /// The name of the neighbour that it came from, which has proved its key to the ingress.
    #[must_use]
    pub fn neighbour(&self) -> Option<&str> {
        self.origin.as_ref()?.neighbour.as_deref()
    }

    /// The key by which the ingress and the handler of one plug recognise an exchange, if it is one of theirs.
    #[must_use]
    pub fn origin_key<T: Any>(&self) -> Option<&T> {
        self.origin.as_ref()?.key.downcast_ref()
    }
}

/// Where an exchange came from that an ingress made, in the ingress's own terms.
pub struct IngressOrigin {
    neighbour: Option<Arc<str>>,
    key: Box<dyn Any + Send + Sync>,
}

impl IngressOrigin {
    /// From the neighbour of this name, if it has proved its key; a handler of the same plug finds the exchange by `key`, whose type no
    /// other plug knows.
    pub fn new(neighbour: Option<Arc<str>>, key: impl Any + Send + Sync) -> Self {
        Self {
            neighbour,
            key: Box::new(key),
        }
    }
}

impl fmt::Debug for IngressOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("IngressOrigin");
        shown
            .field("neighbour", &self.neighbour)
            .finish_non_exhaustive()
    }
}

/// The address of the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// An IP address and port, which is 0 where it is not known. An IPv4 peer of a dual-stack socket is shown as IPv4.
    Ip(SocketAddr),
    /// A process of this machine, through a Unix socket.
    Unix {
        /// The user it runs as, where the system tells.
        uid: Option<u32>,
    },
}

impl PeerAddress {
    /// The IP address and port; `None` for a Unix socket.
    #[must_use]
    pub fn socket(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix { .. } => None,
        }
    }

    /// The IP address; `None` for a Unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.socket().map(|address| address.ip())
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // No connection comes from port 0: a field told of the address alone.
            Self::Ip(address) if address.port() == 0 => address.ip().fmt(f),
            Self::Ip(address) => address.fmt(f),
            Self::Unix { uid: Some(uid) } => write!(f, "unix:uid={uid}"),
            Self::Unix { uid: None } => f.write_str("unix:"),
        }
    }
}

/// A TLS handshake's results about the other end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsPeer {
    /// The application protocol agreed by ALPN (RFC 7301), e.g. `h2`.
    pub alpn: Option<Vec<u8>>,
    /// The name the client asked for (RFC 6066 section 3); only on accepted streams.
    pub server_name: Option<String>,
    /// The names in the other end's certificate, if it showed one. The certificate was verified unless
    /// the configuration said to skip that.
    pub certificate: Option<CertificateNames>,
    /// The peer's certificate chain; only on accepted streams, to be judged again when the
    /// authorities change.
    pub chain: Option<Arc<ShownChain>>,
}

/// The names that a certificate speaks for (RFC 5280 section 4.2.1.6), in the order they stand there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// URI names, e.g. `spiffe://example.org/alice`.
    pub uris: Vec<String>,
    /// E-mail addresses.
    pub emails: Vec<String>,
    /// DNS names.
    pub dns: Vec<String>,
    /// The subject's common name.
    pub common_name: Option<String>,
    /// SHA-256 of the certificate's DER bytes, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// Unix time in seconds after which it is not valid any more (RFC 5280 section 4.1.2.5).
    pub not_after: Option<u64>,
}

impl CertificateNames {
    /// Every name: URIs, e-mail addresses, DNS names, common name.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let listed = self.uris.iter().chain(&self.emails).chain(&self.dns);
        listed.chain(&self.common_name).map(String::as_str)
    }

    /// The URI, if it is the only one: an X.509-SVID has exactly one (SPIFFE X509-SVID section 2),
    /// possibly beside names of other kinds.
    #[must_use]
    pub fn spiffe_id(&self) -> Option<&str> {
        match self.uris.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The first name of [`Self::all`]: the one to show and to call the peer by.
    #[must_use]
    pub fn primary(&self) -> Option<&str> {
        self.all().next()
    }
}

/// An IPv4 address that a dual-stack socket reports in its IPv6 form, as IPv4 again.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(v4.into(), v6.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// The unit that counts as one source: an IPv4 address, or the /64 that one IPv6 network has at
/// least (RFC 4291, 2.5.4).
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_name_prefers_uri_then_email_then_dns_then_common_name() {
        let mut names = CertificateNames {
            uris: vec!["spiffe://x/a".into()],
            emails: vec!["a@x".into()],
            dns: vec!["a.x".into()],
            common_name: Some("a".into()),
            ..CertificateNames::default()
        };
        let mut seen = Vec::new();
        seen.extend(names.primary().map(str::to_owned));
        names.uris.clear();
        seen.extend(names.primary().map(str::to_owned));
        names.emails.clear();
        seen.extend(names.primary().map(str::to_owned));
        names.dns.clear();
        seen.extend(names.primary().map(str::to_owned));
        assert_eq!(seen, ["spiffe://x/a", "a@x", "a.x", "a"]);
    }

    #[test]
    fn mapped_addresses_are_shown_as_ipv4() {
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:80".parse().unwrap();
        assert_eq!(canonical(mapped).to_string(), "192.0.2.1:80");
        let real: SocketAddr = "[2001:db8::1]:80".parse().unwrap();
        assert_eq!(canonical(real), real);
    }
}
