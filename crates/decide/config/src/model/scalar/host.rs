//! Conditions on the host, and host and port, that an exchange is for.

use std::fmt;
use std::str::FromStr;

use std::net::IpAddr;

use ipnet::IpNet;
use regex::Regex;

use super::address::{host_name, port, split_port};
use super::{Prefix, ScalarError, regex, scalar};

/// Condition on a host. Hosts are compared without regard to case.
#[derive(Debug, Clone)]
pub enum HostMatch {
    /// This host, in lower case; an IPv6 address without brackets.
    Exact(String),
    /// `*.example.com`: hosts that end with `.example.com`. Empty: any host.
    Suffix(String),
    /// `10.0.0.0/24`: addresses, and prefixes of addresses, within this one.
    Net(IpNet),
    /// `~re`: hosts in which the expression is found.
    Regex(Regex),
    /// `service:database`: the targets that `services` lists under this name.
    Service(String),
}

/// The prefix of the name of a service.
const SERVICE: &str = "service:";

scalar!(
    HostMatch,
    "hermes-host-match",
    "A host: VIDEO, *.example.com, *, 10.0.0.0/24 or ~regex."
);

impl HostMatch {
    /// Whether the host fulfils the condition. The document defines the members of a service.
    pub fn matches(&self, host: &str) -> bool {
        let host = host
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(host);
        match self {
            Self::Exact(exact) => host.eq_ignore_ascii_case(exact),
            Self::Suffix(suffix) if suffix.is_empty() => true,
            Self::Suffix(suffix) => ends_with(host, suffix),
            Self::Net(net) => host.parse::<IpAddr>().is_ok_and(|ip| net.contains(&ip)),
            Self::Regex(regex) => regex.is_match(host),
            Self::Service(_) => false,
        }
    }

    /// Reads a host without a port, other than an expression.
    fn from_host(host: &str) -> Result<Self, ScalarError> {
        match host.strip_prefix('*') {
            None => host_name(host).map(|()| Self::Exact(host.to_ascii_lowercase())),
            Some("") => Ok(Self::Suffix(String::new())),
            Some(suffix) if suffix.starts_with('.') && suffix.len() > 1 => {
                host_name(suffix).map(|()| Self::Suffix(suffix.to_ascii_lowercase()))
            }
            Some(_) => Err(ScalarError::new(format!(
                "`*` in `{host}` does not stand for whole labels"
            ))
            .remedy("write *.example.com or ~regex")),
        }
    }
}

/// Whether the host ends with the suffix and has something before it.
fn ends_with(host: &str, suffix: &str) -> bool {
    let start = host
        .len()
        .checked_sub(suffix.len())
        .filter(|start| *start > 0);
    start
        .and_then(|start| host.get(start..))
        .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

impl FromStr for HostMatch {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let target: TargetMatch = text.parse()?;
        match target.port {
            None => Ok(target.host),
            Some(_) => {
                Err(ScalarError::new(format!("`{text}` has a port")).remedy("leave it away"))
            }
        }
    }
}

impl fmt::Display for HostMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(exact) if exact.contains(':') => write!(out, "[{exact}]"),
            Self::Exact(exact) => out.write_str(exact),
            Self::Suffix(suffix) => write!(out, "*{suffix}"),
            Self::Net(net) => net.fmt(out),
            Self::Regex(regex) => write!(out, "~{regex}"),
            Self::Service(name) => write!(out, "{SERVICE}{name}"),
        }
    }
}

impl PartialEq for HostMatch {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(two))
            | (Self::Suffix(one), Self::Suffix(two))
            | (Self::Service(one), Self::Service(two)) => one == two,
            (Self::Net(one), Self::Net(two)) => one == two,
            (Self::Regex(one), Self::Regex(two)) => one.as_str() == two.as_str(),
            _ => false,
        }
    }
}

impl Eq for HostMatch {}

/// Condition on host and, if given, port: `VIDEO`, `DB:5432`, `*.example.com:443`, `[::1]:80`, `~^v[0-9]+$`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetMatch {
    /// Condition on the host.
    pub host: HostMatch,
    /// The port; `None`: any. An expression is for the host and any port.
    pub port: Option<u16>,
}

scalar!(
    TargetMatch,
    "hermes-target-match",
    "A host and, if given, a port: VIDEO, DB:5432, *.example.com, *.example.com:443, [::1]:80, 10.0.0.0/24, *, service:database, ~regex (of the host)."
);

impl TargetMatch {
    /// Whether host and port fulfil the condition; an unknown port fulfils only conditions without one.
    pub fn matches(&self, host: &str, port: Option<u16>) -> bool {
        (self.port.is_none() || self.port == port) && self.host.matches(host)
    }
}

impl FromStr for TargetMatch {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Some(expression) = text.strip_prefix('~') {
            return Ok(Self {
                host: HostMatch::Regex(regex(expression, true)?),
                port: None,
            });
        }

        // A host may be called so and have a port.
        let service = text.strip_prefix(SERVICE).filter(|name| !is_port(name));
        if let Some(name) = service {
            return Ok(Self {
                host: HostMatch::Service(name.to_owned()),
                port: None,
            });
        }

        if text.contains('/') {
            let net = text.parse::<Prefix>()?.0;
            return Ok(Self {
                host: HostMatch::Net(net),
                port: None,
            });
        }

        if text.starts_with('*') {
            let (host, digits) = match text.split_once(':') {
                Some((host, digits)) => (host, Some(digits)),
                None => (text, None),
            };
            return Ok(Self {
                host: HostMatch::from_host(host)?,
                port: digits.map(port).transpose()?,
            });
        }

        let (host, port) = split_port(text)?;
        Ok(Self {
            host: HostMatch::Exact(host.to_ascii_lowercase()),
            port,
        })
    }
}

/// Whether this is a port rather than the name of a service.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for TargetMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(out)?;
        self.port.map_or(Ok(()), |port| write!(out, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{HostMatch, TargetMatch};

    fn matches(pattern: &str, host: &str, port: u16) -> bool {
        pattern
            .parse::<TargetMatch>()
            .unwrap()
            .matches(host, Some(port))
    }

    #[test]
    fn a_service_is_told_from_a_host_of_that_name() {
        let parsed: TargetMatch = "service:database".parse().unwrap();
        assert_eq!(parsed.host, HostMatch::Service("database".to_owned()));
        assert!(!matches("service:database", "database", 1));
        assert!(matches("service:443", "service", 443));
    }

    #[test]
    fn hosts_match_without_regard_to_case() {
        assert!(
            matches("VIDEO", "video", 1)
                && matches("video", "VIDEO", 1)
                && !matches("VIDEO", "video2", 1)
        );
        assert!(matches("~^v[0-9]+$", "V12", 1) && !matches("~^v[0-9]+$", "xv1", 1));
    }

    #[test]
    fn a_suffix_needs_a_label_before_it() {
        assert!(matches("*.example.com", "a.b.EXAMPLE.com", 1));
        assert!(
            !matches("*.example.com", "example.com", 1)
                && !matches("*.example.com", ".example.com", 1)
        );
        assert!(
            !matches("*.example.com", "badexample.com", 1) && !matches("*.example.com", "ü", 1)
        );
        assert!(matches("*", "anything", 1));
    }

    #[test]
    fn a_port_is_compared_if_given() {
        assert!(
            matches("DB:5432", "db", 5432)
                && !matches("DB:5432", "db", 5433)
                && matches("*:443", "x", 443)
        );
        assert!(matches("[::1]:80", "::1", 80) && matches("[0:0::1]", "[::1]", 9));
        assert!(
            !"DB:5432"
                .parse::<TargetMatch>()
                .unwrap()
                .matches("db", None)
        );
    }

    #[test]
    fn odd_targets_are_refused() {
        for text in [
            "",
            ":80",
            "a:0",
            "a:b",
            "::1",
            "*a",
            "a*",
            "*.",
            "a/b",
            "~[",
            "http://a/",
        ] {
            assert!(text.parse::<TargetMatch>().is_err(), "{text}");
        }
        assert!("a:1".parse::<HostMatch>().is_err());
    }

    #[test]
    fn targets_print_as_written_in_lower_case() {
        for text in [
            "video",
            "db:5432",
            "*.example.com:443",
            "*",
            "[::1]:80",
            "[::1]",
            "~^v$",
        ] {
            assert_eq!(text.parse::<TargetMatch>().unwrap().to_string(), text);
        }
    }
}
