//! Connections that belong to one connection of a client.
//!
//! Some servers authenticate a connection and not a request (NTLM, and Negotiate as many use it;
//! RFC 4559). All later requests on such a connection count as its user's, so that no one else's
//! exchange may follow there. If the client has a connection of its own, the authenticated one is
//! kept with it; otherwise it is closed after the exchange. Either way it is never shared by
//! exchanges of others.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::pool::{Key, Slot};
use crate::upstream::Upstream;

/// Places to which one client connection has connections of its own, for NTLM; the oldest goes
/// first.
#[doc(alias = "bound")]
const PLACES: usize = 8;

/// The upstream connections of one client connection. Dropped, they close.
#[derive(Debug, Default)]
pub struct Pinned {
    places: Mutex<Vec<Pin>>,
}

/// Connections to one place, for exchanges of one user.
#[derive(Debug)]
struct Pin {
    user: Option<String>,
    key: Key,
    slot: Arc<Slot>,
}

/// The owner of an exchange that may not share its connection.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// The client's connection; `None` where that is not one client's alone.
    pub pinned: Option<&'a Pinned>,
    /// The user, where there is one: a proxy before this one may send those of several on one connection.
    pub user: Option<&'a str>,
}

impl Pinned {
    /// Whether there is anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.lock().is_empty()
    }
}

impl Upstream {
    /// Whether an exchange of this client connection and user has to be on a connection of its own, because one was before.
    pub fn is_known_to(&self, own: Own<'_>) -> bool {
        own.knows_upstream(self.id)
    }
}

impl Own<'_> {
    /// A new connection, which no other exchange ever has.
    pub const NEW: Self = Self {
        pinned: None,
        user: None,
    };

    /// Whether an endpoint of the upstream with this number was spoken to before.
    pub(crate) fn knows_upstream(self, id: u64) -> bool {
        self.index(id).is_some()
    }

    /// Whether the place was spoken to before.
    pub(crate) fn knows(self, key: &Key) -> bool {
        self.find(|known| known == key, |_| ()).is_some()
    }

    /// The endpoint of this upstream that was spoken to last.
    pub(crate) fn index(self, id: u64) -> Option<usize> {
        let of_upstream = |key: &Key| matches!(key, Key::Endpoint(known, _) if *known == id);
        self.find(of_upstream, |pin| {
            if let Key::Endpoint(_, index) = pin.key {
                Some(index)
            } else {
                None
            }
        })?
    }

    /// The slot for a place; without a client's connection, a new slot lasts as long as the
    /// exchange.
    pub(crate) fn slot(self, key: Key, make: impl FnOnce() -> Arc<Slot>) -> Arc<Slot> {
        if let Some(slot) = self.find(|known| *known == key, |pin| pin.slot.clone()) {
            return slot;
        }
        let slot = make();
        if let Some(pinned) = self.pinned {
            let mut places = pinned.places.lock();
            let oldest = (places.len() >= PLACES).then(|| places.remove(0));
            places.push(Pin {
                user: self.user.map(str::to_owned),
                key,
                slot: slot.clone(),
            });
            drop(places);
            drop(oldest);
        }

        slot
    }

    fn find<T>(self, is: impl Fn(&Key) -> bool, then: impl FnOnce(&Pin) -> T) -> Option<T> {
        let places = self.pinned?.places.lock();
        let found = places
            .iter()
            .rfind(|pin| pin.user.as_deref() == self.user && is(&pin.key));
        found.map(then)
    }
}
