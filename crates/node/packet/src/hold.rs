//! What datagrams take that wait for the tunnels of one listener's clients: bounded for all of them together.

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
    /// Sessions whose tunnel is not open, in the order in which they began to hold datagrams.
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

    /// Makes room for what comes: those whose tunnel is not open lose what waits, the oldest first. In real-time traffic the newest is
    /// worth most, and addresses that are forged never open a tunnel.
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
