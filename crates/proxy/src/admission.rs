//! A connection's place among those of its source: for as long as it is open, or until its client is known.
//!
//! Strangers cost a listener what they like until they have shown who they are, so that is when their source is held to account.
//! A client that has shown it counts among the connections of its user instead; a peer, which carries many users, not at all.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_net::PeerAddress;
use parking_lot::Mutex;

use crate::listeners::Place;
use crate::snapshot::{Counted, ListenerRules};
use crate::worker::Shared;

/// The places of one connection. They are given back with its last exchange.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Connections that its source may have.
    most: usize,
    /// Whether the source is let go once the client is known.
    until_known: bool,
    known: AtomicBool,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    source: Option<Place<IpAddr>>,
    user: Option<Place<String>>,
}

impl Admission {
    /// Of a connection from `peer` that has no place yet; `None` where no bound counts.
    pub(crate) fn of(rules: &ListenerRules, peer: &PeerAddress) -> Option<Arc<Self>> {
        let (most, until_known) = match rules.counted(peer) {
            Counted::Never => return None,
            Counted::Always(most) => (most, false),
            Counted::UntilKnown(most) => (most, true),
        };
        Some(Arc::new(Self {
            most,
            until_known,
            known: AtomicBool::new(false),
            places: Mutex::default(),
        }))
    }

    /// Takes a place among the connections of `peer`, unless its client is known already; false when there is none.
    pub(crate) fn enter(&self, shared: &Shared, rules: &ListenerRules, peer: &PeerAddress) -> bool {
        if self.is_free() {
            return true;
        }
        let source = shared.sources.enter(&rules.name, peer, self.most);
        if source.is_none() {
            rules.source_refused(peer);
            return false;
        }
        let mut places = self.places.lock();
        if !self.is_free() {
            places.source = source;
        }
        true
    }

    /// Whether the source does not answer for the connection any more.
    fn is_free(&self) -> bool {
        self.until_known && self.known.load(Ordering::Relaxed)
    }

    /// The client has shown a certificate that is believed.
    pub(crate) fn certified(&self) {
        if !self.known.swap(true, Ordering::Relaxed) && self.until_known {
            drop(self.places.lock().source.take());
        }
    }

    /// The client is `user`, by a password or a token. A connection on which several users follow each other is the first one's.
    ///
    /// # Errors
    /// How many connections a user may have; this one has as many.
    pub(crate) fn known(
        &self,
        shared: &Shared,
        rules: &ListenerRules,
        user: &str,
    ) -> Result<(), usize> {
        if self.known.load(Ordering::Relaxed) {
            return Ok(());
        }
        let most = rules.connections_per_user();
        let Some(place) = shared.connections.join(&rules.name, user, most) else {
            return Err(most);
        };

        let mut places = self.places.lock();
        if !self.known.swap(true, Ordering::Relaxed) {
            places.user = Some(place);
            if self.until_known {
                drop(places.source.take());
            }
        }
        Ok(())
    }
}
