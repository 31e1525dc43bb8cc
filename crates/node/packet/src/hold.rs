//! The memory of datagrams that wait for the tunnels of one listener's clients: one bound for all
//! of them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use hermes_net::memory::{OWNER_FLOOR, OwnerAccount, Purpose};
use parking_lot::Mutex;

/// Bytes of memory that are made free before datagrams are taken: about as many as come from one client at once.
#[doc(alias = "bound")]
const ROOM: usize = OWNER_FLOOR / 2;

/// A session that holds datagrams of its client.
pub(crate) trait HeldSession: Send + Sync {
    /// Whether its datagrams may be dropped: its tunnel is not open.
    fn is_held(&self) -> bool;

    /// Drops its datagrams, if they may be, as there is no room for newer ones. A few cost nothing, and stay.
    fn lose(&self);
}

/// The memory of a listener's datagrams, and who has some of it.
pub struct Hold {
    account: OwnerAccount,
    /// Sessions whose tunnel is not open, in the order in which they began to hold datagrams.
    waiting: Mutex<VecDeque<Weak<dyn HeldSession>>>,
}

impl Hold {
    /// Of a listener with this account.
    pub fn new(account: OwnerAccount) -> Arc<Self> {
        Arc::new(Self {
            account,
            waiting: Mutex::default(),
        })
    }

    pub(crate) fn account(&self) -> &OwnerAccount {
        &self.account
    }

    /// A session begins to hold datagrams.
    pub(crate) fn enter(&self, session: Weak<dyn HeldSession>) {
        let mut waiting = self.waiting.lock();
        if waiting.len() == waiting.capacity() {
            waiting.retain(|one| one.upgrade().is_some_and(|one| one.is_held()));
        }
        waiting.push_back(session);
    }

    /// Makes room for new datagrams: sessions without an open tunnel lose theirs, the oldest first.
    /// In real-time traffic the newest is worth most, and forged addresses never open a tunnel.
    pub(crate) fn make_room(&self) {
        while self.account.room_for(Purpose::Datagrams) < ROOM {
            let Some(oldest) = self.waiting.lock().pop_front() else {
                return;
            };
            if let Some(session) = oldest.upgrade() {
                session.lose();
            }
        }
    }
}
