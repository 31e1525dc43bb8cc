//! How much each source, and each user, has open: one of them must not use up the room of a listener.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use hermes_net::PeerAddress;
use hermes_net::peer::network;
use parking_lot::Mutex;

/// Connections or sessions of each source at each listener, over all workers.
pub type Sources = PermitTable<IpAddr>;

/// Exchanges of each user at each listener, over all workers.
pub type Users = PermitTable<String>;

/// How many permits each holder has at each listener.
#[derive(Debug)]
pub struct PermitTable<T> {
    open: Counts<T>,
}

type Counts<T> = Arc<Mutex<HashMap<HolderKey<T>, usize>>>;

/// A listener and a holder.
type HolderKey<T> = (Arc<str>, T);

/// Where a permit is counted.
#[derive(Debug)]
struct HeldPlace<T> {
    counts: Counts<T>,
    key: HolderKey<T>,
}

/// A permit that is held until this is dropped.
#[derive(Debug)]
pub struct Permit<T: Eq + Hash> {
    /// Boxed: most permits are of holders that no one counts, and lie in every open tunnel.
    held: Option<Box<HeldPlace<T>>>,
}

impl<T> Default for PermitTable<T> {
    fn default() -> Self {
        Self {
            open: Arc::default(),
        }
    }
}

impl Sources {
    /// A permit for one more of `peer`, of which `most` may be open at `listener`; `None` when there is none. A peer without an
    /// address (a Unix socket) is not counted.
    pub fn enter(
        &self,
        listener: &Arc<str>,
        peer: &PeerAddress,
        most: usize,
    ) -> Option<Permit<IpAddr>> {
        let PeerAddress::Ip(address) = peer else {
            return Some(Permit { held: None });
        };
        if most == usize::MAX {
            return Some(Permit { held: None });
        }
        self.hold((listener.clone(), network(address.ip())), most)
    }
}

impl Users {
    /// A permit for one more of `user`, of which `most` may be open at `listener`; `None` when there is none.
    pub fn join(&self, listener: &Arc<str>, user: &str, most: usize) -> Option<Permit<String>> {
        self.hold((listener.clone(), user.to_owned()), most)
    }
}

impl<T: Clone + Eq + Hash> PermitTable<T> {
    fn hold(&self, key: HolderKey<T>, most: usize) -> Option<Permit<T>> {
        let mut open = self.open.lock();
        let count = open.entry(key.clone()).or_default();
        if *count >= most {
            return None;
        }

        *count += 1;
        drop(open);
        Some(Permit {
            held: Some(Box::new(HeldPlace {
                counts: self.open.clone(),
                key,
            })),
        })
    }
}

impl<T: Eq + Hash> Drop for Permit<T> {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else {
            return;
        };
        let mut open = held.counts.lock();
        if let Some(count) = open.get_mut(&held.key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&held.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> PeerAddress {
        PeerAddress::Ip(format!("{text}:1000").parse().unwrap())
    }

    #[test]
    fn a_permit_is_given_back_when_it_is_dropped() {
        let (sources, name) = (Sources::default(), Arc::from("web"));
        let permits = [(); 2].map(|()| sources.enter(&name, &peer("192.0.2.1"), 2).unwrap());
        assert!(sources.enter(&name, &peer("192.0.2.1"), 2).is_none());
        assert!(
            sources.enter(&name, &peer("192.0.2.2"), 2).is_some(),
            "another source has permits of its own"
        );
        assert!(
            sources
                .enter(&Arc::from("other"), &peer("192.0.2.1"), 2)
                .is_some(),
            "and so has another listener"
        );
        drop(permits);
        assert!(sources.enter(&name, &peer("192.0.2.1"), 2).is_some());
        assert!(
            sources.open.lock().is_empty(),
            "nothing is remembered of sources that have nothing open"
        );
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one_source() {
        let (sources, name) = (Sources::default(), Arc::from("web"));
        let _place = sources.enter(&name, &peer("[2001:db8:0:1::1]"), 1).unwrap();
        assert!(
            sources
                .enter(&name, &peer("[2001:db8:0:1:ffff::2]"), 1)
                .is_none()
        );
        assert!(
            sources
                .enter(&name, &peer("[2001:db8:0:2::1]"), 1)
                .is_some()
        );
        let _mapped = sources
            .enter(&name, &peer("[::ffff:192.0.2.1]"), 1)
            .unwrap();
        assert!(
            sources.enter(&name, &peer("192.0.2.1"), 1).is_none(),
            "an IPv4-mapped address is an IPv4 address"
        );
    }

    #[test]
    fn unix_sockets_are_not_counted() {
        let sources = Sources::default();
        let unix = PeerAddress::Unix { uid: None };
        let permits = [(); 9].map(|()| sources.enter(&Arc::from("web"), &unix, 1));
        assert!(permits.iter().all(Option::is_some));
    }
}
