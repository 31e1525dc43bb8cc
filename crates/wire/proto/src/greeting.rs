//! First bytes of protocols that are not spoken on a port, by clients that were pointed at the wrong one.
//!
//! Specifications: RFC 8446 section 5.1 (TLS records), RFC 1928 (SOCKS5), the SOCKS4 memo, and HAProxy's PROXY protocol.

/// A protocol that a client began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// A TLS handshake record.
    Tls,
    /// SOCKS4, or 4a.
    Socks4,
    /// SOCKS5.
    Socks5,
    /// A PROXY header, of either version.
    Proxy,
}

/// The first bytes of a PROXY header of version 2.
const PROXY_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

impl Greeting {
    /// The protocol with these first bytes, at least one; `None` if they may be HTTP.
    #[must_use]
    pub fn of(first: &[u8]) -> Option<Self> {
        match first {
            [0x16] | [0x16, 0x03, ..] => Some(Self::Tls),
            [0x04, ..] => Some(Self::Socks4),
            [0x05, ..] => Some(Self::Socks5),
            _ if first.starts_with(PROXY_V2) || first.starts_with(b"PROXY ") => Some(Self::Proxy),
            _ => None,
        }
    }

    /// A SOCKS server's refusal; `None` where the client is answered in HTTP. TLS clients recognise
    /// an HTTP answer as the sign of a port without TLS ("wrong version number"); an alert would
    /// speak of a version of TLS.
    #[must_use]
    pub fn refusal(self) -> Option<&'static [u8]> {
        match self {
            // "Request rejected or failed", and six bytes without a meaning.
            Self::Socks4 => Some(&[0, 0x5b, 0, 0, 0, 0, 0, 0]),
            // Section 3: no acceptable methods.
            Self::Socks5 => Some(&[5, 0xff]),
            Self::Tls | Self::Proxy => None,
        }
    }

    /// The mistake, and its remedy.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Tls => {
                "TLS on a port without it: use http:// for this proxy, or give the listener `tls`"
            }
            Self::Socks4 => {
                "SOCKS4 on a port of an HTTP proxy: set it as an HTTP proxy, or give the node a `socks` listener"
            }
            Self::Socks5 => {
                "SOCKS5 on a port of an HTTP proxy: set it as an HTTP proxy, or give the node a `socks` listener"
            }
            Self::Proxy => {
                "a PROXY header, which the listener does not take: set `proxy_protocol: accept`"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_name_the_protocol() {
        for (first, greeting) in [
            (&[0x16, 3, 1, 2, 0, 1][..], Some(Greeting::Tls)),
            (&[0x16], Some(Greeting::Tls)),
            (&[0x16, 9], None),
            (&[5, 1, 0], Some(Greeting::Socks5)),
            (&[4, 1, 0, 80, 0, 0, 0, 1, 0], Some(Greeting::Socks4)),
            (
                b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
                Some(Greeting::Proxy),
            ),
            (b"\r\n\r\n\0\r\nQUIT\n\x21", Some(Greeting::Proxy)),
            (b"GET / HTTP/1.1\r\n", None),
            (b"PROXYING / HTTP/1.1\r\n", None),
            (b"\r\nGET / HTTP/1.1\r\n", None),
            (b"", None),
        ] {
            assert_eq!(Greeting::of(first), greeting, "{first:?}");
        }
    }
}
