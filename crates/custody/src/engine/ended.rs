//! Exchanges that are over.

use std::collections::{HashSet, VecDeque};

use super::ExchangeKey;

/// Exchanges that are over and remembered, so that a late OFFER does not begin them again.
#[doc(alias = "bound")]
const REMEMBERED: usize = 16 * 1024;

/// The last exchanges that are over.
#[derive(Debug, Default)]
pub(super) struct Ended {
    order: VecDeque<ExchangeKey>,
    known: HashSet<ExchangeKey>,
}

impl Ended {
    /// Remembers one, and forgets the oldest if there are too many.
    pub(super) fn add(&mut self, key: ExchangeKey) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(key);
        self.known.insert(key);
    }

    /// Whether it is remembered.
    pub(super) fn has(&self, key: &ExchangeKey) -> bool {
        self.known.contains(key)
    }
}
