//! Shares of the descriptors, so that no user takes all that the data plane may have.
//!
//! A holder, which is a user or a source without a known user, may hold as many as are free. One takes half at most, two a third
//! each, and so on: there is always room for one more, and nothing is kept back from a lone holder.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::PeerAddress;
use crate::descriptors::ceiling;
use crate::peer::network;

/// Holders that are remembered before idle ones are looked for: looking costs a little.
#[doc(alias = "bound")]
const REMEMBERED: usize = 1024;

/// The descriptors of all holders.
#[derive(Debug, Default)]
pub struct Shares {
    users: Holders<Box<str>>,
    sources: Holders<IpAddr>,
    /// Held by exchanges.
    held: Arc<AtomicUsize>,
    /// Connections that came in.
    connections: Arc<AtomicUsize>,
}

/// Descriptors that an exchange, or a connection, holds; given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    descriptors: usize,
    counts: [Option<Arc<AtomicUsize>>; 2],
}

/// A holder has as many as are free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// How many it holds.
    pub holds: usize,
    /// How many all hold, connections included.
    pub taken: usize,
}

#[derive(Debug)]
struct Holders<K> {
    known: Mutex<HolderCounts<K>>,
}

#[derive(Debug)]
struct HolderCounts<K> {
    counts: HashMap<K, Arc<AtomicUsize>>,
    /// How many there may be before those that hold nothing go.
    room: usize,
}

impl Shares {
    /// Further descriptors for an exchange of `user`, or of `peer` if the user is unknown: all of
    /// them or none. Programs on a Unix socket without a user are not limited.
    ///
    /// # Errors
    /// The holder has as many as are free, or would with these.
    pub fn take(
        &self,
        user: Option<&str>,
        peer: &PeerAddress,
        descriptors: usize,
    ) -> Result<Share, Exceeded> {
        let own = match (user, peer.ip()) {
            (Some(user), _) => self.users.of(user, || user.into()),
            (None, Some(ip)) => {
                let source = network(ip);
                self.sources.of(&source, || source)
            }
            (None, None) => return Ok(Share::of(descriptors, [Some(&self.held), None])),
        };

        let holds = own.load(Ordering::Relaxed);
        let taken = self.taken();
        if holds.saturating_add(descriptors) > ceiling().saturating_sub(taken) {
            return Err(Exceeded { holds, taken });
        }

        Ok(Share::of(descriptors, [Some(&self.held), Some(&own)]))
    }

    /// Counts a connection that came in.
    pub fn connection(&self) -> Share {
        Share::of(1, [Some(&self.connections), None])
    }

    /// The descriptors of the data plane, as far as they are counted.
    pub fn taken(&self) -> usize {
        self.held.load(Ordering::Relaxed) + self.connections.load(Ordering::Relaxed)
    }

    /// Connections that came in and are open.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The largest holder, in words, and how many it holds.
    pub fn largest(&self) -> Option<(String, usize)> {
        let user = self
            .users
            .largest()
            .map(|(user, count)| (format!("user {user}"), count));
        let source = self
            .sources
            .largest()
            .map(|(source, count)| (format!("source {source}"), count));

        user.into_iter()
            .chain(source)
            .max_by_key(|(_, count)| *count)
    }
}

impl Share {
    fn of(descriptors: usize, counts: [Option<&Arc<AtomicUsize>>; 2]) -> Self {
        let counts = counts.map(|count| count.cloned());
        for count in counts.iter().flatten() {
            count.fetch_add(descriptors, Ordering::Relaxed);
        }

        Self {
            descriptors,
            counts,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for count in self.counts.iter().flatten() {
            count.fetch_sub(self.descriptors, Ordering::Relaxed);
        }
    }
}

impl<K> Default for Holders<K> {
    fn default() -> Self {
        Self {
            known: Mutex::new(HolderCounts {
                counts: HashMap::new(),
                room: REMEMBERED,
            }),
        }
    }
}

impl<K: Hash + Eq + Clone> Holders<K> {
    fn of<Q: Hash + Eq + ?Sized>(&self, holder: &Q, name: impl FnOnce() -> K) -> Arc<AtomicUsize>
    where
        K: Borrow<Q>,
    {
        let mut known = self.known.lock();
        if let Some(count) = known.counts.get(holder) {
            return count.clone();
        }

        // Idle holders are forgotten when the table is full, not each time: most come back.
        if known.counts.len() >= known.room {
            known.counts.retain(|_, count| Arc::strong_count(count) > 1);
            known.room = REMEMBERED.max(2 * known.counts.len());
        }

        known.counts.entry(name()).or_default().clone()
    }

    fn largest(&self) -> Option<(K, usize)> {
        let known = self.known.lock();
        let counts = known
            .counts
            .iter()
            .map(|(holder, count)| (holder, count.load(Ordering::Relaxed)));
        let (holder, count) = counts
            .filter(|(_, count)| *count > 0)
            .max_by_key(|(_, count)| *count)?;

        Some((holder.clone(), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> PeerAddress {
        PeerAddress::Ip(format!("{text}:1000").parse().unwrap())
    }

    #[test]
    fn what_is_held_is_counted_by_holder_and_given_back() {
        let shares = Shares::default();
        let alice: Vec<_> = (0..3)
            .map(|_| shares.take(Some("alice"), &peer("192.0.2.1"), 1).unwrap())
            .collect();
        let unknown = shares.take(None, &peer("192.0.2.1"), 5).unwrap();
        let connection = shares.connection();
        assert_eq!((shares.taken(), shares.connections()), (9, 1));
        assert_eq!(shares.largest(), Some(("source 192.0.2.1".to_owned(), 5)));
        drop(unknown);
        assert_eq!(shares.largest(), Some(("user alice".to_owned(), 3)));
        drop((alice, connection));
        assert_eq!((shares.taken(), shares.largest()), (0, None));
    }

    #[test]
    fn holders_of_nothing_are_not_remembered_for_ever() {
        let shares = Shares::default();
        for user in 0..10 * REMEMBERED {
            drop(shares.take(Some(&user.to_string()), &peer("192.0.2.1"), 1));
        }
        assert!(shares.users.known.lock().counts.len() <= REMEMBERED);
    }
}
