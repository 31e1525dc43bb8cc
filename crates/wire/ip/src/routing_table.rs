//! Which tunnel a destination is behind.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

use hermes_proto::ip::IpPrefix;

/// Routes of one table: some for each of as many tunnels as a node has.
#[doc(alias = "bound")]
pub const MAX_TABLE_ROUTES: usize = 262_144;

/// A route was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteConflict<O> {
    /// Another owner has the same prefix. Longer and shorter prefixes do not conflict: the longest
    /// match counts.
    #[error("{prefix} is already routed to another tunnel")]
    Owned {
        /// The prefix.
        prefix: IpPrefix,
        /// The owner of the prefix.
        owner: O,
    },
    /// There are too many.
    #[error("{0} is not routed: the table has {MAX_TABLE_ROUTES} routes")]
    Full(IpPrefix),
}

/// The next hop of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop<O> {
    /// The tunnel of this owner.
    Owner(O),
    /// No tunnel: the device, or nothing.
    Elsewhere,
    /// A tunnel, but the packet came from one, and clients may not talk to each other here; or it would go back to where it came from.
    Forbidden,
}

/// From prefixes to owners, by the longest that matches.
#[derive(Debug, Clone)]
pub struct RoutingTable<O> {
    v4: Family<u32, O>,
    v6: Family<u128, O>,
    by_owner: HashMap<O, Vec<IpPrefix>>,
    count: usize,
    client_to_client: bool,
}

/// The routes of one family: by length, the longest first; then by address.
type Family<A, O> = BTreeMap<Reverse<u8>, HashMap<A, O>>;

impl<O: Copy + Eq + Hash> RoutingTable<O> {
    /// A table without routes. `client_to_client`: whether packets may go from one tunnel into
    /// another.
    pub fn new(client_to_client: bool) -> Self {
        Self {
            v4: BTreeMap::new(),
            v6: BTreeMap::new(),
            by_owner: HashMap::new(),
            count: 0,
            client_to_client,
        }
    }

    /// Routes a prefix to an owner; nothing changes where it has it already.
    ///
    /// # Errors
    /// [`RouteConflict`], with the table unchanged.
    pub fn insert(&mut self, prefix: IpPrefix, owner: O) -> Result<(), RouteConflict<O>> {
        if self.prefixes(owner).contains(&prefix) {
            return Ok(());
        }
        if self.count >= MAX_TABLE_ROUTES {
            return Err(RouteConflict::Full(prefix));
        }

        let length = Reverse(prefix.length());
        match prefix.address() {
            IpAddr::V4(address) => {
                let routes = self.v4.entry(length).or_default();
                add(routes.entry(address.to_bits()), prefix, owner)
            }
            IpAddr::V6(address) => {
                let routes = self.v6.entry(length).or_default();
                add(routes.entry(address.to_bits()), prefix, owner)
            }
        }?;

        self.count += 1;
        self.by_owner.entry(owner).or_default().push(prefix);
        Ok(())
    }

    /// Routes these prefixes, and no others, to an owner. Returns the prefixes that it could not
    /// have.
    pub fn replace(&mut self, owner: O, prefixes: &[IpPrefix]) -> Vec<RouteConflict<O>> {
        let before = self.by_owner.get(&owner).cloned().unwrap_or_default();
        for prefix in before.iter().filter(|prefix| !prefixes.contains(prefix)) {
            self.withdraw(*prefix, owner);
        }

        let inserted = prefixes.iter().map(|prefix| self.insert(*prefix, owner));
        inserted.filter_map(Result::err).collect()
    }

    /// Takes a prefix from its owner; false if it is not this owner's.
    pub fn withdraw(&mut self, prefix: IpPrefix, owner: O) -> bool {
        let length = Reverse(prefix.length());
        let removed = match prefix.address() {
            IpAddr::V4(address) => remove(&mut self.v4, length, address.to_bits(), owner),
            IpAddr::V6(address) => remove(&mut self.v6, length, address.to_bits(), owner),
        };
        if !removed {
            return false;
        }

        self.count -= 1;
        if let Some(owned) = self.by_owner.get_mut(&owner) {
            owned.retain(|other| *other != prefix);
            if owned.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        true
    }

    /// Removes all routes of an owner whose tunnel has ended.
    pub fn remove(&mut self, owner: O) {
        for prefix in self.by_owner.remove(&owner).unwrap_or_default() {
            let length = Reverse(prefix.length());
            let removed = match prefix.address() {
                IpAddr::V4(address) => remove(&mut self.v4, length, address.to_bits(), owner),
                IpAddr::V6(address) => remove(&mut self.v6, length, address.to_bits(), owner),
            };
            self.count -= usize::from(removed);
        }
    }

    /// Gives everything of one owner to another: a tunnel has moved, and no packet in between finds no route.
    pub fn hand_over(&mut self, from: O, to: O) {
        let prefixes = self.by_owner.remove(&from).unwrap_or_default();
        for prefix in &prefixes {
            let length = Reverse(prefix.length());
            let owner = match prefix.address() {
                IpAddr::V4(address) => find(&mut self.v4, length, address.to_bits()),
                IpAddr::V6(address) => find(&mut self.v6, length, address.to_bits()),
            };
            if let Some(owner) = owner {
                *owner = to;
            }
        }

        if !prefixes.is_empty() {
            self.by_owner.entry(to).or_default().extend(prefixes);
        }
    }

    /// The owner of a destination.
    pub fn owner(&self, destination: IpAddr) -> Option<O> {
        match destination {
            IpAddr::V4(address) => longest(&self.v4, |length| {
                let hosts = u32::MAX.checked_shr(length.into()).unwrap_or(0);
                address.to_bits() & !hosts
            }),
            IpAddr::V6(address) => longest(&self.v6, |length| {
                let hosts = u128::MAX.checked_shr(length.into()).unwrap_or(0);
                address.to_bits() & !hosts
            }),
        }
    }

    /// The next hop of a destination. `from` is the tunnel that the packet came from; `None` for
    /// the device.
    pub fn next_hop(&self, from: Option<O>, destination: IpAddr) -> NextHop<O> {
        let Some(owner) = self.owner(destination) else {
            return NextHop::Elsewhere;
        };
        match from {
            Some(from) if from == owner || !self.client_to_client => NextHop::Forbidden,
            _ => NextHop::Owner(owner),
        }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The prefixes of an owner.
    pub fn prefixes(&self, owner: O) -> &[IpPrefix] {
        self.by_owner.get(&owner).map_or(&[], Vec::as_slice)
    }
}

/// Fills an entry.
fn add<A, O: Copy + Eq>(
    entry: Entry<'_, A, O>,
    prefix: IpPrefix,
    owner: O,
) -> Result<(), RouteConflict<O>> {
    match entry {
        Entry::Occupied(other) => Err(RouteConflict::Owned {
            prefix,
            owner: *other.get(),
        }),
        Entry::Vacant(vacant) => {
            vacant.insert(owner);
            Ok(())
        }
    }
}

fn find<A: Eq + Hash, O>(
    family: &mut Family<A, O>,
    length: Reverse<u8>,
    address: A,
) -> Option<&mut O> {
    family.get_mut(&length)?.get_mut(&address)
}

fn remove<A: Eq + Hash, O: Copy + Eq>(
    family: &mut Family<A, O>,
    length: Reverse<u8>,
    address: A,
    owner: O,
) -> bool {
    let Some(routes) = family.get_mut(&length) else {
        return false;
    };
    if routes.get(&address) != Some(&owner) {
        return false;
    }

    routes.remove(&address);
    // A length without routes would cost each look-up.
    if routes.is_empty() {
        family.remove(&length);
    }
    true
}

fn longest<A: Eq + Hash, O: Copy>(family: &Family<A, O>, masked: impl Fn(u8) -> A) -> Option<O> {
    family
        .iter()
        .find_map(|(length, routes)| routes.get(&masked(length.0)).copied())
}
