//! How many connections one party has at once, so that it cannot take the room of others.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts by party.
#[derive(Debug)]
pub(super) struct Shares<K: Eq + Hash> {
    most: u32,
    counts: Arc<Mutex<HashMap<K, u32>>>,
}

/// One of a party's connections, until it is dropped.
#[derive(Debug)]
pub(super) struct Share<K: Eq + Hash> {
    party: K,
    counts: Arc<Mutex<HashMap<K, u32>>>,
}

impl<K: Eq + Hash + Clone> Shares<K> {
    /// So many for each party.
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            counts: Arc::default(),
        }
    }

    /// One more for a party; `None` if it has all that it may have.
    pub(super) fn take(&self, party: K) -> Option<Share<K>> {
        let mut counts = self.counts.lock();
        let count = counts.entry(party.clone()).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Share {
            party,
            counts: self.counts.clone(),
        })
    }
}

impl<K: Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.party) {
            *count -= 1;
            // Parties that have none are forgotten: the table is as large as the connections.
            if *count == 0 {
                counts.remove(&self.party);
            }
        }
    }
}

/// The party of an address: itself, or for IPv6 the /64 that one party has as a whole.
pub(super) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_has_its_share_and_no_more() {
        let shares = Shares::new(2);
        let held = [shares.take("a"), shares.take("a")];
        assert!(held.iter().all(Option::is_some));
        assert!(shares.take("a").is_none());
        assert!(shares.take("b").is_some());
        drop(held);
        assert!(shares.take("a").is_some());
        assert!(
            shares.counts.lock().is_empty(),
            "nothing is remembered of who has none"
        );
    }

    #[test]
    fn a_network_of_ipv6_is_one_party() {
        let one = source("2001:db8::1".parse().unwrap());
        assert_eq!(source("2001:db8::ffff:1".parse().unwrap()), one);
        assert_ne!(source("2001:db8:0:1::1".parse().unwrap()), one);
        assert_eq!(
            source("::ffff:10.0.0.1".parse().unwrap()),
            source("10.0.0.1".parse().unwrap())
        );
    }
}
