//! The keys of a route's conditions.

use std::net::IpAddr;

use hermes_config::model::{
    FieldMatch, Match, PathMatch, PortMatch, TargetMatch, TextMatch, UserMatch,
};
use http::HeaderName;
use ipnet::IpNet;

use super::super::condition::canonical_net;
use super::super::host::HostTest;
use super::super::path::normalise_written;

/// The property that a key is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// A host name, in lower case.
    Name(Side),
    /// The end of a host name, from a dot on.
    Suffix(Side),
    /// A host that is an address.
    Address(Side),
    /// An address, as far as a prefix of this many bits goes; IPv4 and IPv6 differ in their length.
    Net(Side, u8),
    /// A port of the target, big-endian.
    Port,
    /// A path in the compared form.
    Path,
    /// How such a path begins.
    Prefix,
    /// A user.
    User,
    /// A group of users.
    Group,
    /// A group that a token claims.
    ClaimGroup,
    /// A service that the target belongs to.
    Service,
    /// The address that the connection came from, as far as a prefix of this many bits goes; IPv4 and IPv6 differ in their length.
    Source(u8),
    /// A listener.
    Listener,
    /// The value of the field with this number.
    Field(usize),
}

/// The side of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Side {
    Target,
    Authority,
}

/// A kind, and the value to look up.
pub(super) type Key = (Kind, Box<[u8]>);

/// The keys of each condition of which every alternative has one.
pub(super) fn keys_of(matches: &Match, fields: &mut Vec<HeaderName>) -> Vec<Vec<Key>> {
    let mut conditions = Vec::new();
    let mut add = |keys: Option<Vec<Key>>| conditions.extend(keys);

    add(all(matches.target.as_deref(), |target| {
        of_host(Side::Target, target)
    }));
    add(all(matches.authority.as_deref(), |authority| {
        of_host(Side::Authority, authority)
    }));
    add(all(matches.path.as_deref(), of_path));
    add(all(matches.user.as_deref(), of_user));
    add(all(matches.port.as_deref(), of_port));
    add(all(matches.source.as_deref(), of_source));
    add(all(matches.listener.as_deref(), |name| {
        Some((Kind::Listener, name.as_bytes().into()))
    }));

    for (name, test) in &matches.fields {
        add(of_field(name, test, fields).map(|key| vec![key]));
    }
    conditions
}

/// The keys of all alternatives.
fn all<T>(alternatives: Option<&[T]>, key: impl Fn(&T) -> Option<Key>) -> Option<Vec<Key>> {
    alternatives?.iter().map(key).collect()
}

fn of_host(side: Side, target: &TargetMatch) -> Option<Key> {
    match HostTest::compile(&target.host) {
        HostTest::Address(address) => {
            Some((Kind::Address(side), octets(address).as_slice().into()))
        }
        HostTest::Name(name) => Some((Kind::Name(side), name.as_bytes().into())),
        HostTest::Suffix(suffix) => suffix
            .starts_with('.')
            .then(|| (Kind::Suffix(side), suffix.as_bytes().into())),
        HostTest::Net(net) => Some((
            Kind::Net(side, net.prefix_len()),
            octets(net.network()).as_slice().into(),
        )),
        HostTest::Service(name) => {
            (side == Side::Target).then(|| (Kind::Service, name.as_bytes().into()))
        }
        HostTest::Regex(_) => None,
    }
}

fn of_path(condition: &PathMatch) -> Option<Key> {
    match condition {
        PathMatch::Exact(path) => Some((Kind::Path, normalise_written(path).as_bytes().into())),
        PathMatch::Prefix(path) => Some((Kind::Prefix, normalise_written(path).as_bytes().into())),
        PathMatch::Regex(_) => None,
    }
}

pub(super) fn of_user(condition: &UserMatch) -> Option<Key> {
    let UserMatch::Pattern(pattern) = condition else {
        return None;
    };
    let keys = [
        (Kind::User, pattern.exact()),
        (Kind::Group, pattern.group()),
        (Kind::ClaimGroup, pattern.claim_group()),
    ];
    keys.into_iter()
        .find_map(|(kind, name)| Some((kind, name?.as_bytes().into())))
}

fn of_port(range: &PortMatch) -> Option<Key> {
    (range.low == range.high).then(|| (Kind::Port, range.low.to_be_bytes().as_slice().into()))
}

fn of_source(net: &IpNet) -> Option<Key> {
    let net = canonical_net(*net);
    Some((
        Kind::Source(net.prefix_len()),
        octets(net.network()).as_slice().into(),
    ))
}

fn of_field(name: &str, test: &FieldMatch, fields: &mut Vec<HeaderName>) -> Option<Key> {
    let FieldMatch::Value(TextMatch::Exact(value)) = test else {
        return None;
    };
    let name: HeaderName = name.parse().ok()?;
    let number = fields
        .iter()
        .position(|field| *field == name)
        .unwrap_or_else(|| {
            fields.push(name);
            fields.len() - 1
        });

    Some((Kind::Field(number), value.as_bytes().into()))
}

/// An address as bytes.
pub(super) fn octets(address: IpAddr) -> Octets {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            Octets { bytes, length: 4 }
        }
        IpAddr::V6(address) => Octets {
            bytes: address.octets(),
            length: 16,
        },
    }
}

/// The bytes of an address: 4 or 16.
#[derive(Debug, Clone, Copy)]
pub(super) struct Octets {
    bytes: [u8; 16],
    length: usize,
}

impl Octets {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
