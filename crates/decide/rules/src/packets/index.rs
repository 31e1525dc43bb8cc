//! Finds the rules that are worth asking by where a flow is opened to.

use std::collections::HashMap;
use std::net::IpAddr;

use hermes_proto::ip::IpPrefix;

use super::PacketRule;

/// Rules by the prefixes that they name as targets; each list is in the order of the rules.
#[derive(Debug, Clone, Default)]
pub(super) struct TargetIndex {
    anywhere: Vec<u32>,
    by_prefix: HashMap<IpPrefix, Vec<u32>>,
    /// Lengths of the prefixes of each family.
    lengths_v4: Vec<u8>,
    lengths_v6: Vec<u8>,
}

impl TargetIndex {
    pub(super) fn new(rules: &[PacketRule]) -> Self {
        let mut index = Self::default();
        for (place, rule) in (0..).zip(rules) {
            if rule.to.is_empty() {
                index.anywhere.push(place);
            }
            for prefix in &rule.to {
                index.add(*prefix, place);
            }
        }

        index.lengths_v4.sort_unstable();
        index.lengths_v6.sort_unstable();
        index
    }

    fn add(&mut self, prefix: IpPrefix, place: u32) {
        let places = self.by_prefix.entry(prefix).or_default();
        // A rule may name a prefix twice.
        if places.last() != Some(&place) {
            places.push(place);
        }

        let lengths = match prefix.is_ipv4() {
            true => &mut self.lengths_v4,
            false => &mut self.lengths_v6,
        };
        if !lengths.contains(&prefix.length()) {
            lengths.push(prefix.length());
        }
    }

    /// Lists of rules; each rule that can match is in one of them, and names this address or no
    /// address.
    pub(super) fn candidates(&self, target: IpAddr) -> impl Iterator<Item = &[u32]> {
        std::iter::once(&self.anywhere[..]).chain(self.about(target))
    }

    /// The rules that name this address.
    pub(super) fn about(&self, target: IpAddr) -> impl Iterator<Item = &[u32]> {
        let lengths = match target.is_ipv4() {
            true => &self.lengths_v4,
            false => &self.lengths_v6,
        };
        let found = lengths.iter().filter_map(move |length| {
            let prefix = IpPrefix::around(target, *length).ok()?;
            self.by_prefix.get(&prefix)
        });
        found.map(Vec::as_slice)
    }
}
