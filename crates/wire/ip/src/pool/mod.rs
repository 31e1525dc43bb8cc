//! Which identity has which address: the same each time it comes, also after a restart.

mod range;
mod shares;
mod text;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hermes_proto::connect_ip::{AssignedAddress, RequestedAddress};
use hermes_proto::ip::IpPrefix;

pub use range::PoolRange;
use shares::Shares;
pub use text::LeaseTextError;

/// Leases of one pool: each costs some hundred bytes, and more identities than this need more than one node.
#[doc(alias = "bound")]
pub const MAX_LEASES: usize = 65_536;

/// The key of a lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// The holder's identity.
    pub identity: Arc<str>,
    /// 0 for its first tunnel, 1 for one beside that, and so on: each has an address, and finds it again.
    pub number: u32,
}

/// The addresses of one tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The key of the lease.
    pub key: LeaseKey,
    /// The IPv4 address, if the pool has any.
    pub v4: Option<IpPrefix>,
    /// The IPv6 address, if the pool has any.
    pub v6: Option<IpPrefix>,
}

/// The part of a pool that is for identities without a lease: several that act together, each with half of the rest, would
/// have all of it.
const FIRST_LEASES: usize = 4;

/// Seconds in which the only lease of an identity waits for it, however many others want one: a client that moves to another network
/// or starts anew is back by then.
#[doc(alias = "bound")]
const RETURN: u64 = 600;

/// Why an identity has no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// All addresses are in use.
    #[error(
        "no {family} address is free in the pool: {in_use} leases are in use, {kept} are kept for those who return"
    )]
    Exhausted {
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// Leases of tunnels that are open.
        in_use: usize,
        /// Other leases.
        kept: usize,
    },
    /// The user or source has its share: half of the addresses that others do not use.
    #[error(
        "{in_use} leases are in use by this user or source, half of those that others leave in the pool: {others} of {all} are in use by others"
    )]
    Share {
        /// Leases that it uses.
        in_use: usize,
        /// Leases that others use.
        others: usize,
        /// Leases that there can be.
        all: usize,
    },
    /// The rest is for those who have nothing yet.
    #[error(
        "{in_use} leases are in use by this user or source, and the {free} free ones of {all} are kept for holders without a lease"
    )]
    Reserved {
        /// Leases that it uses.
        in_use: usize,
        /// Leases that no one uses.
        free: usize,
        /// Leases that there can be.
        all: usize,
    },
    /// The table is full.
    #[error("the pool has {MAX_LEASES} leases, all of which are in use")]
    Full,
    /// A prefix cannot be given out in parts of this length.
    #[error("{prefix} cannot be given out in prefixes of {each} bits")]
    Range {
        /// The prefix.
        prefix: IpPrefix,
        /// The length of each part.
        each: u8,
    },
}

/// Leased addresses and their holders.
#[derive(Debug, Clone)]
pub struct AddressPool {
    v4: Vec<PoolRange>,
    v6: Vec<PoolRange>,
    /// How long a lease is kept that is not in use, in seconds.
    keep: u64,
    leases: BTreeMap<LeaseKey, Held>,
    /// Prefixes that are leased or kept, and their leases.
    taken: HashMap<IpPrefix, LeaseKey>,
    /// Leases that are not in use, by when they last were.
    idle: BTreeSet<(u64, LeaseKey)>,
    shares: Shares,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    v4: Option<IpPrefix>,
    v6: Option<IpPrefix>,
    /// Seconds since 1970 when it was last given out or given back; `None` while it is in use.
    since: Option<u64>,
}

impl AddressPool {
    /// A pool of these ranges. A lease that is not in use is kept for `keep` seconds; then it may be given to another, if there is no
    /// other address. Where all are kept, those of the identity that keeps most are given away sooner, the oldest first; the only one of
    /// an identity waits for it for ten minutes in any case.
    pub fn new(ranges: Vec<PoolRange>, keep: u64) -> Self {
        let (v4, v6) = ranges.into_iter().partition(PoolRange::is_ipv4);
        Self {
            v4,
            v6,
            keep,
            leases: BTreeMap::new(),
            taken: HashMap::new(),
            idle: BTreeSet::new(),
            shares: Shares::default(),
        }
    }

    /// The lease of one more tunnel of an identity: one that it had and does not use, or another. A wish is granted if it is free.
    /// `now` is in seconds since 1970.
    ///
    /// An identity may use half of the addresses that others leave, and one lease in any case; the
    /// last quarter is for holders without a lease, so that several users together cannot take it
    /// either. All sources of one IPv6 network of 64 bits count as one.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn acquire(
        &mut self,
        identity: &str,
        wishes: &[IpPrefix],
        now: u64,
    ) -> Result<Lease, PoolError> {
        self.check_share(identity)?;
        let key = self.key(identity);
        let before = self.leases.get(&key).copied();
        if before.is_none() && self.leases.len() >= MAX_LEASES && !self.reclaim(now) {
            return Err(PoolError::Full);
        }

        // The lease may come from a pool with other ranges.
        let [had_v4, had_v6] = before.map_or([None, None], |held| [held.v4, held.v6]);
        self.free(&key);
        let found = self.find_both(&key, [had_v4, had_v6], wishes, now);
        let [v4, v6] = match found {
            Ok(found) => found,
            Err(error) => {
                if let Some(before) = before {
                    self.hold(key, before);
                }
                return Err(error);
            }
        };

        self.hold(
            key.clone(),
            Held {
                v4,
                v6,
                since: None,
            },
        );
        Ok(Lease { key, v4, v6 })
    }

    fn check_share(&self, identity: &str) -> Result<(), PoolError> {
        let [in_use, others] = self.shares.in_use(identity);
        let all = self.capacity();
        let share = all.saturating_sub(others).div_ceil(2).max(1);
        if in_use >= share {
            return Err(PoolError::Share {
                in_use,
                others,
                all,
            });
        }

        let free = all.saturating_sub(others + in_use);
        match in_use > 0 && free <= all / FIRST_LEASES {
            true => Err(PoolError::Reserved { in_use, free, all }),
            false => Ok(()),
        }
    }

    /// How many leases there can be: as many as there are addresses of the scarcer family.
    fn capacity(&self) -> usize {
        let families = [&self.v4, &self.v6].into_iter();
        let families = families.filter(|ranges| !ranges.is_empty());
        let parts = families.map(|ranges| {
            let parts = ranges.iter().map(PoolRange::parts);
            parts.fold(0, u64::saturating_add)
        });
        let least = parts.min().unwrap_or_default();
        usize::try_from(least).map_or(MAX_LEASES, |least| least.min(MAX_LEASES))
    }

    /// Grants wishes to a lease that is in use, where they are free or kept for the same identity;
    /// returns the new lease. Of two devices of one user, the first to come back gets the first
    /// lease, which may be the other's: by its wish it takes its own address, and the other one is
    /// kept instead.
    pub fn prefer(&mut self, lease: &Lease, wishes: &[IpPrefix]) -> Lease {
        let mut lease = lease.clone();
        self.free(&lease.key);
        for wish in wishes {
            let kept = self.kept_for(&lease.key.identity, *wish);
            if kept.is_none() && !self.is_free(*wish) {
                continue;
            }

            let own = match wish.is_ipv4() {
                true => &mut lease.v4,
                false => &mut lease.v6,
            };
            let before = own.replace(*wish);
            if let Some(kept) = kept {
                self.put_in_place(&kept, *wish, before);
            }
        }

        let held = Held {
            v4: lease.v4,
            v6: lease.v6,
            since: None,
        };
        self.hold(lease.key.clone(), held);
        lease
    }

    /// Exchanges the addresses of a family between two leases of one identity; returns both as they are then. `None`: they are not of one
    /// identity, or not both in use.
    pub fn exchange(&mut self, [one, other]: [&LeaseKey; 2], is_ipv4: bool) -> Option<[Lease; 2]> {
        let mut first = *self.leases.get(one)?;
        let mut second = *self.leases.get(other)?;
        let are_in_use = first.since.is_none() && second.since.is_none();
        if one.identity != other.identity || one == other || !are_in_use {
            return None;
        }

        self.free(one);
        self.free(other);
        match is_ipv4 {
            true => std::mem::swap(&mut first.v4, &mut second.v4),
            false => std::mem::swap(&mut first.v6, &mut second.v6),
        }
        self.hold(one.clone(), first);
        self.hold(other.clone(), second);

        let lease = |key: &LeaseKey, held: Held| Lease {
            key: key.clone(),
            v4: held.v4,
            v6: held.v6,
        };
        Some([lease(one, first), lease(other, second)])
    }

    /// The lease that keeps a prefix for this identity, without being in use.
    fn kept_for(&self, identity: &str, prefix: IpPrefix) -> Option<LeaseKey> {
        let key = self.taken.get(&prefix)?;
        let held = self.leases.get(key)?;
        let is_kept = held.since.is_some() && *key.identity == *identity;
        let mut ranges = self.ranges(prefix.is_ipv4()).iter();
        let is_given = ranges.any(|range| range.gives(prefix));
        (is_kept && is_given).then(|| key.clone())
    }

    /// Replaces a prefix of a kept lease by another, or by none.
    fn put_in_place(&mut self, key: &LeaseKey, prefix: IpPrefix, other: Option<IpPrefix>) {
        let Some(mut held) = self.leases.get(key).copied() else {
            return;
        };
        self.free(key);
        match prefix.is_ipv4() {
            true => held.v4 = other,
            false => held.v6 = other,
        }
        self.hold(key.clone(), held);
    }

    /// Gives a lease back. It is kept for its identity.
    pub fn release(&mut self, key: &LeaseKey, now: u64) {
        if let Some(held) = self.leases.get_mut(key)
            && held.since.is_none()
        {
            held.since = Some(now);
            self.idle.insert((now, key.clone()));
            self.shares.remove(key, None);
            self.shares.add(key, Some(now));
        }
    }

    /// How many leases are in use, and how many are kept.
    pub fn counts(&self) -> (usize, usize) {
        (self.leases.len() - self.idle.len(), self.idle.len())
    }

    /// The first lease of an identity that no tunnel of it uses, which may have to be made.
    fn key(&self, identity: &str) -> LeaseKey {
        let identity: Arc<str> = identity.into();
        let first = LeaseKey {
            identity: Arc::clone(&identity),
            number: 0,
        };

        let mut number = 0;
        for (key, held) in self.leases.range(first..) {
            if key.identity != identity || key.number != number || held.since.is_some() {
                break;
            }
            number += 1;
        }
        LeaseKey { identity, number }
    }

    fn find_both(
        &mut self,
        key: &LeaseKey,
        had: [Option<IpPrefix>; 2],
        wishes: &[IpPrefix],
        now: u64,
    ) -> Result<[Option<IpPrefix>; 2], PoolError> {
        let mut found = [None; 2];
        for (index, is_ipv4) in [true, false].into_iter().enumerate() {
            if self.ranges(is_ipv4).is_empty() {
                continue;
            }
            let wishes = wishes.iter().filter(|wish| wish.is_ipv4() == is_ipv4);
            let candidates: Vec<_> = wishes.copied().chain(had[index]).collect();
            found[index] = Some(self.find(key, is_ipv4, &candidates, now)?);
        }
        Ok(found)
    }

    /// One of the candidates, or the first free one from a place that the identity chooses: so that it is likely to be the same even
    /// where the table was lost.
    fn find(
        &mut self,
        key: &LeaseKey,
        is_ipv4: bool,
        candidates: &[IpPrefix],
        now: u64,
    ) -> Result<IpPrefix, PoolError> {
        if let Some(free) = candidates.iter().find(|prefix| self.is_free(**prefix)) {
            return Ok(*free);
        }

        loop {
            let ranges = self.ranges(is_ipv4).iter();
            let free = ranges.filter_map(|range| range.find_free(key, &self.taken));
            if let Some(free) = free.take(1).next() {
                return Ok(free);
            }
            if !self.reclaim(now) {
                let (in_use, kept) = self.counts();
                let family = if is_ipv4 { "IPv4" } else { "IPv6" };
                return Err(PoolError::Exhausted {
                    family,
                    in_use,
                    kept,
                });
            }
        }
    }

    /// Whether a prefix may be given out, and is not.
    fn is_free(&self, prefix: IpPrefix) -> bool {
        let mut ranges = self.ranges(prefix.is_ipv4()).iter();
        !self.taken.contains_key(&prefix) && ranges.any(|range| range.gives(prefix))
    }

    fn ranges(&self, is_ipv4: bool) -> &[PoolRange] {
        match is_ipv4 {
            true => &self.v4,
            false => &self.v6,
        }
    }

    /// Forgets the lease that was not used for longest, if that was long enough ago; else one of the identity that keeps most.
    fn reclaim(&mut self, now: u64) -> bool {
        let oldest = self.idle.first();
        let expired = oldest.filter(|(since, _)| now.saturating_sub(*since) >= self.keep);
        let expired = expired.map(|(_, key)| key.clone());
        let Some(key) = expired.or_else(|| self.shares.spare(now.saturating_sub(RETURN))) else {
            return false;
        };

        self.free(&key);
        true
    }

    fn free(&mut self, key: &LeaseKey) {
        let Some(held) = self.leases.remove(key) else {
            return;
        };
        self.shares.remove(key, held.since);
        if let Some(since) = held.since {
            self.idle.remove(&(since, key.clone()));
        }
        for prefix in [held.v4, held.v6].into_iter().flatten() {
            self.take(prefix, None);
        }
    }

    fn hold(&mut self, key: LeaseKey, held: Held) {
        for prefix in [held.v4, held.v6].into_iter().flatten() {
            self.take(prefix, Some(&key));
        }
        self.shares.add(&key, held.since);
        if let Some(since) = held.since {
            self.idle.insert((since, key.clone()));
        }
        self.leases.insert(key, held);
    }

    /// Assigns a prefix to this lease, or frees it.
    fn take(&mut self, prefix: IpPrefix, by: Option<&LeaseKey>) {
        let changed = match by {
            Some(key) => self.taken.insert(prefix, key.clone()).is_none(),
            None => self.taken.remove(&prefix).is_some(),
        };
        let ranges = match prefix.is_ipv4() {
            true => &mut self.v4,
            false => &mut self.v6,
        };
        if let Some(range) = ranges.iter_mut().find(|range| range.gives(prefix))
            && changed
        {
            range.count(by.is_some());
        }
    }
}

impl Lease {
    /// The addresses to assign to the peer: all of the lease, as the answer to a request where one
    /// wanted the family.
    pub fn answer(&self, requests: &[RequestedAddress]) -> Vec<AssignedAddress> {
        let assigned = |prefix: IpPrefix| {
            let mut requests = requests.iter();
            let request = requests.find(|request| request.prefix.is_ipv4() == prefix.is_ipv4());
            AssignedAddress {
                request_id: request.map_or(0, |request| request.request_id),
                prefix,
            }
        };
        [self.v4, self.v6]
            .into_iter()
            .flatten()
            .map(assigned)
            .collect()
    }
}
