//! The account of an owner: how many subscriptions it has, and how many bytes wait for them or come from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of messages that wait, or are being received, of all owners.
#[doc(alias = "bound")]
const TOTAL: usize = 64 << 20;

/// Bytes of them of one owner, by its subscriptions together: a message counts for each.
#[doc(alias = "bound")]
pub(crate) const OWNER: usize = 16 << 20;

/// Bytes of messages that arrive, of one owner; one message may in any case. They are none of those that wait: where readers are slow, a message
/// waits for its turn, and is not refused at the door.
#[doc(alias = "bound")]
const ARRIVING: usize = 8 << 20;

/// Bytes that an owner has in any case: a crowd of greedy owners cannot refuse a modest one.
#[doc(alias = "bound")]
const FLOOR: usize = 64 << 10;

/// One user, or the source of strangers.
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    subscriptions: AtomicUsize,
    waiting: AtomicUsize,
    arriving: AtomicUsize,
    /// Bytes of messages that all owners hold. A message that waits for many is kept once for each worker, and counted so.
    held: Arc<AtomicUsize>,
}

impl Account {
    pub(crate) fn new(name: Arc<str>, held: Arc<AtomicUsize>) -> Self {
        Self {
            name,
            subscriptions: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            arriving: AtomicUsize::new(0),
            held,
        }
    }

    /// Whether so many bytes more may wait for it.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed) + bytes;
        self.is_modest(bytes) || (waiting <= OWNER && self.fits(bytes))
    }

    /// Whether all owners together may have so many bytes more.
    fn fits(&self, bytes: usize) -> bool {
        self.held.load(Ordering::Relaxed) + bytes <= TOTAL
    }

    /// Whether, with so many bytes more, it has what it may have in any case.
    pub(crate) fn is_modest(&self, bytes: usize) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed);
        waiting + self.arriving.load(Ordering::Relaxed) + bytes <= FLOOR
    }

    /// Bytes that wait for one of its subscriptions.
    pub(crate) fn add(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
    }

    /// They wait no longer.
    pub(crate) fn remove(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Subscriptions that it has.
    pub(crate) fn subscriptions(&self) -> usize {
        self.subscriptions.load(Ordering::Relaxed)
    }

    /// It has one more.
    pub(crate) fn subscribes(&self) {
        self.subscriptions.fetch_add(1, Ordering::Relaxed);
    }

    /// It has one fewer.
    pub(crate) fn leaves(&self) {
        self.subscriptions.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts bytes that are kept for it, until the charge is dropped; `None` if there is no room.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        if !self.has_room(bytes) {
            return None;
        }
        self.add(bytes);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Some(Charge {
            account: self.clone(),
            bytes,
        })
    }

    /// Counts bytes of a message that arrives from it; there are none yet.
    pub(crate) fn arrival(self: &Arc<Self>) -> Arrival {
        Arrival {
            account: self.clone(),
            bytes: 0,
        }
    }
}

/// Bytes that are counted until this is dropped.
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.remove(self.bytes);
        self.account.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes that have arrived, and are counted until this is dropped.
pub(crate) struct Arrival {
    account: Arc<Account>,
    bytes: usize,
}

impl Arrival {
    /// Counts so many bytes more, if there is room for them.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let account = &self.account;
        let arriving = account.arriving.load(Ordering::Relaxed);
        let is_alone = arriving == self.bytes;
        let has_room = (is_alone || arriving + bytes <= ARRIVING) && account.fits(bytes);
        if !has_room && !account.is_modest(bytes) {
            return false;
        }
        account.arriving.fetch_add(bytes, Ordering::Relaxed);
        account.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        true
    }

    /// Counts so many bytes only.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let gone = self.bytes.saturating_sub(bytes);
        self.account.arriving.fetch_sub(gone, Ordering::Relaxed);
        self.account.held.fetch_sub(gone, Ordering::Relaxed);
        self.bytes -= gone;
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greedy_leave_room_for_the_modest() {
        let held = Arc::default();
        let account = |name: &str| Arc::new(Account::new(name.into(), Arc::clone(&held)));
        let greedy: Vec<_> = (0..5).map(|name| account(&name.to_string())).collect();
        let mut charges = Vec::new();
        for owner in &greedy {
            charges.extend(std::iter::from_fn(|| owner.charge(1 << 20)).take(100));
        }
        // Four have their share, and the fifth found nothing.
        assert_eq!(charges.len(), 64);
        let modest = account("modest");
        assert!(modest.charge(1 << 20).is_none());
        assert!(modest.charge(1 << 10).is_some());
        assert!(!modest.arrival().grow(1 << 20));
        assert!(modest.arrival().grow(1 << 10));
        drop(charges);
        assert!(modest.charge(1 << 20).is_some());
    }

    #[test]
    fn what_arrives_finds_room_where_all_that_waits_has_none() {
        let owner = Arc::new(Account::new("user".into(), Arc::default()));
        owner.add(OWNER);
        assert!(!owner.has_room(1));
        let (mut one, mut other) = (owner.arrival(), owner.arrival());
        assert!(one.grow(2 * ARRIVING), "nothing else arrives");
        assert!(!other.grow(1));
        one.shrink_to(ARRIVING / 2);
        assert!(other.grow(ARRIVING / 2));
        assert!(!other.grow(1));
        drop(one);
        assert!(other.grow(ARRIVING));
        drop(other);
        owner.remove(OWNER);
        assert!(owner.charge(OWNER).is_some());
    }
}
