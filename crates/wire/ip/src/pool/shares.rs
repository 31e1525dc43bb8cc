//! How many leases each holder has, so that no holder takes a pool from the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use super::LeaseKey;

/// The leases of a pool by holder: an identity, or all sources of one network of IPv6.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares {
    holders: BTreeMap<Arc<str>, Share>,
    /// Holders by how many leases they keep.
    by_kept: BTreeSet<(usize, Arc<str>)>,
    in_use: usize,
}

#[derive(Debug, Clone, Default)]
struct Share {
    in_use: usize,
    /// Leases that are not in use, by when they last were.
    kept: BTreeSet<(u64, LeaseKey)>,
}

impl Shares {
    /// How many leases of this identity's holder are in use, and how many of others.
    pub(super) fn in_use(&self, identity: &str) -> [usize; 2] {
        let share = self.holders.get(&*holder(identity));
        let own = share.map_or(0, |share| share.in_use);
        [own, self.in_use - own]
    }

    /// A lease is in use, or is kept since then.
    pub(super) fn add(&mut self, key: &LeaseKey, since: Option<u64>) {
        let holder = holder(&key.identity);
        let share = self.holders.entry(holder.clone()).or_default();
        match since {
            None => {
                share.in_use += 1;
                self.in_use += 1;
            }
            Some(since) => {
                self.by_kept.remove(&(share.kept.len(), holder.clone()));
                share.kept.insert((since, key.clone()));
                self.by_kept.insert((share.kept.len(), holder));
            }
        }
    }

    /// Takes a lease out of the state that it was [added](Self::add) in.
    pub(super) fn remove(&mut self, key: &LeaseKey, since: Option<u64>) {
        let holder = holder(&key.identity);
        let Some(share) = self.holders.get_mut(&holder) else {
            return;
        };
        match since {
            None => {
                share.in_use -= 1;
                self.in_use -= 1;
            }
            Some(since) => {
                self.by_kept.remove(&(share.kept.len(), holder.clone()));
                share.kept.remove(&(since, key.clone()));
                if !share.kept.is_empty() {
                    self.by_kept.insert((share.kept.len(), holder.clone()));
                }
            }
        }

        if share.in_use == 0 && share.kept.is_empty() {
            self.holders.remove(&holder);
        }
    }

    /// The lease to give away first: the longest unused of the holder that keeps most. Among
    /// holders with one each, only leases not used after `before` count.
    pub(super) fn spare(&self, before: u64) -> Option<LeaseKey> {
        // Among holders that keep equally many, the one with the oldest lease.
        let (most, _) = self.by_kept.last()?;
        let holders = self.by_kept.iter().rev();
        let holders = holders.take_while(|(kept, _)| kept == most);
        let oldest = holders.filter_map(|(_, holder)| self.holders.get(holder)?.kept.first());
        let (since, key) = oldest.min()?;
        (*most > 1 || *since <= before).then(|| key.clone())
    }
}

/// The holder of a lease. A source is written as `@` and its address; an IPv6 source counts as its
/// network of 64 bits, in which a host has as many addresses as it likes.
fn holder(identity: &str) -> Arc<str> {
    let source = identity.strip_prefix('@');
    let source = source.and_then(|source| source.parse::<Ipv6Addr>().ok());
    match source {
        Some(source) => {
            let network = source.to_bits() & !u128::from(u64::MAX);
            format!("@{}/64", IpAddr::from(Ipv6Addr::from_bits(network))).into()
        }
        None => identity.into(),
    }
}
