//! The memory of datagrams that wait for the tunnels of one listener's clients: one bound for all
//! of them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use hermes_net::memory::{OWNER_FLOOR, OwnerAccount, Purpose};
use parking_lot::Mutex;

use super::Session;

/// Bytes of memory that are made free before datagrams are taken: about as many as come from one client at once.
#[doc(alias = "bound")]
const ROOM: usize = OWNER_FLOOR / 2;

/// The memory of a listener's datagrams, and who has some of it.
pub struct Hold {
    account: OwnerAccount,
    /// Sessions without an open tunnel, in the order in which they began to hold datagrams.
    waiting: Mutex<VecDeque<Weak<Session>>>,
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
    pub(crate) fn enter(&self, session: &Arc<Session>) {
        let mut waiting = self.waiting.lock();
        if waiting.len() == waiting.capacity() {
            waiting.retain(|one| one.upgrade().is_some_and(|one| one.is_held()));
        }
        waiting.push_back(Arc::downgrade(session));
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
