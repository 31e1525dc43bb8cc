//! HTTP/1.1 connections that wait for their next exchange.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_http::h1::{Connection, Home};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::taken::{Carrier, Fits, Taken};
use super::{Pool, Slot};
use crate::limits::Room;

/// Idle HTTP/1.1 connections kept for one place; the oldest goes first.
#[doc(alias = "bound")]
const KEPT: usize = 64;

/// Idle connections to one place, the newest last.
#[derive(Debug, Default)]
pub(super) struct Idle {
    waiting: Mutex<Vec<IdleConnection>>,
}

/// The state of a connection for as long as it is open.
#[derive(Debug)]
pub(crate) struct Berth {
    /// The address that was dialled.
    pub(super) address: Option<SocketAddr>,
    /// Its place under the bound of its upstream.
    pub(super) room: Room,
    /// Where the connection is kept after its exchange. Empty in between: otherwise the pool and
    /// the connection would keep each other alive.
    home: Mutex<Option<(Arc<Pool>, Arc<Slot>)>>,
}

impl Berth {
    pub(crate) fn new(address: Option<SocketAddr>, room: Room) -> Self {
        Self {
            address,
            room,
            home: Mutex::default(),
        }
    }

    /// For an exchange, after which the connection is kept there.
    pub(crate) fn for_exchange(self: Arc<Self>, pool: Arc<Pool>, slot: Arc<Slot>) -> Arc<Self> {
        *self.home.lock() = Some((pool, slot));
        self
    }
}

impl Home for Berth {
    fn keep(self: Arc<Self>, connection: Connection) {
        // Emptied, or the pool would hold the connection and the connection the pool.
        let home = self.home.lock().take();
        if let Some((pool, slot)) = home {
            pool.keep(&slot, connection, self);
        }
    }
}

#[derive(Debug)]
struct IdleConnection {
    connection: Connection,
    berth: Arc<Berth>,
    until: Instant,
}

impl IdleConnection {
    fn is_good(&mut self, now: Instant) -> bool {
        now < self.until && self.connection.is_usable()
    }
}

impl Idle {
    /// The newest connection that is usable and fits. Closed ones are dropped on the way.
    pub(super) fn take(&self, fits: Fits<'_>, now: Instant) -> Option<Taken> {
        let mut useless = Vec::new();
        let mut waiting = self.waiting.lock();
        let found = loop {
            // The newest: it is the least likely to be closed by the peer just now, and the old ones can expire.
            let Some(index) = waiting.iter().rposition(|one| fits(one.berth.address)) else {
                break None;
            };
            let mut one = waiting.remove(index);
            if one.is_good(now) {
                break Some(one);
            }

            // Closing a connection is a system call: not under the lock.
            useless.push(one);
        };

        drop(waiting);
        found.map(|one| {
            let address = one.berth.address;
            let room = one.berth.room.clone();
            let carrier = Carrier::H1(Box::new(one.connection), Some(one.berth));
            Taken {
                carrier,
                address,
                reused: true,
                room,
            }
        })
    }

    /// Keeps a connection for this time; false if it cannot serve another exchange.
    pub(super) fn keep(
        &self,
        mut connection: Connection,
        berth: Arc<Berth>,
        now: Instant,
        time: Duration,
    ) -> bool {
        if !connection.is_usable() {
            return false;
        }
        let mut waiting = self.waiting.lock();
        // The oldest would expire first, and its peer is the likeliest to have closed it.
        let oldest = (waiting.len() >= KEPT).then(|| waiting.remove(0));
        waiting.push(IdleConnection {
            connection,
            berth,
            until: now + time,
        });

        drop(waiting);
        drop(oldest);
        true
    }

    /// Drops those that the peer closed and those that waited too long.
    pub(super) fn sweep(&self, now: Instant) {
        let mut waiting = self.waiting.lock();
        let useless: Vec<_> = waiting.extract_if(.., |one| !one.is_good(now)).collect();
        drop(waiting);
        drop(useless);
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.waiting.lock());
        drop(all);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.lock().len()
    }
}
