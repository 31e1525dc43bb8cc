//! The reason for which an answer takes long.

use std::sync::Arc;

use hermes_observe::Exchange;

/// Reports the reason for which an answer waits: `exchanges` shows it, and a client that asks for progress hears of it.
#[derive(Clone)]
pub struct Waits {
    exchange: Arc<Exchange>,
    node: String,
}

impl Waits {
    /// Of this exchange, at the node of this name.
    pub fn new(exchange: Arc<Exchange>, node: &str) -> Self {
        Self {
            exchange,
            node: node.to_owned(),
        }
    }

    /// It waits for this now.
    pub fn say(&self, what: String) {
        self.exchange.waits(Some(what));
    }

    /// It waits for nothing any more.
    pub fn over(&self) {
        self.exchange.waits(None);
    }

    /// The reason, in words.
    pub fn said(&self) -> Option<String> {
        self.exchange.waits_for()
    }

    /// The node that waits.
    pub fn node(&self) -> &str {
        &self.node
    }
}
