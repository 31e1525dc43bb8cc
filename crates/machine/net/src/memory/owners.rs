//! Memory charged to its owner: a user, or the source of a stranger.
//!
//! The connection accounts beside this count contents that a slow reader leaves behind. Everything else that waits for someone
//! (decoded heads, kept contents, replay windows, buffers of a TCP stack, waiting datagrams) is charged here. An
//! owner may hold as much as is free: half of the whole if it is alone, a third each if there are two, and so on, so that there is
//! always room for one more. Every owner has [`OWNER_FLOOR`] in any case: a crowd of greedy owners cannot refuse a modest one.
//!
//! All charges together take at most half of `memory.total`, and floors up to a quarter more;
//! contents have the rest.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Memory;
use crate::peer::{PeerAddress, network};

/// Bytes that an owner may be charged for however much others hold: a few heads and a small content.
#[doc(alias = "bound")]
pub const OWNER_FLOOR: usize = 64 << 10;

/// Owners that are remembered before those without a charge are looked for: looking costs a little.
#[doc(alias = "bound")]
const REMEMBERED: usize = 1024;

/// The charged user or source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A user of the overlay, by canonical name.
    User(Box<str>),
    /// A stranger, by address; the network of 64 bits for IPv6.
    Source(IpAddr),
    /// Clients of a UDP listener, by its name: before a tunnel is open their addresses may be forged.
    Listener(Box<str>),
    /// Programs of a user of this machine, by number, that come by a Unix socket and have no name.
    LocalUser(u32),
    /// Programs of this machine of which not even that is known.
    Local,
}

impl Owner {
    /// The user, or the source of `peer` where no one knows the user.
    #[must_use]
    pub fn of(user: Option<&str>, peer: &PeerAddress) -> Self {
        match (user, peer.ip()) {
            (Some(user), _) => Self::User(user.into()),
            (None, Some(ip)) => Self::Source(network(ip)),
            (None, None) => match peer {
                PeerAddress::Unix { uid: Some(uid) } => Self::LocalUser(*uid),
                _ => Self::Local,
            },
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user {name}"),
            Self::Source(ip) => write!(f, "source {ip}"),
            Self::Listener(name) => write!(f, "listener {name}"),
            Self::LocalUser(uid) => write!(f, "local programs of user {uid}"),
            Self::Local => f.write_str("local programs"),
        }
    }
}

/// The purpose of a charge, as `status` and metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Decoded heads and trailers, of requests and answers.
    Heads,
    /// Contents kept to be sent again, and early bytes.
    Replays,
    /// Replay windows of tunnels that can be resumed, and detached sessions.
    Sessions,
    /// Contents and answers collected as a whole: broadcasts, filters, key sets.
    Collected,
    /// Datagrams that wait for a tunnel or a next hop.
    Datagrams,
    /// Connections and buffers of a TCP stack in user space.
    Stack,
    /// Transforms of tunnels.
    Transforms,
    /// Records of TLS, and messages of handshakes, that are not whole.
    Records,
    /// Stored responses of a cache.
    Cached,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Heads,
        Self::Replays,
        Self::Sessions,
        Self::Collected,
        Self::Datagrams,
        Self::Stack,
        Self::Transforms,
        Self::Records,
        Self::Cached,
    ];

    /// Whether its holder goes on without the charge: a content that is not kept, a tunnel without a session, a datagram less. Without a
    /// reserve these would take the room that the owner's next request needs.
    fn is_optional(self) -> bool {
        matches!(
            self,
            Self::Replays | Self::Sessions | Self::Datagrams | Self::Cached
        )
    }

    /// Its name in `status` and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Replays => "replays",
            Self::Sessions => "sessions",
            Self::Collected => "collected",
            Self::Datagrams => "datagrams",
            Self::Stack => "stack",
            Self::Transforms => "transforms",
            Self::Records => "tls_records",
            Self::Cached => "cache",
        }
    }
}

/// A charge was refused: the owner holds as much as is free.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory for {}: {owner} holds {owned} of {charged} charged bytes, and {free} are free",
    purpose.name()
)]
pub struct Overdrawn {
    /// The owner that would have been charged.
    pub owner: Owner,
    /// The purpose of the refused charge.
    pub purpose: Purpose,
    /// Bytes that the owner holds.
    pub owned: usize,
    /// Bytes that all owners hold.
    pub charged: usize,
    /// Bytes that are free.
    pub free: usize,
}

/// The charges of all owners.
#[derive(Debug)]
pub(super) struct Owners {
    charged: AtomicUsize,
    purposes: [PurposeCounts; Purpose::ALL.len()],
    last_refusal: Mutex<Option<Overdrawn>>,
    /// `None` until the first owner: a map cannot be made in a constant.
    known: Mutex<Option<HashMap<Owner, Arc<OwnerCount>>>>,
}

/// The charges for one purpose.
#[derive(Debug)]
struct PurposeCounts {
    bytes: AtomicUsize,
    refused: AtomicUsize,
}

/// The charges of one owner.
#[derive(Debug)]
struct OwnerCount {
    memory: &'static Memory,
    owner: Owner,
    bytes: AtomicUsize,
}

impl Owners {
    pub(super) const fn new() -> Self {
        Self {
            charged: AtomicUsize::new(0),
            purposes: [const { PurposeCounts::new() }; Purpose::ALL.len()],
            last_refusal: Mutex::new(None),
            known: Mutex::new(None),
        }
    }

    pub(super) fn charged(&self) -> usize {
        self.charged.load(Ordering::Relaxed)
    }

    fn count_of(&self, memory: &'static Memory, owner: Owner) -> Arc<OwnerCount> {
        let mut known = self.known.lock();
        let counts = known.get_or_insert_default();
        if let Some(count) = counts.get(&owner) {
            return count.clone();
        }

        // Owners without a charge go when the room is full, not each time: most come back.
        if counts.len() >= REMEMBERED && counts.len() == counts.capacity() {
            counts.retain(|_, count| Arc::strong_count(count) > 1);
        }

        let count = Arc::new(OwnerCount {
            memory,
            owner: owner.clone(),
            bytes: AtomicUsize::new(0),
        });
        counts.insert(owner, count.clone());
        count
    }
}

impl PurposeCounts {
    const fn new() -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }
}

impl Memory {
    /// The account of an owner: looked up once for each connection or session, not for each charge.
    pub fn owner(&'static self, owner: Owner) -> OwnerAccount {
        OwnerAccount {
            count: self.owners.count_of(self, owner),
        }
    }

    /// Bytes that are charged to owners.
    pub fn charged(&self) -> usize {
        self.owners.charged()
    }

    /// Charges that were refused since the start.
    pub fn refused_charges(&self) -> usize {
        let purposes = Purpose::ALL.into_iter();
        purposes.map(|purpose| self.refused_for(purpose)).sum()
    }

    /// Bytes that are charged for a purpose.
    pub fn charged_for(&self, purpose: Purpose) -> usize {
        self.owners.purposes[purpose as usize]
            .bytes
            .load(Ordering::Relaxed)
    }

    /// Charges for a purpose that were refused since the start.
    pub fn refused_for(&self, purpose: Purpose) -> usize {
        self.owners.purposes[purpose as usize]
            .refused
            .load(Ordering::Relaxed)
    }

    /// The last refused charge since this was called before.
    pub fn take_last_refusal(&self) -> Option<Overdrawn> {
        self.owners.last_refusal.lock().take()
    }

    /// The owners that are charged most, this many at most, with their bytes.
    pub fn largest_owners(&self, count: usize) -> Vec<(Owner, usize)> {
        let known = self.owners.known.lock();
        let mut owners: Vec<(Owner, usize)> = known
            .iter()
            .flatten()
            .map(|(owner, count)| (owner.clone(), count.bytes.load(Ordering::Relaxed)))
            .filter(|(_, owned)| *owned > 0)
            .collect();
        // Sorted without the lock, which every new connection takes.
        drop(known);

        owners.sort_by_key(|(_, owned)| std::cmp::Reverse(*owned));
        owners.truncate(count);
        owners
    }

    /// Bytes that all owners together may be charged for.
    fn chargeable(&self) -> usize {
        self.budget() / 2
    }

    /// Bytes that floors may bring all charges to: an attacker of many addresses has many floors.
    fn chargeable_with_floors(&self) -> usize {
        self.budget() / 4 * 3
    }
}

/// The account of one owner. Clones are the same account.
#[derive(Debug, Clone)]
pub struct OwnerAccount {
    count: Arc<OwnerCount>,
}

impl OwnerAccount {
    fn memory(&self) -> &'static Memory {
        self.count.memory
    }

    /// A charge of nothing, that can grow.
    #[must_use]
    pub fn empty_charge(&self, purpose: Purpose) -> Charge {
        Charge {
            account: self.clone(),
            purpose,
            bytes: 0,
        }
    }

    /// Charges the owner until the charge is dropped.
    ///
    /// # Errors
    /// The owner would hold more than is free, and more than [`OWNER_FLOOR`].
    pub fn charge(&self, purpose: Purpose, bytes: usize) -> Result<Charge, Overdrawn> {
        let mut charge = self.empty_charge(purpose);
        charge.grow(bytes)?;

        Ok(charge)
    }

    /// Whether both are accounts of the same owner.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.count.owner == other.count.owner
    }

    /// Bytes that the owner is charged for.
    #[must_use]
    pub fn owned(&self) -> usize {
        self.count.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the owner may still be charged for.
    #[must_use]
    pub fn room(&self) -> usize {
        let owned = self.owned();
        let memory = self.memory();
        let charged = memory.charged();
        let free = memory.chargeable().saturating_sub(charged);

        // Half of the room that others leave: after this charge, no more than the rest would be
        // free.
        let fair = free.saturating_sub(owned) / 2;
        let floors_left = memory.chargeable_with_floors().saturating_sub(charged);
        let floor = OWNER_FLOOR.saturating_sub(owned).min(floors_left);
        fair.max(floor)
    }

    /// As [`Self::room`], for a purpose: an optional one leaves a quarter of the owner's share to the others.
    #[must_use]
    pub fn room_for(&self, purpose: Purpose) -> usize {
        let room = self.room();
        if !purpose.is_optional() {
            return room;
        }

        let owned = self.owned();
        let share = owned + room;
        let floor = room.min(OWNER_FLOOR.saturating_sub(owned));
        room.saturating_sub(share / 4).max(floor)
    }

    fn refuse(&self, purpose: Purpose) -> Overdrawn {
        let memory = self.memory();
        let charged = memory.charged();
        let refused = Overdrawn {
            owner: self.count.owner.clone(),
            purpose,
            owned: self.owned(),
            charged,
            free: memory.chargeable().saturating_sub(charged),
        };

        let owners = &memory.owners;
        owners.purposes[purpose as usize]
            .refused
            .fetch_add(1, Ordering::Relaxed);
        *owners.last_refusal.lock() = Some(refused.clone());
        refused
    }
}

/// Bytes charged to an owner; given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: OwnerAccount,
    purpose: Purpose,
    /// In 32 bits, as charges lie in every stream: more than 4 GiB for one thing are refused.
    bytes: u32,
}

impl Charge {
    /// The account that is charged.
    #[must_use]
    pub fn account(&self) -> &OwnerAccount {
        &self.account
    }

    /// Bytes of this charge.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Charges further bytes: all of them or none. Concurrent charges of one owner can exceed its
    /// room by one charge each.
    ///
    /// # Errors
    /// As [`OwnerAccount::charge`].
    pub fn grow(&mut self, bytes: usize) -> Result<(), Overdrawn> {
        let all = u32::try_from(self.bytes().saturating_add(bytes)).ok();
        let Some(all) = all.filter(|_| bytes <= self.room()) else {
            return Err(self.account.refuse(self.purpose));
        };

        for count in self.counts() {
            count.fetch_add(bytes, Ordering::Relaxed);
        }
        self.bytes = all;

        Ok(())
    }

    /// As [`grow`](Self::grow), for a holder that goes on with less: a refusal is not counted. Whether there was room.
    pub fn grow_if_free(&mut self, bytes: usize) -> bool {
        bytes <= self.room() && self.grow(bytes).is_ok()
    }

    /// Bytes by which it may grow.
    #[must_use]
    pub fn room(&self) -> usize {
        self.account.room_for(self.purpose)
    }

    /// Gives so many bytes back, or all if there are fewer.
    pub fn shrink(&mut self, bytes: usize) {
        let left = self.bytes().saturating_sub(bytes);
        let given = self.bytes() - left;
        for count in self.counts() {
            count.fetch_sub(given, Ordering::Relaxed);
        }

        self.bytes = left as u32;
    }

    fn counts(&self) -> [&AtomicUsize; 3] {
        let owners = &self.account.memory().owners;
        [
            &self.account.count.bytes,
            &owners.charged,
            &owners.purposes[self.purpose as usize].bytes,
        ]
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::CONNECTION;

    const MIB: usize = 1 << 20;

    fn memory(total: usize) -> &'static Memory {
        Box::leak(Box::new(Memory::new(total, CONNECTION)))
    }

    fn user(memory: &'static Memory, name: &str) -> OwnerAccount {
        memory.owner(Owner::User(name.into()))
    }

    /// Charges piece by piece until no more is granted.
    fn fill(account: &OwnerAccount) -> Vec<Charge> {
        let piece = || account.charge(Purpose::Heads, 16 << 10);
        std::iter::from_fn(|| piece().ok()).collect()
    }

    #[test]
    fn an_owner_has_half_of_what_others_leave() {
        let memory = memory(128 * MIB);
        let greedy = user(memory, "greedy");
        let first = fill(&greedy);
        assert!(
            greedy.owned().abs_diff(32 * MIB) < MIB,
            "{}",
            greedy.owned()
        );

        let second = user(memory, "second");
        let held = fill(&second);
        assert!(
            second.owned().abs_diff(16 * MIB) < MIB,
            "{}",
            second.owned()
        );
        assert_eq!(memory.charged(), greedy.owned() + second.owned());
        assert_eq!(memory.largest_owners(1)[0].0, Owner::User("greedy".into()));

        drop((first, held));
        assert_eq!((memory.charged(), greedy.owned()), (0, 0));
        assert_eq!(memory.charged_for(Purpose::Heads), 0);
    }

    #[test]
    fn a_crowd_of_greedy_owners_leaves_the_floor_to_each() {
        let memory = memory(16 * MIB);
        let names = (0..50).map(|n| format!("greedy{n}"));
        let crowd: Vec<_> = names.map(|name| fill(&user(memory, &name))).collect();
        let modest = user(memory, "modest");
        assert!(modest.charge(Purpose::Replays, OWNER_FLOOR).is_ok());
        assert!(memory.charged() <= 8 * MIB + 51 * OWNER_FLOOR);
        assert!(memory.refused_charges() >= 50);
        drop(crowd);
    }

    #[test]
    fn floors_of_ever_more_owners_end() {
        let memory = memory(16 * MIB);
        let names = (0..1000).map(|n| format!("source{n}"));
        let crowd: Vec<_> = names.map(|name| fill(&user(memory, &name))).collect();
        assert!(memory.charged() <= 12 * MIB, "{}", memory.charged());
        drop(crowd);
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn a_refused_charge_names_its_owner_and_purpose() {
        let memory = memory(MIB);
        let refused = user(memory, "alice")
            .charge(Purpose::Replays, MIB)
            .unwrap_err();
        let words =
            "memory for replays: user alice holds 0 of 0 charged bytes, and 524288 are free";
        assert_eq!(refused.to_string(), words);
        assert_eq!(memory.refused_for(Purpose::Replays), 1);
        assert_eq!(memory.take_last_refusal(), Some(refused));
        assert_eq!(memory.take_last_refusal(), None);
    }

    #[test]
    fn kept_contents_leave_room_for_the_next_request() {
        let memory = memory(16 * MIB);
        let account = user(memory, "alice");
        let piece = || account.charge(Purpose::Replays, 16 << 10).ok();
        let kept: Vec<Charge> = std::iter::from_fn(piece).collect();
        assert!(account.owned() > 2 * MIB, "{}", account.owned());
        assert!(account.charge(Purpose::Heads, MIB / 2).is_ok());
        drop(kept);
    }

    #[test]
    fn a_refused_growth_changes_nothing() {
        let memory = memory(MIB);
        let account = user(memory, "alice");
        let mut charge = account.charge(Purpose::Sessions, 1000).unwrap();
        assert!(charge.grow(MIB).is_err());
        assert_eq!((charge.bytes(), account.owned()), (1000, 1000));
        charge.shrink(400);
        assert_eq!((charge.bytes(), memory.charged()), (600, 600));
    }

    #[test]
    fn one_account_for_all_addresses_of_a_network() {
        let peer = |text: &str| PeerAddress::Ip(text.parse().unwrap());
        let first = Owner::of(None, &peer("[2001:db8::1]:1"));
        assert_eq!(first, Owner::of(None, &peer("[2001:db8::2]:2")));
        assert_eq!(
            Owner::of(Some("alice"), &peer("192.0.2.1:1")).to_string(),
            "user alice"
        );
    }

    #[test]
    fn owners_without_a_charge_are_forgotten() {
        let memory = memory(MIB);
        for n in 0..10 * REMEMBERED {
            drop(user(memory, &n.to_string()));
        }
        let known = memory.owners.known.lock().as_ref().unwrap().len();
        assert!(known <= 4 * REMEMBERED, "{known}");
    }
}
