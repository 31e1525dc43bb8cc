//! The answer to the question for a name: its addresses, or the failure.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// The addresses of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// At least one address, IPv6 before IPv4, in the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// How long they may be used.
    pub ttl: Duration,
}

/// Why a name gave no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsError {
    /// The kind of failure.
    pub kind: DnsErrorKind,
    /// The name as it was asked for.
    pub name: String,
    /// The response code, where a server answered, e.g. `NXDOMAIN` (for the `rcode` of RFC 9209).
    pub rcode: Option<String>,
    /// More about it, where there is more; never needed to understand the kind.
    pub detail: Option<String>,
}

/// The kind of a [`DnsError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DnsErrorKind {
    /// The name does not exist or has no address.
    NotFound,
    /// No server answered in time.
    Timeout,
    /// A server failed or refused, or no server could be asked.
    Failed,
    /// A request asked for a name without a dot; such names belong to the overlay and never reach DNS.
    Dotless,
    /// Not a name at all: a label is empty, too long or misspelt.
    Invalid,
}

impl DnsError {
    pub(super) fn new(kind: DnsErrorKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            rcode: None,
            detail: None,
        }
    }
}

impl fmt::Display for DnsErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such name",
            Self::Timeout => "no DNS answer in time",
            Self::Failed => "DNS failed",
            Self::Dotless => "a name without a dot is not looked up in DNS",
            Self::Invalid => "not a valid name",
        })
    }
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.kind)?;
        match (&self.rcode, &self.detail) {
            (Some(rcode), _) => write!(f, " ({rcode})"),
            (None, Some(detail)) => write!(f, " ({detail})"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for DnsError {}
