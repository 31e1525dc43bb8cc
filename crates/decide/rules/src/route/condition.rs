//! One condition of a route, compiled, and the words for its failure.

use std::fmt::{self, Display};
use std::net::IpAddr;

use hermes_config::model::{
    ExchangeKind, FieldMatch, Match, PathMatch, PortMatch, TargetMatch, UserMatch,
};
use hermes_proto::fields::Fields;
use http::HeaderName;
use ipnet::{IpNet, Ipv4Net};

use super::facts::View;
use super::host::TargetTest;
use super::path::PathTest;

/// A condition; alternatives are listed in the order in which they were written.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Kind(Vec<ExchangeKind>),
    Target(Vec<TargetTest>),
    Port(Vec<PortMatch>),
    Authority(Vec<TargetTest>),
    Path(Vec<(PathTest, PathMatch)>),
    Method(Vec<String>),
    Protocol(Vec<String>),
    Field(FieldTest),
    User(Vec<UserMatch>),
    Source(Vec<IpNet>),
    Listener(Vec<String>),
}

/// A condition on one field; a name that no field can have never matches.
#[derive(Debug, Clone)]
pub(crate) struct FieldTest {
    name: Option<HeaderName>,
    written: String,
    test: FieldMatch,
}

impl Condition {
    /// A route's conditions, the cheap ones first.
    pub(crate) fn compile(matches: &Match) -> Vec<Self> {
        let targets = |list: &[TargetMatch]| list.iter().map(TargetTest::compile).collect();
        let mut conditions = Vec::new();
        conditions.extend(
            matches
                .listener
                .as_ref()
                .map(|list| Self::Listener(list.to_vec())),
        );

        conditions.extend(matches.kind.as_ref().map(|list| Self::Kind(list.to_vec())));
        conditions.extend(matches.port.as_ref().map(|list| Self::Port(list.to_vec())));
        conditions.extend(
            matches
                .method
                .as_ref()
                .map(|list| Self::Method(list.to_vec())),
        );

        conditions.extend(
            matches
                .protocol
                .as_ref()
                .map(|list| Self::Protocol(list.to_vec())),
        );

        conditions.extend(
            matches
                .target
                .as_ref()
                .map(|list| Self::Target(targets(list))),
        );

        conditions.extend(
            matches
                .authority
                .as_ref()
                .map(|list| Self::Authority(targets(list))),
        );

        conditions.extend(
            matches
                .source
                .as_ref()
                .map(|list| Self::Source(list.iter().map(|net| canonical_net(*net)).collect())),
        );

        conditions.extend(matches.user.as_ref().map(|list| Self::User(list.to_vec())));
        conditions.extend(
            matches
                .fields
                .iter()
                .map(|(name, test)| Self::Field(FieldTest::compile(name, test))),
        );

        conditions.extend(matches.path.as_ref().map(|list| {
            Self::Path(
                list.iter()
                    .map(|condition| (PathTest::compile(condition), condition.clone()))
                    .collect(),
            )
        }));

        conditions
    }

    /// Whether the condition holds.
    pub(crate) fn holds(&self, view: &View<'_>) -> bool {
        let facts = view.facts;
        match self {
            Self::Target(any) => {
                any.iter()
                    .any(|test| test.matches(&view.target, facts.target.port()))
                    || is_served(any, view)
            }
            Self::Kind(any) => any.contains(&facts.kind),
            Self::Port(any) => facts
                .target
                .port()
                .is_some_and(|port| any.iter().any(|range| range.matches(port))),
            Self::Authority(any) => view
                .authority
                .is_some_and(|(host, port)| any.iter().any(|test| test.matches(&host, port))),
            Self::Path(any) => any.iter().any(|(test, _)| test.matches(facts.path)),
            Self::Method(any) => any.iter().any(|method| method == facts.method.as_str()),
            Self::Protocol(any) => facts
                .protocol
                .is_some_and(|token| any.iter().any(|wanted| wanted.eq_ignore_ascii_case(token))),
            Self::Field(field) => field.holds(facts.fields),
            Self::User(any) => match facts.user {
                Some(user) => {
                    any.iter()
                        .any(|test| is_meant(test, user) || is_claimed(test, view))
                        || is_in(any, view)
                }
                None => any.contains(&UserMatch::Unknown),
            },
            Self::Source(any) => view
                .source
                .is_some_and(|source| any.iter().any(|net| net.contains(&source))),
            Self::Listener(any) => any.iter().any(|name| name == facts.listener),
        }
    }

    /// Whether its compared values are remembered of an exchange after its head went on.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(
            self,
            Self::Field(_) | Self::Authority(_) | Self::Protocol(_)
        )
    }

    /// Why the condition does not hold, in words; says nothing of the values of fields, which may be secret.
    pub(crate) fn failure(&self, view: &View<'_>) -> String {
        let facts = view.facts;
        match self {
            Self::Kind(any) => format!("kind {} is not {}", facts.kind, AnyOf(any)),
            Self::Target(any) => format!("target {} is not {}", facts.target, AnyOf(any)),
            Self::Port(any) => given("port", facts.target.port(), &AnyOf(any)),
            Self::Authority(any) => match facts.authority {
                None => format!("no authority; {} is wanted", AnyOf(any)),
                Some((host, None)) => format!("authority {host} is not {}", AnyOf(any)),
                Some((host, Some(port))) => {
                    format!("authority {host}:{port} is not {}", AnyOf(any))
                }
            },
            Self::Path(any) if facts.path.is_empty() => {
                format!("no path; {} is wanted", AnyOf(&written(any)))
            }
            Self::Path(any) => format!("path {} is not {}", facts.path, AnyOf(&written(any))),
            Self::Method(any) => format!("method {} is not {}", facts.method, AnyOf(any)),
            Self::Protocol(any) => given("protocol", facts.protocol, &AnyOf(any)),
            Self::Field(field) => field.failure(),
            Self::User(any) => given("user", facts.user, &AnyOf(any)),
            Self::Source(any) => given("source", view.source, &AnyOf(any)),
            Self::Listener(any) => format!("listener {} is not {}", facts.listener, AnyOf(any)),
        }
    }
}

/// Whether this user is meant other than by a group.
fn is_meant(test: &UserMatch, user: &str) -> bool {
    match test {
        UserMatch::Regex(regex) => regex.is_match(user),
        UserMatch::Pattern(pattern) => pattern.matches(user),
        UserMatch::Unknown => false,
    }
}

/// Whether the user's token claims this group.
fn is_claimed(test: &UserMatch, view: &View<'_>) -> bool {
    match test {
        UserMatch::Pattern(pattern) => pattern
            .claim_group()
            .is_some_and(|group| view.facts.claimed.contains(group)),
        UserMatch::Regex(_) | UserMatch::Unknown => false,
    }
}

/// Whether the user is in one of the groups that are named.
fn is_in(any: &[UserMatch], view: &View<'_>) -> bool {
    let Some(named) = &view.named else {
        return false;
    };
    any.iter().any(|test| match test {
        UserMatch::Pattern(pattern) => pattern
            .group()
            .is_some_and(|group| named.groups.contains(&group)),
        UserMatch::Regex(_) | UserMatch::Unknown => false,
    })
}

/// Whether the target belongs to one of the services that are named.
fn is_served(any: &[TargetTest], view: &View<'_>) -> bool {
    let Some(named) = &view.named else {
        return false;
    };
    any.iter()
        .filter_map(TargetTest::service)
        .any(|service| named.services.contains(&service))
}

fn written(any: &[(PathTest, PathMatch)]) -> Vec<&PathMatch> {
    any.iter().map(|(_, condition)| condition).collect()
}

fn given(what: &str, value: Option<impl Display>, wanted: &impl Display) -> String {
    match value {
        Some(value) => format!("{what} {value} is not {wanted}"),
        None => format!("no {what}; {wanted} is wanted"),
    }
}

impl FieldTest {
    fn compile(name: &str, test: &FieldMatch) -> Self {
        Self {
            name: name.parse().ok(),
            written: name.to_owned(),
            test: test.clone(),
        }
    }

    /// Field lines are compared whole: a list within one line is not taken apart.
    fn holds(&self, fields: &Fields) -> bool {
        let Some(name) = &self.name else { return false };
        match &self.test {
            FieldMatch::Present(wanted) => fields.contains_key(name) == *wanted,
            FieldMatch::Value(test) => fields.values(name).any(|value| {
                std::str::from_utf8(value.as_bytes()).is_ok_and(|value| test.matches(value))
            }),
        }
    }

    fn failure(&self) -> String {
        let name = &self.written;
        match &self.test {
            FieldMatch::Present(true) => format!("field {name} is absent"),
            FieldMatch::Present(false) => format!("field {name} is present"),
            FieldMatch::Value(test) => format!("field {name} is not {test}"),
        }
    }
}

/// Alternatives in words: `a`, or `one of a, b`.
struct AnyOf<'a, T>(&'a [T]);

impl<T: Display> Display for AnyOf<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => formatter.write_str("anything (the list is empty)"),
            [one] => one.fmt(formatter),
            [first, rest @ ..] => {
                write!(formatter, "one of {first}")?;
                rest.iter()
                    .try_for_each(|item| write!(formatter, ", {item}"))
            }
        }
    }
}

/// A prefix as it is compared: without host bits, and IPv4 where it was written as IPv4-mapped IPv6.
pub(crate) fn canonical_net(net: IpNet) -> IpNet {
    let net = net.trunc();
    let (IpAddr::V4(address), Some(length)) = (
        net.network().to_canonical(),
        net.prefix_len().checked_sub(96),
    ) else {
        return net;
    };

    Ipv4Net::new(address, length).map_or(net, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_prefixes_become_plain_ones() {
        for (written, compared) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(
                canonical_net(written.parse().unwrap()).to_string(),
                compared
            );
        }
    }
}
