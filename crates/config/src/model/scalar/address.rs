//! Addresses and paths that the operator writes.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use super::{ScalarError, scalar};

/// What the path of a Unix socket is written after.
pub(crate) const UNIX: &str = "unix:";

/// A path. Relative to the file where it is written; the loader makes it absolute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilePath(pub PathBuf);

scalar!(
    FilePath,
    "hermes-path",
    "A path, relative to the file that it is written in."
);

impl FromStr for FilePath {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        file_path(text).map(Self)
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.display())
    }
}

fn file_path(text: &str) -> Result<PathBuf, ScalarError> {
    if text.is_empty() {
        return Err(ScalarError::new("the path is empty"));
    }
    if text.contains('\0') {
        return Err(ScalarError::new("the path contains a zero byte"));
    }
    Ok(PathBuf::from(text))
}

/// A host and a port: `DB:5432`, `10.0.0.1:80`, `[::1]:80`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Name or address as written; an IPv6 address without brackets.
    pub host: String,
    /// Port, never 0.
    pub port: u16,
}

scalar!(
    HostPort,
    "hermes-host-port",
    "A host and a port: DB:5432, 10.0.0.1:80, [::1]:80."
);

impl HostPort {
    /// The address and port; none where it has a name.
    pub fn socket_address(&self) -> Option<SocketAddr> {
        let address = self.host.parse().ok()?;
        Some(SocketAddr::new(address, self.port))
    }
}

impl FromStr for HostPort {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let (host, port) = split_port(text)?;
        let Some(port) = port else {
            return Err(ScalarError::new(format!("`{text}` has no port"))
                .remedy(format!("write it like {text}:443")));
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port`.
pub(super) fn split_port(text: &str) -> Result<(String, Option<u16>), ScalarError> {
    let bracketed = text
        .strip_prefix('[')
        .and_then(|inner| inner.split_once(']'));
    if let Some((inner, rest)) = bracketed {
        let address: Ipv6Addr = inner
            .parse()
            .map_err(|_| ScalarError::new(format!("`{inner}` is not an IPv6 address")))?;
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(port(digits)?),
            None if rest.is_empty() => None,
            None => {
                return Err(ScalarError::new(format!(
                    "`{rest}` after the address is not a port"
                )));
            }
        };

        return Ok((address.to_string(), port));
    }

    if text.parse::<Ipv6Addr>().is_ok() || text.matches(':').count() > 1 {
        let reason = format!("`{text}` is ambiguous: an IPv6 address stands in brackets");
        return Err(ScalarError::new(reason).remedy("write it like [::1]:80"));
    }

    let (name, digits) = match text.split_once(':') {
        Some((name, digits)) => (name, Some(digits)),
        None => (text, None),
    };

    host_name(name)?;
    Ok((name.to_owned(), digits.map(port).transpose()?))
}

/// Checks the letters of a host name or IPv4 address (RFC 3986, 3.2.2, without percent-encoding).
pub(super) fn host_name(name: &str) -> Result<(), ScalarError> {
    const LONGEST: usize = 255;
    if name.is_empty() {
        return Err(ScalarError::new("the host is empty"));
    }

    if name.len() > LONGEST {
        return Err(ScalarError::new(format!(
            "the host is longer than {LONGEST} bytes"
        )));
    }

    let allowed =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '~');
    match name.chars().find(|letter| !allowed(*letter)) {
        Some(letter) => Err(ScalarError::new(format!(
            "`{}` cannot stand in the host `{name}`",
            letter.escape_debug()
        ))),
        None => Ok(()),
    }
}

/// A port from 1 to 65535.
pub(super) fn port(digits: &str) -> Result<u16, ScalarError> {
    let number = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten();
    match number {
        Some(0) | None => {
            Err(ScalarError::new(format!("`{digits}` is not a port"))
                .remedy("a port is 1 to 65535"))
        }
        Some(port) => Ok(port),
    }
}

/// Where an upstream's endpoint is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EndpointAddress {
    /// `host:port`.
    Tcp(HostPort),
    /// `unix:/path`.
    Unix(PathBuf),
}

scalar!(
    EndpointAddress,
    "hermes-endpoint-address",
    "An endpoint: host:port, [v6]:port or unix:/path."
);

impl FromStr for EndpointAddress {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Some((scheme, rest)) = text.split_once("://") {
            return Err(url(scheme, rest));
        }
        match text.strip_prefix(UNIX) {
            Some(path) => file_path(path).map(Self::Unix),
            None => text.parse().map(Self::Tcp),
        }
    }
}

/// A URL where an address is wanted.
fn url(scheme: &str, rest: &str) -> ScalarError {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // Credentials have no place in an endpoint, and none in what is shown.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let (port, tls) = if matches!(scheme, "https" | "h3") {
        (443, ", and `tls: true` beside `endpoints`")
    } else {
        (80, "")
    };

    let address = if split_port(host).is_ok_and(|(_, port)| port.is_some()) {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };

    ScalarError::new("this is a URL; an endpoint is a host and a port")
        .remedy(format!("write {address}{tls}"))
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "{UNIX}{}", path.display()),
        }
    }
}

/// Where a listener listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An IP address and a port; port 0 lets the system choose.
    Ip(SocketAddr),
    /// `unix:/path`.
    Unix(PathBuf),
}

scalar!(
    ListenAddress,
    "hermes-listen-address",
    "An address to listen on: 127.0.0.1:8080, [::]:80 or unix:/path."
);

impl ListenAddress {
    /// Whether both are the same port, on the same address or on one that holds the other. Port 0 is another one each time.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ip(one), Self::Ip(two)) => {
                let holds =
                    one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified();
                one.port() != 0 && one.port() == two.port() && holds
            }
            (one, two) => one == two,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return file_path(path).map(Self::Unix);
        }
        text.parse().map(Self::Ip).map_err(|_| {
            let port = text
                .rsplit(':')
                .next()
                .filter(|digits| digits.parse::<u16>().is_ok())
                .unwrap_or("8080");
            ScalarError::new(format!(
                "`{text}` is not an IP address and port, nor unix:/path"
            ))
            .remedy(format!(
                "write 127.0.0.1:{port} for this machine alone, [::]:{port} for everybody"
            ))
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EndpointAddress, HostPort, ListenAddress};

    #[test]
    fn hosts_and_ports_round_trip() {
        for (text, host, port) in [
            ("DB:5432", "DB", 5432),
            ("10.0.0.1:80", "10.0.0.1", 80),
            ("[::1]:80", "::1", 80),
        ] {
            let address: HostPort = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn odd_hosts_and_ports_are_refused() {
        for text in [
            "", "DB", ":80", "DB:", "DB:0", "DB:65536", "DB:+1", "::1", "::1:80", "[::1]", "[x]:1",
            "[::1]80", "a b:1", "a/b:1", "ü:1",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn endpoints_are_tcp_or_unix() {
        for text in ["db.example:5432", "unix:/run/db.sock"] {
            assert_eq!(text.parse::<EndpointAddress>().unwrap().to_string(), text);
        }
        assert!("unix:".parse::<EndpointAddress>().is_err());
        for (url, remedy) in [
            (
                "https://x.example/a",
                "write x.example:443, and `tls: true` beside `endpoints`",
            ),
            ("http://x.example:81", "write x.example:81"),
        ] {
            assert_eq!(
                url.parse::<EndpointAddress>()
                    .unwrap_err()
                    .remedy
                    .as_deref(),
                Some(remedy)
            );
        }
    }

    #[test]
    fn listen_addresses_are_ip_or_unix_and_may_leave_the_port_to_the_system() {
        for text in [
            "127.0.0.1:8080",
            "[::]:80",
            "127.0.0.1:0",
            "unix:/run/x.sock",
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        let error = "localhost:99".parse::<ListenAddress>().unwrap_err();
        assert!(error.remedy.unwrap().contains("127.0.0.1:99"));
    }
}
