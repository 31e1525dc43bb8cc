//! Which name has which address: for programs that know addresses only, and mean names of the overlay.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use hermes_proto::ip::IpPrefix;

use crate::pool::{AddressPool, Lease, PoolError, PoolRange};

/// Names that have addresses at once: more than the programs of one machine use within an hour.
#[doc(alias = "bound")]
pub const MAX_NAMES: usize = 4096;

/// How long a name keeps its addresses after it was asked for, or used, last, in seconds: much longer than answers may be kept, so that
/// no program takes the address of one name for that of another.
#[doc(alias = "bound")]
pub const NAME_KEPT: u64 = 60 * 60;

/// How long a name keeps them that was only asked for, in seconds, where there is room for no other: a web page makes programs ask for any
/// number of names. Answers may be kept for a minute.
#[doc(alias = "bound")]
pub const NAME_ASKED: u64 = 5 * 60;

/// Addresses at the beginning of each prefix that are no name's: the device's, and that of the name server.
const OWN: [u8; 2] = [1, 2];

/// No address is free for one more name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "all addresses of the pool are those of names that were used within an hour, or asked for within five minutes"
)]
pub struct NamesFull;

/// The addresses of names. A name finds the same each time, also after a restart as long as no other name got them first.
#[derive(Debug)]
pub struct NameLeases {
    pool: AddressPool,
    by_name: HashMap<Arc<str>, NameLease>,
    by_address: HashMap<IpAddr, Arc<str>>,
    /// Names that packets were sent to, by the time of their last use.
    by_use: BTreeSet<(u64, Arc<str>)>,
    /// Names that were only asked for, by the time of the last question.
    by_question: BTreeSet<(u64, Arc<str>)>,
}

#[derive(Debug)]
struct NameLease {
    lease: Lease,
    /// When it was last used, in seconds.
    used: u64,
    /// Whether anything was sent to it.
    is_visited: bool,
}

impl NameLeases {
    /// Gives out the addresses of these prefixes, of which a name gets one of each family.
    ///
    /// # Errors
    /// [`PoolError::Range`].
    pub fn new(prefixes: &[IpPrefix]) -> Result<Self, PoolError> {
        let mut ranges = Vec::new();
        for prefix in prefixes {
            let each = if prefix.is_ipv4() { 32 } else { 128 };
            let own: Vec<IpAddr> = OWN.iter().map(|place| at(*prefix, *place)).collect();
            ranges.push(PoolRange::new(*prefix, each, &own)?);
        }
        Ok(Self {
            pool: AddressPool::new(ranges, 0),
            by_name: HashMap::new(),
            by_address: HashMap::new(),
            by_use: BTreeSet::new(),
            by_question: BTreeSet::new(),
        })
    }

    /// The address of a prefix that is the device's, where that has no other.
    pub fn device_address(prefix: IpPrefix) -> IpAddr {
        at(prefix, OWN[0])
    }

    /// The address of a prefix that is the name server's.
    pub fn server_address(prefix: IpPrefix) -> IpAddr {
        at(prefix, OWN[1])
    }

    /// The addresses of a name, one of each family, IPv4 first; from now on it keeps them for [`NAME_KEPT`]. `now` is in seconds, since
    /// any time.
    ///
    /// # Errors
    /// [`NamesFull`].
    pub fn lease(&mut self, name: &str, now: u64) -> Result<Vec<IpAddr>, NamesFull> {
        if let Some(known) = self
            .by_name
            .get_key_value(name)
            .map(|(name, _)| name.clone())
        {
            self.use_again(&known, now, false);
            return Ok(self.addresses(&known));
        }
        // Answers are refused before a name in use is forgotten: its programs would reach someone else.
        if self.by_name.len() >= MAX_NAMES && !self.forget_oldest(now) {
            return Err(NamesFull);
        }

        let lease = loop {
            match self.pool.acquire(name, &[], now) {
                Ok(lease) => break lease,
                // The pool of one family can be full before the table is.
                Err(_) if self.forget_oldest(now) => {}
                Err(_) => return Err(NamesFull),
            }
        };
        let name: Arc<str> = name.into();
        for address in addresses_of(&lease) {
            self.by_address.insert(address, name.clone());
        }
        // A question is not a use: one program that asks for thousands of names cannot push out those that carry traffic.
        self.by_question.insert((now, name.clone()));
        let known = NameLease {
            lease,
            used: now,
            is_visited: false,
        };
        self.by_name.insert(name.clone(), known);
        Ok(self.addresses(&name))
    }

    /// The name that has this address, and uses it now.
    pub fn name(&mut self, address: IpAddr, now: u64) -> Option<Arc<str>> {
        let name = self.by_address.get(&address)?.clone();
        self.use_again(&name, now, true);
        Some(name)
    }

    /// The name that has this address.
    pub fn peek(&self, address: IpAddr) -> Option<&Arc<str>> {
        self.by_address.get(&address)
    }

    /// How many names have addresses.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether no name has an address.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let known = self.by_name.get(name);
        known.map_or_else(Vec::new, |known| addresses_of(&known.lease).collect())
    }

    fn use_again(&mut self, name: &Arc<str>, now: u64, is_visit: bool) {
        let Some(known) = self.by_name.get_mut(name) else {
            return;
        };
        // Most uses are within one second of each other.
        let is_first_visit = is_visit && !known.is_visited;
        if known.used >= now && !is_first_visit {
            return;
        }

        let before = known.used;
        let was_visited = known.is_visited;
        known.used = before.max(now);
        known.is_visited |= is_visit;
        let entry = (known.used, name.clone());
        let is_visited = known.is_visited;
        self.uses(was_visited).remove(&(before, name.clone()));
        self.uses(is_visited).insert(entry);
    }

    fn uses(&mut self, is_visited: bool) -> &mut BTreeSet<(u64, Arc<str>)> {
        match is_visited {
            true => &mut self.by_use,
            false => &mut self.by_question,
        }
    }

    /// Forgets the name that was not used for longest, if that was long enough ago.
    fn forget_oldest(&mut self, now: u64) -> bool {
        let is_over = |since: u64, kept: u64| now.saturating_sub(since) >= kept;
        // Names that no one has used go first.
        let asked = self.by_question.first();
        let asked = asked.filter(|(since, _)| is_over(*since, NAME_ASKED));
        let used = self.by_use.first();
        let used = used.filter(|(since, _)| is_over(*since, NAME_KEPT));
        let Some((since, name)) = asked.or(used).cloned() else {
            return false;
        };

        self.by_question.remove(&(since, name.clone()));
        self.by_use.remove(&(since, name.clone()));
        if let Some(known) = self.by_name.remove(&name) {
            for address in addresses_of(&known.lease) {
                self.by_address.remove(&address);
            }
            self.pool.release(&known.lease.key, now);
        }
        true
    }
}

/// The addresses of a lease.
fn addresses_of(lease: &Lease) -> impl Iterator<Item = IpAddr> + use<> {
    let both = [lease.v4, lease.v6];
    both.into_iter().flatten().map(|prefix| prefix.address())
}

/// The address at this place of a prefix.
fn at(prefix: IpPrefix, place: u8) -> IpAddr {
    match prefix.address() {
        IpAddr::V4(first) => IpAddr::V4((first.to_bits() | u32::from(place)).into()),
        IpAddr::V6(first) => IpAddr::V6((first.to_bits() | u128::from(place)).into()),
    }
}
