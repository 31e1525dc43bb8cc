//! Authorities and the `Host` field: a host and, most often, a port (RFC 3986, section 3.2; RFC 9110, sections 4.2 and 7.2).

use std::fmt;
use std::str::FromStr;

use crate::host::{self, HostError};

/// Why a text is no authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// A user or password before an `@` (refused: RFC 9110, section 4.2.4).
    #[error("the authority names a user")]
    UserInfo,
    /// Brackets that do not enclose an IPv6 address, or an IPv6 address without them.
    #[error("an IPv6 address, and nothing else, stands in brackets")]
    Brackets,
    /// The host does not hold.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The port is empty, zero, above 65535, or not written as a plain number.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// There is no port, and no scheme to take one from.
    #[error("the port is missing")]
    NoPort,
}

/// A host and a port. Displayed as `host:port`, with brackets around an IPv6 address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// An IP address in its canonical form, without brackets, or a name.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl HostPort {
    /// Parses an authority; a missing port is `default`.
    ///
    /// # Errors
    /// As [`split`].
    pub fn parse_with_default(text: &str, default: u16) -> Result<Self, AuthorityError> {
        let (host, port) = split(text)?;
        Ok(Self {
            host,
            port: port.unwrap_or(default),
        })
    }
}

/// Parses an authority that must have a port, as the target of CONNECT does (RFC 9110, section 9.3.6).
impl FromStr for HostPort {
    type Err = AuthorityError;

    fn from_str(text: &str) -> Result<Self, AuthorityError> {
        match split(text)? {
            (host, Some(port)) => Ok(Self { host, port }),
            (_, None) => Err(AuthorityError::NoPort),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Splits an authority, or the value of `Host`, into a checked host and the port if one is written.
///
/// # Errors
/// [`AuthorityError`]. A colon without a port is an error: RFC 9110, section 9.3.6 demands it for CONNECT, and no client
/// needs it elsewhere.
pub fn split(text: &str) -> Result<(String, Option<u16>), AuthorityError> {
    if text.contains('@') {
        return Err(AuthorityError::UserInfo);
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => split_bracketed(rest)?,
        None => split_plain(text)?,
    };

    Ok((host::parse(host)?, port.map(parse_port).transpose()?))
}

fn split_bracketed(text: &str) -> Result<(&str, Option<&str>), AuthorityError> {
    let (host, after) = text.split_once(']').ok_or(AuthorityError::Brackets)?;
    if !host.contains(':') {
        return Err(AuthorityError::Brackets);
    }

    match after.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if after.is_empty() => Ok((host, None)),
        None => Err(AuthorityError::Brackets),
    }
}

fn split_plain(text: &str) -> Result<(&str, Option<&str>), AuthorityError> {
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Err(AuthorityError::Brackets),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

/// Parses a port: 1 to 65535, digits only, no leading zero, so that it has one spelling.
///
/// # Errors
/// [`AuthorityError::Port`].
pub fn parse_port(text: &str) -> Result<u16, AuthorityError> {
    if text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AuthorityError::Port);
    }
    text.parse().map_err(|_| AuthorityError::Port)
}

/// The port that a scheme implies (RFC 9110, section 4.2): 80 for `http`, 443 for `https`, in any
/// case.
pub fn default_port(scheme: &str) -> Option<u16> {
    if scheme.eq_ignore_ascii_case("http") {
        Some(80)
    } else if scheme.eq_ignore_ascii_case("https") {
        Some(443)
    } else {
        None
    }
}

/// Whether `host` is a name of one label, such as the overlay's `DB`: neither an address nor a name of the Internet.
pub fn is_dotless_name(host: &str) -> bool {
    !host.is_empty() && !host.contains(['.', ':'])
}

/// Parses arbitrary text as an authority: an accepted text is displayed as one with the same
/// meaning.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok((host, port)) = split(text) else {
        return;
    };

    assert!(!host.is_empty() && host.len() <= host::MAX_NAME);
    assert!(
        host.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    );
    assert_ne!(port, Some(0));
    assert_eq!(text.parse::<HostPort>().is_ok(), port.is_some());
    let parsed = HostPort {
        host,
        port: port.unwrap_or(80),
    };

    assert_eq!(HostPort::parse_with_default(text, 80).as_ref(), Ok(&parsed));
    assert_eq!(parsed.to_string().parse().as_ref(), Ok(&parsed));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn splits_names_addresses_and_ports() {
        let cases = [
            ("DB:5432", "DB", Some(5432)),
            ("example.com", "example.com", None),
            ("10.0.0.1:80", "10.0.0.1", Some(80)),
            ("[::1]:65535", "::1", Some(65535)),
            ("[2001:DB8::1]", "2001:db8::1", None),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1", Some(80)),
        ];
        for (text, host, port) in cases {
            assert_eq!(split(text), Ok((host.to_owned(), port)));
        }
    }

    #[test]
    fn refuses_what_is_no_authority() {
        let cases = [
            ("user@host:80", AuthorityError::UserInfo),
            ("::1", AuthorityError::Brackets),
            ("[::1", AuthorityError::Brackets),
            ("[::1]80", AuthorityError::Brackets),
            ("[host]:80", AuthorityError::Brackets),
            ("[fe80::1%25eth0]:80", AuthorityError::Host(HostError::Zone)),
            ("", AuthorityError::Host(HostError::Empty)),
            (":80", AuthorityError::Host(HostError::Empty)),
            ("host:", AuthorityError::Port),
            ("host:0", AuthorityError::Port),
            ("host:080", AuthorityError::Port),
            ("host:+80", AuthorityError::Port),
            ("host:65536", AuthorityError::Port),
            ("host:80/", AuthorityError::Port),
            ("a/b:80", AuthorityError::Host(HostError::BadCharacter)),
        ];
        for (text, error) in cases {
            assert_eq!(split(text), Err(error), "{text}");
        }
    }

    #[test]
    fn demands_a_port_unless_a_default_is_given() {
        assert_eq!("host".parse::<HostPort>(), Err(AuthorityError::NoPort));
        assert_eq!(
            HostPort::parse_with_default("host", 443).map(|both| both.port),
            Ok(443)
        );
        assert_eq!(
            HostPort::parse_with_default("host:1", 443).map(|both| both.port),
            Ok(1)
        );
    }

    #[test]
    fn knows_the_ports_of_http_and_https() {
        assert_eq!(default_port("http"), Some(80));
        assert_eq!(default_port("HTTPS"), Some(443));
        assert_eq!(default_port("ftp"), None);
    }

    #[test]
    fn tells_overlay_names_from_addresses_and_internet_names() {
        assert!(is_dotless_name("DB"));
        for host in ["", "example.com", "10.0.0.1", "::1"] {
            assert!(!is_dotless_name(host), "{host}");
        }
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(host in "([a-z][a-zA-Z0-9_-]{0,20}\\.){0,3}[a-zA-Z][a-z0-9]{0,10}", port in 1_u16..) {
            let given = HostPort { host, port };
            prop_assert_eq!(given.to_string().parse(), Ok(given));
        }

        #[test]
        fn survives_a_round_trip_of_addresses(address in any::<std::net::IpAddr>(), port in 1_u16..) {
            let given = HostPort { host: address.to_canonical().to_string(), port };
            prop_assert_eq!(given.to_string().parse(), Ok(given));
        }
    }
}
