//! Addresses and paths that the operator writes.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::str::FromStr;

use super::zone::{on_interface, split_zone, written};
use super::{ScalarError, scalar};

/// The prefix of the path of a Unix socket.
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
    /// Name or address as written; an IPv6 address without brackets. That of an endpoint may end with a zone: `fe80::1%eth0`.
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
    /// Host without its zone, and the zone: the name of an interface, which means nothing on other machines (RFC 4007, 6).
    pub fn zoned(&self) -> (&str, Option<&str>) {
        match self.host.split_once('%') {
            Some((host, zone)) => (host, Some(zone)),
            None => (&self.host, None),
        }
    }

    /// The address and port; `None` if it has a name.
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
        if inner.contains('%') {
            let reason = format!(
                "`{}` has a zone, which means something on this machine alone",
                inner.escape_default()
            );
            return Err(ScalarError::new(reason)
                .remedy("addresses of listeners and endpoints may have one"));
        }
        let address: Ipv6Addr = inner
            .parse()
            .map_err(|_| ScalarError::new(format!("`{inner}` is not an IPv6 address")))?;
        return Ok((address.to_string(), after_brackets(rest)?));
    }

    // Before anything quotes the text: it may hold a password.
    if let Some((user, place)) = text.rsplit_once('@')
        && user.contains(':')
        && place.parse::<HostPort>().is_ok()
    {
        let reason = format!("`{place}` has a user and a password before it");
        let remedy = format!(
            "write `{place}` here, and the user and password in `credentials` of the upstream"
        );
        return Err(ScalarError::new(reason).remedy(remedy));
    }
    // `::1:80` is an address with port 80, or an address that ends with 80.
    if text.parse::<Ipv6Addr>().is_ok() || text.matches(':').count() > 1 {
        let reason = format!(
            "`{}` is ambiguous: an IPv6 address stands in brackets",
            without_password(text)
        );
        return Err(ScalarError::new(reason).remedy("write it like [::1]:80"));
    }

    let (name, digits) = match text.split_once(':') {
        Some((name, digits)) => (name, Some(digits)),
        None => (text, None),
    };

    host_name(name)?;
    Ok((name.to_owned(), digits.map(port).transpose()?))
}

/// The port behind the brackets of an address.
fn after_brackets(rest: &str) -> Result<Option<u16>, ScalarError> {
    match rest.strip_prefix(':') {
        Some(digits) => port(digits).map(Some),
        None if rest.is_empty() => Ok(None),
        None => Err(
            ScalarError::new("the text behind the address is not a port")
                .remedy("write it like [::1]:80"),
        ),
    }
}

/// A text for an error, without the part behind its first colon unless that could be part of an address: `user:password` reveals no
/// password.
fn without_password(text: &str) -> String {
    let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || b":.[]%".contains(&byte);
    match text.split_once(':') {
        Some((before, after)) if !after.bytes().all(is_of_address) => format!("{before}:***"),
        _ => text.to_owned(),
    }
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
        Some(0) | None => Err(ScalarError::new(no_port(digits)).remedy("a port is 1 to 65535")),
        Some(port) => Ok(port),
    }
}

/// Only numbers are quoted: a password may stand where a port should.
fn no_port(digits: &str) -> String {
    match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("`{digits}` is not a port"),
        false => "the text behind the colon is not a port".to_owned(),
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
            None => endpoint(text).map(Self::Tcp),
        }
    }
}

/// An endpoint's host and port. A link-local address has a zone: the interface is looked up when it is connected to.
fn endpoint(text: &str) -> Result<HostPort, ScalarError> {
    let bracketed = text
        .strip_prefix('[')
        .and_then(|inner| inner.split_once(']'));
    let Some((inner, rest)) = bracketed else {
        return text.parse();
    };

    let (address, zone) = split_zone(inner)?;
    let Some(zone) = zone else {
        return text.parse();
    };
    let port = after_brackets(rest)?.ok_or_else(|| {
        ScalarError::new(format!("`{text}` has no port"))
            .remedy(format!("write it like {text}:443"))
    })?;
    Ok(HostPort {
        host: format!("{address}%{zone}"),
        port,
    })
}

/// A URL where an address is wanted.
fn url(scheme: &str, rest: &str) -> ScalarError {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // Credentials do not belong in an endpoint, and must not be shown.
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
    /// Whether both listen on the same port of the same address, or of a wildcard that includes it. Port 0 is a new port each time.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ip(one), Self::Ip(two)) => {
                let holds =
                    one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified();
                one.port() != 0 && one.port() == two.port() && holds && same_link(one, two)
            }
            (one, two) => one == two,
        }
    }
}

/// False for addresses on the links of two interfaces.
fn same_link(one: &SocketAddr, two: &SocketAddr) -> bool {
    match (one, two) {
        (SocketAddr::V6(one), SocketAddr::V6(two)) => {
            one.scope_id() == 0 || two.scope_id() == 0 || one.scope_id() == two.scope_id()
        }
        _ => true,
    }
}

impl FromStr for ListenAddress {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return file_path(path).map(Self::Unix);
        }
        if let Some(address) = on_link(text) {
            return address.map(SocketAddr::V6).map(Self::Ip);
        }
        text.parse().map(Self::Ip).map_err(|_| {
            let port = text
                .rsplit(':')
                .next()
                .filter(|digits| digits.parse::<u16>().is_ok())
                .unwrap_or("8080");
            ScalarError::new(format!(
                "`{}` is not an IP address and port, nor unix:/path",
                without_password(text)
            ))
            .remedy(format!(
                "write 127.0.0.1:{port} for this machine alone, [::]:{port} for everybody"
            ))
        })
    }
}

/// A link-local address to listen on, or one with a zone; `None` if the text is neither.
fn on_link(text: &str) -> Option<Result<SocketAddrV6, ScalarError>> {
    let (inner, rest) = text.strip_prefix('[')?.split_once(']')?;
    let digits = rest.strip_prefix(':')?;
    let port: u16 = digits.parse().ok()?;
    match split_zone(inner) {
        Ok((_, None)) => None,
        Ok((address, Some(zone))) => Some(on_interface(address, zone, port)),
        Err(error) => Some(Err(error)),
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(SocketAddr::V6(address)) => out.write_str(&written(address)),
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
    fn who_asks_is_no_part_of_a_place_and_its_password_is_not_shown() {
        let wrong = "alice:s3cret@proxy.example:3128".parse::<EndpointAddress>();
        let said = wrong.unwrap_err().to_string();
        assert_eq!(
            said,
            "`proxy.example:3128` has a user and a password before it; write `proxy.example:3128` here, and the user and password in `credentials` of the upstream"
        );
        let said = "a:80@s3cret".parse::<EndpointAddress>().unwrap_err();
        assert!(!said.to_string().contains("s3cret"), "{said}");
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
    fn link_local_addresses_name_their_interface() {
        let listener: ListenAddress = "[fe80::1%lo]:80".parse().unwrap();
        assert_eq!(listener.to_string(), "[fe80::1%lo]:80");
        let endpoint: EndpointAddress = "[fe80::1%eth9]:80".parse().unwrap();
        assert_eq!(endpoint.to_string(), "[fe80::1%eth9]:80");

        let of_listener = |text: &str| text.parse::<ListenAddress>().unwrap_err().reason;
        let of_endpoint = |text: &str| text.parse::<EndpointAddress>().unwrap_err().reason;
        assert_eq!(
            of_listener("[fe80::1%no-such-one]:80"),
            "this machine has no interface `no-such-one`"
        );
        for of in [&of_listener as &dyn Fn(&str) -> String, &of_endpoint] {
            let link_local = "`fe80::1` is link-local: it is another machine on each link";
            assert_eq!(of("[fe80::1]:80"), link_local);
            assert_eq!(
                of("[2001:db8::1%lo]:80"),
                "`2001:db8::1` is not link-local, and has no zone"
            );
            assert_eq!(of("[fe80::1%a/b]:80"), "`a/b` names no interface");
        }
        let target = "[fe80::1%lo]:80".parse::<HostPort>().unwrap_err().reason;
        assert_eq!(
            target,
            "`fe80::1%lo` has a zone, which means something on this machine alone"
        );
    }

    #[test]
    fn addresses_on_two_links_do_not_overlap() {
        let on = |index: u32| {
            let address = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 80, 0, index);
            ListenAddress::Ip(address.into())
        };
        assert!(on(1).overlaps(&on(1)) && on(1).overlaps(&on(0)));
        assert!(!on(1).overlaps(&on(2)));
    }

    #[test]
    fn a_password_in_the_place_of_a_port_is_not_said() {
        for text in [
            "alice:s3cret",
            "alice:s3cret:80",
            "[::1]s3cret",
            "[::1]:s3cret",
        ] {
            let endpoint = text.parse::<EndpointAddress>().unwrap_err();
            let listener = text.parse::<ListenAddress>().unwrap_err();
            for error in [endpoint, listener] {
                let said = format!("{} {:?}", error.reason, error.remedy);
                assert!(!said.contains("s3cret"), "{said}");
            }
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
