//! Hosts: one name for each, however it is written (RFC 9110, 4.2.3; RFC 4343; RFC 1034, 3.1).

use std::fmt;
use std::net::IpAddr;

use hermes_config::model::{HostMatch, TargetMatch};
use hermes_proto::host::embedded;
use ipnet::IpNet;

use super::condition::canonical_net;

/// A host as compared: without brackets and without the last dot of a name. An address is compared as an address, so that two
/// spellings of one are one host: IPv4-mapped ones are IPv4 addresses, and one that holds an IPv4 address, as those of NAT64 and
/// 6to4 do, is met by conditions on either.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host<'a> {
    pub(super) name: &'a str,
    pub(super) address: Option<IpAddr>,
    /// Addresses that begin so, where it is not one host.
    pub(super) net: Option<IpNet>,
}

impl<'a> Host<'a> {
    pub(crate) fn new(written: &'a str) -> Self {
        let name = bare(written);
        let address = || name.parse().ok().as_ref().map(IpAddr::to_canonical);
        Self {
            name,
            address: may_be_address(name).then(address).flatten(),
            net: None,
        }
    }

    /// Whether one of the host's addresses passes a test; most hosts are names, and have no
    /// addresses.
    #[inline]
    pub(super) fn any_address(&self, mut test: impl FnMut(IpAddr) -> bool) -> bool {
        match self.address {
            None => false,
            Some(address @ IpAddr::V4(_)) => test(address),
            Some(address) => {
                let held = embedded(address).into_iter().flatten();
                test(address) || held.map(IpAddr::V4).any(test)
            }
        }
    }

    /// Whether a regular expression matches its name.
    fn is_called(&self, condition: &HostMatch) -> bool {
        match self.address {
            // In one spelling, however it was written.
            Some(IpAddr::V6(_)) => self.is_called_by_address(condition),
            Some(IpAddr::V4(_)) if self.name.contains(':') => self.is_called_by_address(condition),
            _ => condition.matches(self.name),
        }
    }

    fn is_called_by_address(&self, condition: &HostMatch) -> bool {
        self.any_address(|address| condition.matches(&address.to_string()))
    }

    /// All addresses that begin so; a single one is a host.
    pub(crate) fn of_net(net: IpNet) -> Self {
        let net = canonical_net(net);
        let is_one = net.prefix_len() == net.max_prefix_len();
        Self {
            name: "",
            address: is_one.then(|| net.network()),
            net: Some(net),
        }
    }
}

/// Whether both ends of a name can be those of an address; with most names they cannot, and nothing more is looked at.
#[inline]
fn may_be_address(name: &str) -> bool {
    let fits = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b':';
    let name = name.as_bytes();
    name.first().is_some_and(fits) && name.last().is_some_and(fits)
}

/// A host without brackets and without its last dot.
fn bare(host: &str) -> &str {
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    inner.strip_suffix('.').unwrap_or(inner)
}

/// A compiled condition on a host.
#[derive(Debug, Clone)]
pub(crate) enum HostTest {
    /// This address, in any spelling.
    Address(IpAddr),
    /// This name.
    Name(String),
    /// A name that ends so; the empty suffix is any host.
    Suffix(String),
    /// Addresses within this one.
    Net(IpNet),
    /// The configuration's regular expression, on the bare host.
    Regex(HostMatch),
    /// The targets of this service; which these are, a condition knows.
    Service(String),
}

impl HostTest {
    pub(crate) fn compile(condition: &HostMatch) -> Self {
        match condition {
            HostMatch::Exact(host) => match Host::new(host) {
                Host {
                    address: Some(address),
                    ..
                } => Self::Address(address),
                Host { name, .. } => Self::Name(name.to_ascii_lowercase()),
            },
            HostMatch::Suffix(suffix) => Self::Suffix(bare(suffix).to_ascii_lowercase()),
            HostMatch::Net(net) => Self::Net(canonical_net(*net)),
            HostMatch::Regex(_) => Self::Regex(condition.clone()),
            HostMatch::Service(name) => Self::Service(name.clone()),
        }
    }

    pub(crate) fn matches(&self, host: &Host<'_>) -> bool {
        match self {
            Self::Address(wanted) => host.any_address(|address| address == *wanted),
            Self::Name(name) => host.name.eq_ignore_ascii_case(name),
            Self::Suffix(suffix) => ends_with(host.name, suffix),
            Self::Net(net) => {
                host.any_address(|address| net.contains(&address))
                    || host.net.is_some_and(|within| net.contains(&within))
            }
            Self::Regex(condition) => host.is_called(condition),
            Self::Service(_) => false,
        }
    }

    /// Whether every host that matches `self` certainly matches `other`.
    pub(crate) fn implies(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Suffix(suffix)) if suffix.is_empty() => true,
            (Self::Address(one), Self::Address(two)) => one == two,
            (Self::Name(one), Self::Name(two)) => one == two,
            (Self::Name(name), Self::Suffix(suffix)) => ends_with(name, suffix),
            (Self::Name(name), Self::Regex(HostMatch::Regex(regex))) => {
                // An expression can bring case back with flags; without them the lower-case name speaks for all spellings.
                !regex.as_str().contains("(?") && regex.is_match(name)
            }
            (Self::Suffix(longer), Self::Suffix(suffix)) => ends_with_or_is(longer, suffix),
            (Self::Address(one), Self::Net(two)) => two.contains(one),
            (Self::Net(one), Self::Net(two)) => two.contains(one),
            (Self::Regex(one), Self::Regex(two)) => one == two,
            (Self::Service(one), Self::Service(two)) => one == two,
            _ => false,
        }
    }
}

/// Whether a name ends so and has something before it.
fn ends_with(name: &str, suffix: &str) -> bool {
    suffix.is_empty() || (name.len() > suffix.len() && ends_with_or_is(name, suffix))
}

fn ends_with_or_is(name: &str, suffix: &str) -> bool {
    let name = name.as_bytes();
    let suffix = suffix.as_bytes();
    name.len() >= suffix.len() && name[name.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
}

/// A compiled condition on host and port.
#[derive(Debug, Clone)]
pub(crate) struct TargetTest {
    pub(crate) host: HostTest,
    pub(crate) port: Option<u16>,
    text: String,
}

impl TargetTest {
    pub(crate) fn compile(condition: &TargetMatch) -> Self {
        Self {
            host: HostTest::compile(&condition.host),
            port: condition.port,
            text: condition.to_string(),
        }
    }

    /// The service, if it is one.
    pub(crate) fn service(&self) -> Option<&str> {
        match &self.host {
            HostTest::Service(name) => Some(name),
            _ => None,
        }
    }

    /// A condition with a port does not match where no port is known.
    pub(crate) fn matches(&self, host: &Host<'_>, port: Option<u16>) -> bool {
        self.port.is_none_or(|wanted| port == Some(wanted)) && self.host.matches(host)
    }
}

impl fmt::Display for TargetTest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(condition: &str, host: &str, port: Option<u16>) -> bool {
        let condition: TargetMatch = condition.parse().unwrap();
        TargetTest::compile(&condition).matches(&Host::new(host), port)
    }

    #[test]
    fn names_are_compared_without_case_and_last_dot() {
        for host in ["VIDEO", "video", "Video."] {
            assert!(matches("VIDEO", host, Some(80)), "{host}");
        }
        assert!(!matches("VIDEO", "video2", Some(80)));
        assert!(!matches("VIDEO", "VIDEO..", Some(80)));
    }

    #[test]
    fn addresses_are_compared_without_brackets_in_any_spelling() {
        for host in ["::1", "[::1]", "[0:0:0:0:0:0:0:1]", "::0001"] {
            assert!(matches("[::1]:80", host, Some(80)), "{host}");
        }
        assert!(!matches("[::1]:80", "::2", Some(80)));
    }

    #[test]
    fn an_ipv4_address_is_met_in_every_form_of_it() {
        for host in [
            "192.0.2.5",
            "[::ffff:192.0.2.5]",
            "::ffff:c000:205",
            "[0:0:0:0:0:FFFF:192.0.2.5]",
            "64:ff9b::192.0.2.5",
            "2002:c000:205::9",
        ] {
            for condition in [
                "192.0.2.5",
                "192.0.2.5:80",
                "192.0.2.0/24",
                "[::ffff:192.0.2.5]:80",
                "~^192[.]0[.]2[.]5$",
            ] {
                assert!(matches(condition, host, Some(80)), "{condition}: {host}");
            }
            assert!(!matches("192.0.2.6", host, Some(80)), "{host}");
        }
        assert!(matches("64:ff9b::/96", "64:ff9b::192.0.2.5", None));
    }

    #[test]
    fn suffix_needs_something_before_it() {
        assert!(matches("*.example.com", "a.EXAMPLE.com.", Some(1)));
        assert!(!matches("*.example.com", "example.com", Some(1)));
        assert!(!matches("*.example.com", ".example.com", Some(1)));
        assert!(!matches("*.example.com", "badexample.com", Some(1)));
        assert!(matches("*", "anything", None));
    }

    #[test]
    fn suffix_does_not_split_characters() {
        assert!(!matches("*.com", "\u{fc}\u{fc}\u{fc}com", None));
    }

    #[test]
    fn port_is_needed_where_it_is_named() {
        assert!(matches("DB:5432", "db", Some(5432)));
        assert!(!matches("DB:5432", "db", Some(5433)));
        assert!(!matches("DB:5432", "db", None));
    }

    #[test]
    fn regex_sees_the_bare_host_without_case() {
        assert!(matches("~^v[0-9]+$", "V12.", Some(1)));
        assert!(!matches("~^v[0-9]+$", "va", Some(1)));
    }
}
