//! A connection's permit among those of its source: for as long as it is open, or until its client is known.
//!
//! The cost of strangers is unknown until they have shown who they are: until then their source is held to account.
//! A client that has shown it counts among the connections of its user instead; a peer, which carries many users, not at all.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_net::PeerAddress;
use parking_lot::Mutex;

use crate::shares::Shares;
use crate::shares::sources::Permit;
use crate::snapshot::{Counted, ListenerRules};

/// The permits of one connection. They are given back with its last exchange.
#[derive(Debug)]
pub struct Admission {
    /// Connections that its source may have.
    most: usize,
    /// Whether the source is let go once the client is known.
    until_known: bool,
    known: AtomicBool,
    permits: Mutex<HeldPermits>,
}

#[derive(Debug, Default)]
struct HeldPermits {
    source: Option<Permit<IpAddr>>,
    user: Option<Permit<String>>,
}

impl Admission {
    /// Of a connection from `peer` that has no permit yet; `None` where no bound counts.
    pub fn of(rules: &ListenerRules, peer: &PeerAddress) -> Option<Arc<Self>> {
        let (most, until_known) = match rules.counted(peer) {
            Counted::Never => return None,
            Counted::Always(most) => (most, false),
            Counted::UntilKnown(most) => (most, true),
        };
        Some(Arc::new(Self {
            most,
            until_known,
            known: AtomicBool::new(false),
            permits: Mutex::default(),
        }))
    }

    /// Takes a permit among the connections of `peer`, unless its client is known already; false when there is none.
    pub fn enter(&self, shares: &Shares, rules: &ListenerRules, peer: &PeerAddress) -> bool {
        if self.is_free() {
            return true;
        }
        let source = shares.sources.enter(&rules.name, peer, self.most);
        if source.is_none() {
            rules.source_refused(peer);
            return false;
        }

        let mut permits = self.permits.lock();
        if !self.is_free() {
            permits.source = source;
        }

        true
    }

    /// Whether the source does not answer for the connection any more.
    fn is_free(&self) -> bool {
        self.until_known && self.known.load(Ordering::Relaxed)
    }

    /// The client has shown a certificate that is believed.
    pub fn certified(&self) {
        if !self.known.swap(true, Ordering::Relaxed) && self.until_known {
            drop(self.permits.lock().source.take());
        }
    }

    /// The client is `user`, by a password or a token. If several users share a connection, it
    /// counts for the first one.
    ///
    /// # Errors
    /// How many connections a user may have; this one has as many.
    pub fn known(
        &self,
        shares: &Shares,
        rules: &ListenerRules,
        user: &str,
        most: impl FnOnce() -> usize,
    ) -> Result<(), usize> {
        if self.known.load(Ordering::Relaxed) {
            return Ok(());
        }
        let most = most();
        let Some(permit) = shares.users.connections.join(&rules.name, user, most) else {
            return Err(most);
        };

        let mut permits = self.permits.lock();
        // Streams of one connection may come here at once; under the lock only one of their permits is kept.
        if !self.known.swap(true, Ordering::Relaxed) {
            permits.user = Some(permit);
            if self.until_known {
                drop(permits.source.take());
            }
        }

        Ok(())
    }
}
