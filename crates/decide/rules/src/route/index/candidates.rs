//! The routes that may match an exchange, or the conditions of another route.

use std::net::IpAddr;
use std::ops::Range;
use std::ops::RangeInclusive;

use hermes_config::model::{FieldMatch, Match, PathMatch, TextMatch};
use ipnet::IpNet;

use super::super::condition::canonical_net;
use super::super::facts::View;
use super::super::host::{Host, HostTest};
use super::super::path::{normalise, normalise_written};
use super::Index;
use super::keys::{Kind, Side, octets, of_user};

/// Buckets of the routes' index that one exchange looks at; with more, all routes are asked.
#[doc(alias = "bound")]
const BUCKETS: usize = 32;

/// Longest name that is compared without being copied to the heap, in bytes (RFC 1035, 2.3.4).
const NAME: usize = 255;

/// Routes to ask, in their order: those in the buckets found, or all routes if there are too many buckets.
pub(crate) struct Candidates<'a> {
    index: &'a Index,
    buckets: [&'a [u32]; BUCKETS],
    count: usize,
    /// All routes not yet asked, if there are too many buckets.
    all: Option<Range<u32>>,
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let route = match &mut self.all {
            Some(all) => all.next(),
            None => self.first(),
        };
        route.map(|route| route as usize)
    }
}

impl Index {
    /// The routes that may match an exchange.
    pub(crate) fn candidates(&self, view: &View<'_>) -> Candidates<'_> {
        let mut found = Candidates::new(self);
        // Without keys, every route is one that is always tried.
        if self.kinds.is_empty() {
            return found;
        }

        let facts = view.facts;
        found.host(Side::Target, &view.target);
        if let Some((host, _)) = &view.authority {
            found.host(Side::Authority, host);
        }

        if let Some(port) = facts.target.port() {
            found.text(Kind::Port, &port.to_be_bytes());
        }
        found.path(facts.path);
        found.text(Kind::User, facts.user.unwrap_or_default().as_bytes());
        found.text(Kind::Listener, facts.listener.as_bytes());
        if let Some(named) = &view.named {
            let groups = named.groups.iter();
            groups.for_each(|group| found.text(Kind::Group, group.as_bytes()));
            let services = named.services.iter();
            services.for_each(|service| found.text(Kind::Service, service.as_bytes()));
        }

        for group in facts.claimed.iter() {
            found.text(Kind::ClaimGroup, group.as_bytes());
        }

        if let Some(source) = view.source {
            found.source(source, u8::MAX);
        }
        for (number, name) in self.fields.iter().enumerate() {
            for value in facts.fields.values(name) {
                found.text(Kind::Field(number), value.as_bytes());
            }
        }

        found
    }

    /// The routes that may match everything that these conditions match. Such a route matches their first alternatives in particular, so
    /// it is enough to look these up.
    pub(crate) fn wider(&self, matches: &Match) -> Candidates<'_> {
        let mut found = Candidates::new(self);
        if self.kinds.is_empty() {
            return found;
        }

        let sides = [
            (Side::Target, &matches.target),
            (Side::Authority, &matches.authority),
        ];
        for (side, condition) in sides {
            if let Some(first) = condition.as_deref().and_then(<[_]>::first) {
                found.wider_host(side, &HostTest::compile(&first.host));
            }
        }

        let target = matches
            .target
            .as_deref()
            .and_then(<[_]>::first)
            .and_then(|target| target.port);
        let port = matches
            .port
            .as_deref()
            .and_then(<[_]>::first)
            .map(|range| range.low);
        for port in [target, port].into_iter().flatten() {
            found.text(Kind::Port, &port.to_be_bytes());
        }

        if let Some(first) = matches.path.as_deref().and_then(<[_]>::first) {
            found.wider_path(first);
        }
        let user = matches.user.as_deref().and_then(<[_]>::first);
        if let Some((kind, text)) = user.and_then(of_user) {
            found.text(kind, &text);
        }

        if let Some(listener) = matches.listener.as_deref().and_then(<[_]>::first) {
            found.text(Kind::Listener, listener.as_bytes());
        }
        if let Some(net) = matches.source.as_deref().and_then(<[_]>::first) {
            let net = canonical_net(*net);
            found.source(net.network(), net.prefix_len());
        }

        found.wider_fields(matches);
        found
    }
}

impl<'a> Candidates<'a> {
    fn new(index: &'a Index) -> Self {
        let mut found = Self {
            index,
            buckets: [&[]; BUCKETS],
            count: 0,
            all: None,
        };

        // A bucket like the others, so that `next` merges it in order.
        found.push(&index.always);
        found
    }

    fn push(&mut self, routes: &'a [u32]) {
        match self.buckets.get_mut(self.count) {
            Some(bucket) => {
                *bucket = routes;
                self.count += 1;
            }
            // Slower, with the same result. A list of buckets without a bound would grow with the fields that a client sends.
            None => self.all = Some(0..self.index.routes),
        }
    }

    fn text(&mut self, kind: Kind, text: &[u8]) {
        let index = self.index;
        if let Some(routes) = index
            .kinds
            .get(&kind)
            .and_then(|buckets| buckets.by_text.get(text))
        {
            self.push(routes);
        }
    }

    /// A host that is this address.
    fn address(&mut self, side: Side, address: IpAddr) {
        self.text(Kind::Address(side), octets(address).as_slice());
        self.nets(side, address, u8::MAX);
    }

    fn host(&mut self, side: Side, host: &Host<'_>) {
        host.any_address(|address| {
            self.address(side, address);
            false
        });
        if let (None, Some(net)) = (host.address, host.net) {
            self.nets(side, net.network(), net.prefix_len());
        }

        let kinds = &self.index.kinds;
        let names = kinds.get(&Kind::Name(side));
        let has_suffixes = kinds.contains_key(&Kind::Suffix(side));
        if names.is_none() && !has_suffixes {
            return;
        }

        // On the stack: no allocation for a name of legal length.
        let mut short = [0; NAME];
        let mut long = Vec::new();
        let name = match short.get_mut(..host.name.len()) {
            Some(name) => name,
            None => {
                long.resize(host.name.len(), 0);
                &mut long[..]
            }
        };

        name.copy_from_slice(host.name.as_bytes());
        name.make_ascii_lowercase();
        if let Some(routes) = names.and_then(|names| names.by_text.get(&*name)) {
            self.push(routes);
        }

        if has_suffixes {
            // A suffix needs at least one byte before it: `.example` does not match the name `.example`.
            self.suffixes(side, name, 1);
        }
    }

    /// The ends of a name that begin with a dot at `start` or later.
    fn suffixes(&mut self, side: Side, name: &[u8], start: usize) {
        for (at, byte) in name.iter().enumerate().skip(start) {
            if *byte == b'.' {
                self.text(Kind::Suffix(side), &name[at..]);
            }
        }
    }

    fn wider_host(&mut self, side: Side, test: &HostTest) {
        match test {
            HostTest::Address(address) => self.address(side, *address),
            HostTest::Net(net) => self.nets(side, net.network(), net.prefix_len()),
            HostTest::Name(name) => {
                self.text(Kind::Name(side), name.as_bytes());
                self.suffixes(side, name.as_bytes(), 1);
            }
            HostTest::Suffix(suffix) => self.suffixes(side, suffix.as_bytes(), 0),
            HostTest::Service(name) => self.text(Kind::Service, name.as_bytes()),
            HostTest::Regex(_) => {}
        }
    }

    fn path(&mut self, path: &str) {
        if self.has(Kind::Path) || self.has(Kind::Prefix) {
            let path = normalise(path);
            self.text(Kind::Path, path.as_bytes());
            self.prefixes(path.as_bytes());
        }
    }

    fn wider_path(&mut self, condition: &PathMatch) {
        match condition {
            PathMatch::Exact(path) => {
                let path = normalise_written(path);
                self.text(Kind::Path, path.as_bytes());
                self.prefixes(path.as_bytes());
            }
            PathMatch::Prefix(path) => self.prefixes(normalise_written(path).as_bytes()),
            PathMatch::Regex(_) => {}
        }
    }

    fn prefixes(&mut self, path: &[u8]) {
        let index = self.index;
        let Some(buckets) = index.kinds.get(&Kind::Prefix) else {
            return;
        };

        for start in buckets
            .lengths
            .iter()
            .filter_map(|length| path.get(..*length))
        {
            if let Some(routes) = buckets.by_text.get(start) {
                self.push(routes);
            }
        }
    }

    /// Prefixes of an address of this many bits, at most.
    fn source(&mut self, address: IpAddr, most: u8) {
        self.prefixes_of(address, Kind::Source(0)..=Kind::Source(most));
    }

    /// As [`Self::source`], for a host that is an address.
    fn nets(&mut self, side: Side, address: IpAddr, most: u8) {
        self.prefixes_of(address, Kind::Net(side, 0)..=Kind::Net(side, most));
    }

    fn prefixes_of(&mut self, address: IpAddr, kinds: RangeInclusive<Kind>) {
        let index = self.index;
        for (kind, buckets) in index.kinds.range(kinds) {
            let (Kind::Source(length) | Kind::Net(_, length)) = *kind else {
                continue;
            };
            let Ok(net) = IpNet::new(address, length) else {
                continue;
            };

            if let Some(routes) = buckets.by_text.get(octets(net.trunc().addr()).as_slice()) {
                self.push(routes);
            }
        }
    }

    fn wider_fields(&mut self, matches: &Match) {
        let index = self.index;
        for (name, test) in &matches.fields {
            let FieldMatch::Value(TextMatch::Exact(value)) = test else {
                continue;
            };
            let number = index
                .fields
                .iter()
                .position(|field| name.eq_ignore_ascii_case(field.as_str()));

            if let Some(number) = number {
                self.text(Kind::Field(number), value.as_bytes());
            }
        }
    }

    fn has(&self, kind: Kind) -> bool {
        self.index.kinds.contains_key(&kind)
    }

    /// Takes the first route out of all buckets.
    fn first(&mut self) -> Option<u32> {
        let buckets = &mut self.buckets[..self.count];
        let first = buckets
            .iter()
            .filter_map(|bucket| bucket.first())
            .min()
            .copied()?;
        // A route can stand in several buckets: all of them move past it, so that it is asked once.
        for bucket in buckets {
            if let Some((_, rest)) = bucket.split_first().filter(|(route, _)| **route == first) {
                *bucket = rest;
            }
        }

        Some(first)
    }
}
