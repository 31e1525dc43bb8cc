//! The charge for the exchanges of a connection, in steps: most exchanges touch nothing that
//! connections share.
//!
//! A head is counted when it is decoded, for the source of its connection, and for its user as soon as that is known: a link carries
//! many users, and a source may have many.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Charge, Memory, Overdrawn, Owner, Purpose};
use crate::peer::{PeerAddress, network};

/// Bytes of a connection, or of one user on it, that are not charged: one exchange with a usual head, so that a connection of HTTP/1.1
/// touches no account.
#[doc(alias = "bound")]
const FREE: usize = EXCHANGE + USUAL_HEAD;

/// Bytes that an exchange is charged for beside its head, until it is over or its tunnel is open:
/// its task, and its stream on a link.
#[doc(alias = "bound")]
const EXCHANGE: usize = 8 << 10;

/// Bytes by which charges grow and shrink.
const STEP: usize = 16 << 10;

/// Bytes of a head that is taken even where its connection has no room, until its user is known: others on a link have usual heads.
#[doc(alias = "bound")]
pub const USUAL_HEAD: usize = 4 << 10;

/// Users of a connection who are remembered before those who hold nothing are looked for: most connections have one.
#[doc(alias = "bound")]
const USERS: usize = 8;

/// The charges of a connection.
#[derive(Debug)]
pub struct ConnectionCharges {
    source: Arc<SteppedCharge>,
    users: Mutex<HashMap<Box<str>, Arc<SteppedCharge>>>,
    /// Clients behind a proxy, by their networks.
    clients: Mutex<HashMap<IpAddr, Arc<SteppedCharge>>>,
}

impl ConnectionCharges {
    /// The charges of a connection with this peer.
    #[must_use]
    pub fn of(peer: &PeerAddress) -> Arc<Self> {
        Self::within(Memory::node(), peer)
    }

    fn within(memory: &'static Memory, peer: &PeerAddress) -> Arc<Self> {
        Arc::new(Self {
            source: SteppedCharge::new(memory, Owner::of(None, peer)),
            users: Mutex::default(),
            clients: Mutex::default(),
        })
    }

    /// A head of so many bytes has come, with which an exchange begins. One of [`USUAL_HEAD`] at most is always taken.
    ///
    /// # Errors
    /// The source has no room for it.
    pub fn arrive(self: &Arc<Self>, bytes: usize) -> Result<ExchangeCharge, Overdrawn> {
        let all = EXCHANGE + bytes;
        // A link carries many users: a usual head is read even for a source without room, so that its user is found and charged.
        self.source.take(all, bytes <= USUAL_HEAD)?;
        Ok(self.charge(all))
    }

    /// As [`Self::arrive`], of a head of any size, which is refused when it is [settled](ExchangeCharge::settle) only.
    #[must_use]
    pub fn arrive_anyway(self: &Arc<Self>, bytes: usize) -> ExchangeCharge {
        // Taken in any case, and covered as far as there is room.
        let all = EXCHANGE + bytes;
        let _ = self.source.take(all, true);
        self.charge(all)
    }

    /// Fields of so many bytes have come for an exchange that is charged elsewhere: those of an answer, or trailers.
    ///
    /// # Errors
    /// As [`Self::arrive`].
    pub fn add(self: &Arc<Self>, bytes: usize) -> Result<ExchangeCharge, Overdrawn> {
        self.source.take(bytes, bytes <= USUAL_HEAD)?;
        Ok(self.charge(bytes))
    }

    /// A request has begun; its head, of this many bytes as far as is known, is not here yet.
    /// `begun` is charged for it from now on. There must be room even for a small one: a stream
    /// costs a client next to nothing.
    ///
    /// # Errors
    /// The source has no room for it: nothing more is charged then.
    pub fn begin(
        self: &Arc<Self>,
        begun: &mut Option<ExchangeCharge>,
        head: usize,
    ) -> Result<(), Overdrawn> {
        self.reserve(begun, EXCHANGE + head)
    }

    /// Fields of so many bytes are announced for an exchange that is charged elsewhere, and not whole yet: as [`Self::begin`].
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn reserve(
        self: &Arc<Self>,
        reserved: &mut Option<ExchangeCharge>,
        bytes: usize,
    ) -> Result<(), Overdrawn> {
        let before = reserved.as_ref().map_or(0, |reserved| reserved.bytes);
        if bytes > before {
            self.source.take(bytes - before, false)?;
            reserved.get_or_insert_with(|| self.charge(0)).bytes = bytes;
        } else if let Some(reserved) = reserved {
            reserved.shrink_to(bytes);
        }

        Ok(())
    }

    fn charge(self: &Arc<Self>, bytes: usize) -> ExchangeCharge {
        ExchangeCharge {
            connection: self.clone(),
            owner: self.source.clone(),
            bytes,
        }
    }

    fn of_user(&self, user: &str) -> Arc<SteppedCharge> {
        let mut users = self.users.lock();
        if let Some(charge) = users.get(user) {
            return charge.clone();
        }

        forget_idle(&mut users);
        let fresh = SteppedCharge::new(self.source.memory, Owner::User(user.into()));
        users.insert(user.into(), fresh.clone());
        fresh
    }

    /// The charge of a client behind the other end; a local process is the other end itself.
    fn of_client(&self, client: &PeerAddress) -> Arc<SteppedCharge> {
        let Some(ip) = client.ip() else {
            return self.source.clone();
        };
        let mut clients = self.clients.lock();
        if let Some(charge) = clients.get(&network(ip)) {
            return charge.clone();
        }

        forget_idle(&mut clients);
        let fresh = SteppedCharge::new(self.source.memory, Owner::of(None, client));
        clients.insert(network(ip), fresh.clone());
        fresh
    }
}

/// Idle holders are forgotten when the table is full, not each time: most come back.
fn forget_idle<K>(known: &mut HashMap<K, Arc<SteppedCharge>>) {
    if known.len() >= USERS && known.len() == known.capacity() {
        known.retain(|_, charge| Arc::strong_count(charge) > 1);
    }
}

/// The charge for one exchange; given back on drop.
#[derive(Debug)]
pub struct ExchangeCharge {
    connection: Arc<ConnectionCharges>,
    owner: Arc<SteppedCharge>,
    bytes: usize,
}

impl ExchangeCharge {
    /// More has come for it. So much as [`USUAL_HEAD`] is always taken.
    ///
    /// # Errors
    /// Its owner has no room for it: nothing is charged then.
    pub fn add(&mut self, bytes: usize) -> Result<(), Overdrawn> {
        self.owner.take(bytes, bytes <= USUAL_HEAD)?;
        self.bytes += bytes;
        Ok(())
    }

    /// The user of the exchange is known, and this many further bytes. They are charged in any
    /// case.
    ///
    /// # Errors
    /// The owner has no room for it.
    pub fn settle(&mut self, user: Option<&str>, more: usize) -> Result<(), Overdrawn> {
        if let Some(user) = user {
            self.pass_to(self.connection.of_user(user))?;
        }

        if more > 0 {
            self.owner.count(more);
            self.bytes += more;
        }
        self.owner.cover()
    }

    /// Its client is not at the other end of the connection, but behind it.
    ///
    /// # Errors
    /// The client has no room for it.
    pub fn is_of(&mut self, client: &PeerAddress) -> Result<(), Overdrawn> {
        self.pass_to(self.connection.of_client(client))
    }

    fn pass_to(&mut self, owner: Arc<SteppedCharge>) -> Result<(), Overdrawn> {
        if !Arc::ptr_eq(&owner, &self.owner) {
            owner.take(self.bytes, false)?;
            std::mem::replace(&mut self.owner, owner).give(self.bytes);
        }
        Ok(())
    }

    /// Only this many bytes are left.
    pub fn shrink_to(&mut self, bytes: usize) {
        let gone = self.bytes.saturating_sub(bytes);
        if gone > 0 {
            self.bytes -= gone;
            self.owner.give(gone);
        }
    }
}

impl Drop for ExchangeCharge {
    fn drop(&mut self) {
        self.owner.give(self.bytes);
    }
}

/// The bytes of one owner on one connection.
#[derive(Debug)]
struct SteppedCharge {
    memory: &'static Memory,
    owner: Owner,
    held: AtomicUsize,
    /// As many as `charge` has, for those who only look.
    charged: AtomicUsize,
    /// `None` until it is needed: the account is not looked up for most connections.
    charge: Mutex<Option<Charge>>,
}

impl SteppedCharge {
    fn new(memory: &'static Memory, owner: Owner) -> Arc<Self> {
        Arc::new(Self {
            memory,
            owner,
            held: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            charge: Mutex::new(None),
        })
    }

    fn count(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes, and charges the part that earlier charges do not cover.
    fn take(&self, bytes: usize, anyway: bool) -> Result<(), Overdrawn> {
        self.count(bytes);
        match self.cover() {
            Err(overdrawn) if !anyway => {
                self.give(bytes);
                Err(overdrawn)
            }
            _ => Ok(()),
        }
    }

    /// Charges the uncovered bytes: by a step, or by the room that is left.
    fn cover(&self) -> Result<(), Overdrawn> {
        if self.held.load(Ordering::Relaxed) <= FREE + self.charged.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut charge = self.charge.lock();
        let charge = match &mut *charge {
            Some(charge) => charge,
            none => {
                let account = self.memory.owner(self.owner.clone());
                none.insert(account.charge(Purpose::Heads, 0)?)
            }
        };

        let held = self.held.load(Ordering::Relaxed);
        let missing = held.saturating_sub(FREE + charge.bytes());
        let step = missing.next_multiple_of(STEP);
        let grown = if step <= charge.room() {
            charge.grow(step)
        } else {
            charge.grow(missing)
        };

        self.charged.store(charge.bytes(), Ordering::Relaxed);
        grown
    }

    fn give(&self, bytes: usize) {
        let held = self.held.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        let charged = self.charged.load(Ordering::Relaxed);
        let is_slack = charged >= held.saturating_sub(FREE) + 2 * STEP;
        if charged > 0 && (is_slack || held == 0) {
            self.uncover();
        }
    }

    fn uncover(&self) {
        let mut charge = self.charge.lock();
        let Some(charge) = &mut *charge else {
            return;
        };

        let held = self.held.load(Ordering::Relaxed);
        let needed = held.saturating_sub(FREE).next_multiple_of(STEP);
        charge.shrink(charge.bytes().saturating_sub(needed));
        self.charged.store(charge.bytes(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{CONNECTION, OWNER_FLOOR};

    const HEAD: usize = 60 << 10;

    fn memory(total: usize) -> &'static Memory {
        Box::leak(Box::new(Memory::new(total, CONNECTION)))
    }

    fn connection(memory: &'static Memory, ip: &str) -> Arc<ConnectionCharges> {
        let peer = PeerAddress::Ip(format!("{ip}:1").parse().unwrap());
        ConnectionCharges::within(memory, &peer)
    }

    fn fill(connection: &Arc<ConnectionCharges>, user: Option<&str>) -> Vec<ExchangeCharge> {
        let one = || {
            let mut charge = connection.arrive(HEAD).ok()?;
            charge.settle(user, 0).ok()?;
            Some(charge)
        };
        std::iter::from_fn(one).collect()
    }

    #[test]
    fn usual_heads_of_a_connection_are_in_no_account() {
        let memory = memory(1 << 20);
        let connection = connection(memory, "192.0.2.1");
        let mut first = connection.arrive(1000).unwrap();
        assert!(first.settle(None, 0).is_ok());
        assert_eq!(memory.charged(), 0);
        let second = connection.arrive(1000).unwrap();
        assert_eq!(memory.charged(), STEP);
        drop((first, second));
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn large_heads_are_refused_where_their_source_has_no_room_and_usual_ones_are_not() {
        let memory = memory(4 << 20);
        let greedy = connection(memory, "192.0.2.1");
        let held = fill(&greedy, None);
        assert!((10..20).contains(&held.len()), "{}", held.len());

        let mut usual = greedy.arrive(500).unwrap();
        assert!(usual.settle(None, HEAD).is_err());
        assert!(usual.settle(Some("alice"), 0).is_ok());

        let other = connection(memory, "192.0.2.2");
        assert!(other.arrive(OWNER_FLOOR).is_ok());
        drop((held, usual));
        assert_eq!(memory.charged(), 0);
        assert_eq!(greedy.source.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_user_of_a_link_leaves_room_for_others_on_it() {
        let memory = memory(4 << 20);
        let link = connection(memory, "192.0.2.1");
        let greedy = fill(&link, Some("greedy"));
        assert!(greedy.len() > 5, "{}", greedy.len());
        assert!(
            memory
                .owner(Owner::Source("192.0.2.1".parse().unwrap()))
                .owned()
                < 4 * STEP
        );

        let mut modest = link.arrive(2000).unwrap();
        assert!(modest.settle(Some("modest"), 20_000).is_ok());
        modest.shrink_to(20_000);
        assert_eq!(modest.bytes, 20_000);
        drop((greedy, modest));
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn streams_without_a_head_cost_their_source_what_it_may_have() {
        let memory = memory(4 << 20);
        let greedy = connection(memory, "192.0.2.1");
        let one = || {
            let mut begun = None;
            greedy.begin(&mut begun, 0).ok()?;
            begun
        };
        let begun: Vec<ExchangeCharge> = std::iter::from_fn(one).collect();
        assert!((100..200).contains(&begun.len()), "{}", begun.len());

        let other = connection(memory, "192.0.2.2");
        let mut modest = None;
        assert!(other.begin(&mut modest, 0).is_ok());
        assert!(other.begin(&mut modest, 3000).is_ok());
        assert_eq!(modest.as_ref().unwrap().bytes, EXCHANGE + 3000);
        assert!(other.begin(&mut modest, 0).is_ok());
        assert_eq!(modest.as_ref().unwrap().bytes, EXCHANGE);

        drop((begun, modest));
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn users_of_a_link_who_hold_nothing_are_forgotten() {
        let memory = memory(4 << 20);
        let link = connection(memory, "192.0.2.1");
        for n in 0..100 * USERS {
            let mut charge = link.arrive(10).unwrap();
            charge.settle(Some(&n.to_string()), 0).unwrap();
        }
        assert!(link.users.lock().len() <= 4 * USERS);
    }
}
