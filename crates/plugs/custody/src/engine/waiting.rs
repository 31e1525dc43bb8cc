//! Exchanges whose time is over, and writers that wait for room: found without a look at all others.

use std::collections::BTreeSet;
use std::time::Instant;

use super::Engine;
use super::exchange::{Event, ExchangeKey, KeptExchange};

/// When exchanges end.
#[derive(Debug, Default)]
pub(super) struct Deadlines(BTreeSet<(Instant, ExchangeKey)>);

/// Writers that wait for room.
#[derive(Debug, Default)]
pub(super) struct WaitingWriters {
    keys: BTreeSet<ExchangeKey>,
    /// There is room since they were looked at.
    has_room: bool,
}

impl Deadlines {
    /// When there is something to do at the latest.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }
}

impl WaitingWriters {
    pub(super) fn add(&mut self, key: ExchangeKey) {
        self.keys.insert(key);
    }

    pub(super) fn remove(&mut self, key: ExchangeKey) {
        self.keys.remove(&key);
    }

    /// Bytes were let go.
    pub(super) fn has_room(&mut self) {
        self.has_room = true;
    }
}

impl Engine {
    /// Keeps an exchange from now on.
    pub(super) fn add_exchange(&mut self, key: ExchangeKey, mut exchange: KeptExchange) {
        exchange.due = exchange.until;
        self.deadlines.0.insert((exchange.due, key));
        let neighbour = &mut self.neighbours[key.neighbour.0];
        *neighbour.count(exchange.side.answers()) += 1;
        if let Some(log) = &exchange.log {
            self.keeping.logs.insert(log.lock().id(), key);
        }
        self.exchanges.insert(key, exchange);
    }

    /// Takes an exchange out.
    pub(super) fn take_exchange(&mut self, key: ExchangeKey) -> Option<KeptExchange> {
        let exchange = self.exchanges.remove(&key)?;
        self.deadlines.0.remove(&(exchange.due, key));
        let neighbour = &mut self.neighbours[key.neighbour.0];
        *neighbour.count(exchange.side.answers()) -= 1;
        if let Some(log) = &exchange.log {
            self.keeping.logs.remove(&log.lock().id());
        }
        self.writers.remove(key);
        // Its bytes are free for others.
        self.writers.has_room();
        Some(exchange)
    }

    /// The exchanges whose time is over.
    pub(super) fn late(&mut self, now: Instant) -> Vec<ExchangeKey> {
        let mut late = Vec::new();
        while let Some((at, key)) = self.deadlines.0.first().copied()
            && at <= now
        {
            self.deadlines.0.remove(&(at, key));
            let Some(exchange) = self.exchanges.get_mut(&key) else {
                continue;
            };
            if exchange.until <= now {
                late.push(key);
                continue;
            }
            // A tunnel whose neighbour was heard meanwhile.
            exchange.due = exchange.until;
            self.deadlines.0.insert((exchange.due, key));
        }
        late
    }

    /// Tells writers that there is room, if any has appeared.
    pub(super) fn wake_writers(&mut self) {
        if !std::mem::take(&mut self.writers.has_room) {
            return;
        }
        for key in std::mem::take(&mut self.writers.keys) {
            // Those without room wait on.
            if self.room(key) > 0 {
                self.events.push_back(Event::Writable(key));
            }
        }
    }
}
