//! The account of an owner: how many subscriptions it has, and how many bytes wait for them or come from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of messages that wait, or are being received, of all owners.
#[doc(alias = "bound")]
const TOTAL: usize = 64 << 20;

/// Bytes of them of one owner, by its subscriptions together: a message counts for each.
#[doc(alias = "bound")]
pub(crate) const OWNER: usize = 16 << 20;

/// Bytes that an owner has in any case: a crowd of greedy owners cannot refuse a modest one.
#[doc(alias = "bound")]
const FLOOR: usize = 64 << 10;

/// One user, or the source of strangers.
pub(crate) struct Account {
    pub(crate) name: Arc<str>,
    subscriptions: AtomicUsize,
    used: AtomicUsize,
    /// Bytes of messages that all owners hold. A message that waits for many is kept once for each worker, and counted so.
    held: Arc<AtomicUsize>,
}

impl Account {
    pub(crate) fn new(name: Arc<str>, held: Arc<AtomicUsize>) -> Self {
        Self {
            name,
            subscriptions: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            held,
        }
    }

    /// Whether it may have so many bytes more.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let used = self.used.load(Ordering::Relaxed) + bytes;
        let fits = || self.held.load(Ordering::Relaxed) + bytes <= TOTAL;
        self.is_modest(bytes) || (used <= OWNER && fits())
    }

    /// Whether, with so many bytes more, it has what it may have in any case.
    pub(crate) fn is_modest(&self, bytes: usize) -> bool {
        self.used.load(Ordering::Relaxed) + bytes <= FLOOR
    }

    /// Bytes that wait for one of its subscriptions.
    pub(crate) fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// They wait no longer.
    pub(crate) fn remove(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
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

    /// Counts bytes that come from it, until the charge is dropped; `None` if there is no room.
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
        drop(charges);
        assert!(modest.charge(1 << 20).is_some());
    }
}
