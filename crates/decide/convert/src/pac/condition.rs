//! Conditions of a PAC file on a request, as conditions of routes.

use std::net::IpAddr;

use ipnet::IpNet;
use regex::Regex;
use serde_json::{Value as Json, json};

use crate::draft::{one_or_many, put};

/// Names without a dot.
pub(super) const PLAIN: &str = "^[^.]+$";

/// Ways in which a condition can hold, which are put side by side.
#[doc(alias = "bound")]
const MOST_WAYS: usize = 1024;

/// A condition that can be true or false.
#[derive(Debug, Clone)]
pub(super) enum Predicate {
    Always,
    Never,
    Is(Conjunction),
    Not(Box<Predicate>),
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
}

/// Conditions that a route can have at once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Conjunction {
    /// One of these; `None`: any host.
    pub(super) hosts: Option<Vec<HostPattern>>,
    pub(super) scheme: Option<Scheme>,
    pub(super) port: Option<u16>,
}

/// The scheme of a URL. A browser asks a proxy for `https` by a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum HostPattern {
    Exact(String),
    /// Hosts below a domain, with its dot: `.example.com`.
    Below(String),
    Net(IpNet),
    /// A regular expression.
    Matches(String),
}

/// Two conditions at once cannot be said by one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inexpressible;

impl Predicate {
    /// Its bytes and parts, about: the cost of a copy.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Always | Self::Never => 1,
            Self::Is(conjunction) => {
                let hosts = conjunction.hosts.iter().flatten();
                1 + hosts.map(HostPattern::size).sum::<usize>()
            }
            Self::Not(inner) => 1 + inner.size(),
            Self::All(parts) | Self::Any(parts) => 1 + parts.iter().map(Self::size).sum::<usize>(),
        }
    }

    /// Levels of conditions in one another.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Always | Self::Never | Self::Is(_) => 1,
            Self::Not(inner) => 1 + inner.depth(),
            Self::All(parts) | Self::Any(parts) => {
                1 + parts.iter().map(Self::depth).max().unwrap_or(0)
            }
        }
    }

    pub(super) fn hosts(hosts: Vec<HostPattern>) -> Self {
        Self::Is(Conjunction {
            hosts: Some(hosts),
            ..Conjunction::default()
        })
    }

    /// The ways in which the condition holds, without negations; `None` if it needs one.
    pub(super) fn ways(&self) -> Option<Result<Vec<Conjunction>, Inexpressible>> {
        Some(match self {
            Self::Always => Ok(vec![Conjunction::default()]),
            Self::Never => Ok(Vec::new()),
            Self::Is(one) => Ok(vec![one.clone()]),
            Self::Not(_) => return None,
            Self::Any(parts) => {
                let mut ways = Vec::new();
                for part in parts {
                    match part.ways()? {
                        Ok(more) => more.into_iter().for_each(|way| add_way(&mut ways, way)),
                        Err(error) => return Some(Err(error)),
                    }
                }
                Ok(ways)
            }
            Self::All(parts) => {
                let mut ways = vec![Conjunction::default()];
                for part in parts {
                    let more = match part.ways()? {
                        Ok(more) => more,
                        Err(error) => return Some(Err(error)),
                    };
                    ways = match products(&ways, &more) {
                        Ok(ways) => ways,
                        Err(error) => return Some(Err(error)),
                    };
                }
                Ok(ways)
            }
        })
    }
}

fn products(
    left: &[Conjunction],
    right: &[Conjunction],
) -> Result<Vec<Conjunction>, Inexpressible> {
    let mut ways = Vec::new();
    for one in left {
        for other in right {
            if let Some(both) = one.and(other)? {
                add_way(&mut ways, both);
            }
        }
    }
    match ways.len() <= MOST_WAYS {
        true => Ok(ways),
        false => Err(Inexpressible),
    }
}

/// Adds a way; hosts that are asked for in the same manner stand in one list.
fn add_way(ways: &mut Vec<Conjunction>, way: Conjunction) {
    if let Some(last) = ways.last_mut() {
        let is_alike = last.scheme == way.scheme && last.port == way.port;
        if let (true, Some(known), Some(more)) = (is_alike, &mut last.hosts, &way.hosts) {
            let fresh: Vec<_> = more
                .iter()
                .filter(|host| !known.contains(host))
                .cloned()
                .collect();
            known.extend(fresh);
            return;
        }
    }
    ways.push(way);
}

impl Conjunction {
    /// Both at once; `None` if that is never so.
    pub(super) fn and(&self, other: &Self) -> Result<Option<Self>, Inexpressible> {
        let scheme = match (self.scheme, other.scheme) {
            (Some(one), Some(two)) if one != two => return Ok(None),
            (one, two) => one.or(two),
        };
        let port = match (self.port, other.port) {
            (Some(one), Some(two)) if one != two => return Ok(None),
            (one, two) => one.or(two),
        };
        let hosts = match (&self.hosts, &other.hosts) {
            (Some(one), Some(two)) => {
                let both = common_hosts(one, two)?;
                if both.is_empty() {
                    return Ok(None);
                }
                Some(both)
            }
            (one, two) => one.clone().or_else(|| two.clone()),
        };
        Ok(Some(Self {
            hosts,
            scheme,
            port,
        }))
    }

    pub(super) fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// As `match` of a route.
    pub(super) fn json(&self) -> Json {
        let mut matched = json!({});
        if let Some(hosts) = &self.hosts {
            let targets = hosts.iter().map(HostPattern::json).collect();
            put(&mut matched, "target", one_or_many(targets));
        }
        match self.scheme {
            Some(Scheme::Http) => put(&mut matched, "kind", json!(["http", "upgrade"])),
            Some(Scheme::Https) => put(
                &mut matched,
                "kind",
                json!(["connect", "connect-tcp", "connect-udp"]),
            ),
            None => {}
        }
        if let Some(port) = self.port {
            put(&mut matched, "port", json!(port));
        }
        matched
    }
}

fn common_hosts(
    left: &[HostPattern],
    right: &[HostPattern],
) -> Result<Vec<HostPattern>, Inexpressible> {
    let mut both = Vec::new();
    for one in left {
        for other in right {
            let host = one.and(other)?;
            both.extend(host.filter(|host| !both.contains(host)));
        }
    }
    Ok(both)
}

impl HostPattern {
    fn size(&self) -> usize {
        match self {
            Self::Exact(text) | Self::Below(text) | Self::Matches(text) => 1 + text.len(),
            Self::Net(_) => 1,
        }
    }

    fn and(&self, other: &Self) -> Result<Option<Self>, Inexpressible> {
        if self == other {
            return Ok(Some(self.clone()));
        }
        Ok(match (self, other) {
            (Self::Exact(host), pattern) | (pattern, Self::Exact(host)) => {
                pattern.holds(host).then(|| Self::Exact(host.clone()))
            }
            (Self::Below(one), Self::Below(two)) => {
                let longer = if one.len() > two.len() { one } else { two };
                let is_within = one.ends_with(two.as_str()) || two.ends_with(one.as_str());
                is_within.then(|| Self::Below(longer.clone()))
            }
            (Self::Net(one), Self::Net(two)) if one.contains(two) => Some(Self::Net(*two)),
            (Self::Net(one), Self::Net(two)) if two.contains(one) => Some(Self::Net(*one)),
            (Self::Net(_), Self::Net(_) | Self::Below(_)) | (Self::Below(_), Self::Net(_)) => None,
            (Self::Matches(plain), Self::Below(_)) | (Self::Below(_), Self::Matches(plain))
                if plain == PLAIN =>
            {
                None
            }
            (Self::Matches(_), _) | (_, Self::Matches(_)) => return Err(Inexpressible),
        })
    }

    fn holds(&self, host: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == host,
            Self::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            Self::Net(net) => host.parse().is_ok_and(|ip: IpAddr| net.contains(&ip)),
            Self::Matches(expression) => {
                Regex::new(expression).is_ok_and(|regex| regex.is_match(host))
            }
        }
    }

    fn json(&self) -> Json {
        match self {
            Self::Exact(host) if host.contains(':') => json!(format!("[{host}]")),
            Self::Exact(host) => json!(host),
            Self::Below(suffix) => json!(format!("*{suffix}")),
            Self::Net(net) => json!(net.to_string()),
            Self::Matches(expression) => json!(format!("~{expression}")),
        }
    }

    /// A glob of a shell: `*` stands for any letters, `?` for one.
    pub(super) fn of_glob(glob: &str) -> Self {
        let glob = glob.to_ascii_lowercase();
        let is_name = |text: &str| !text.contains(['*', '?', '[']);
        match glob.strip_prefix('*') {
            _ if is_name(&glob) => Self::Exact(glob),
            Some(suffix) if suffix.starts_with('.') && suffix.len() > 1 && is_name(suffix) => {
                Self::Below(suffix.to_owned())
            }
            _ => Self::Matches(glob_expression(&glob)),
        }
    }
}

/// A glob as a regular expression for the whole text.
pub(super) fn glob_expression(glob: &str) -> String {
    let letter = |letter: char| match letter {
        '*' => ".*".to_owned(),
        '?' => ".".to_owned(),
        letter => regex::escape(&letter.to_string()),
    };
    let inner: String = glob.chars().map(letter).collect();
    format!("^{inner}$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(one: HostPattern, two: HostPattern) -> Result<Option<HostPattern>, Inexpressible> {
        assert_eq!(one.and(&two), two.and(&one));
        one.and(&two)
    }

    #[test]
    fn patterns_have_hosts_in_common() {
        let exact = |host: &str| HostPattern::Exact(host.to_owned());
        let glob = HostPattern::of_glob;
        assert_eq!(both(exact("a.b"), glob("*.b")), Ok(Some(exact("a.b"))));
        assert_eq!(both(exact("a.c"), glob("*.b")), Ok(None));
        assert_eq!(both(glob("*.a.b"), glob("*.b")), Ok(Some(glob("*.a.b"))));
        assert_eq!(
            both(glob("*.b"), HostPattern::Matches(PLAIN.to_owned())),
            Ok(None)
        );
        assert_eq!(both(glob("w*.b"), glob("*.b")), Err(Inexpressible));
        let net = |text: &str| HostPattern::Net(text.parse().unwrap());
        assert_eq!(
            both(net("10.0.0.0/8"), net("10.1.0.0/16")),
            Ok(Some(net("10.1.0.0/16")))
        );
        assert_eq!(
            both(net("10.0.0.0/8"), exact("10.2.3.4")),
            Ok(Some(exact("10.2.3.4")))
        );
    }

    #[test]
    fn hosts_that_are_asked_for_alike_stand_in_one_list() {
        let host = |name: &str| Predicate::hosts(vec![HostPattern::of_glob(name)]);
        let any = Predicate::Any(vec![host("a.b"), host("*.c"), host("a.b")]);
        let ways = any.ways().unwrap().unwrap();
        assert_eq!(ways.len(), 1);
        assert_eq!(ways[0].json(), json!({ "target": ["a.b", "*.c"] }));
        let none = Predicate::All(vec![host("a.b"), host("c.d")]);
        assert_eq!(none.ways().unwrap().unwrap().len(), 0);
    }

    #[test]
    fn globs_become_expressions_where_they_must() {
        assert_eq!(
            HostPattern::of_glob("*"),
            HostPattern::Matches("^.*$".to_owned())
        );
        assert_eq!(
            HostPattern::of_glob("w?.x"),
            HostPattern::Matches("^w.\\.x$".to_owned())
        );
    }
}
