//! Exchanges that are over.

use std::collections::{HashMap, HashSet, VecDeque};

use super::exchange::{ExchangeKey, NeighbourId};

/// Exchanges of one neighbour that are over and remembered, so that a late OFFER does not begin them again: four times as many as may be
/// open.
#[doc(alias = "bound")]
const REMEMBERED: usize = 4096;

/// The last exchanges of each neighbour that are over: no neighbour makes those of others forgotten.
#[derive(Debug, Default)]
pub(super) struct Ended(HashMap<NeighbourId, EndedOfNeighbour>);

#[derive(Debug, Default)]
struct EndedOfNeighbour {
    order: VecDeque<[u8; 16]>,
    known: HashSet<[u8; 16]>,
}

impl Ended {
    /// Remembers one, and forgets the oldest of its neighbour if there are too many.
    pub(super) fn add(&mut self, key: ExchangeKey) {
        let ended = self.0.entry(key.neighbour).or_default();
        if !ended.known.insert(key.exchange) {
            return;
        }
        ended.order.push_back(key.exchange);
        if ended.order.len() > REMEMBERED
            && let Some(oldest) = ended.order.pop_front()
        {
            ended.known.remove(&oldest);
        }
    }

    /// Whether it is remembered.
    pub(super) fn has(&self, key: &ExchangeKey) -> bool {
        let ended = self.0.get(&key.neighbour);
        ended.is_some_and(|ended| ended.known.contains(&key.exchange))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(neighbour: usize, number: u32) -> ExchangeKey {
        let mut exchange = [0; 16];
        exchange[..4].copy_from_slice(&number.to_be_bytes());
        ExchangeKey {
            neighbour: NeighbourId(neighbour),
            exchange,
        }
    }

    #[test]
    fn a_neighbour_makes_none_of_another_forgotten() {
        let mut ended = Ended::default();
        ended.add(key(1, 7));
        for number in 0..100_000 {
            ended.add(key(2, number));
        }
        assert!(ended.has(&key(1, 7)));
        assert!(!ended.has(&key(2, 0)));
        assert!(ended.has(&key(2, 99_999)));
        assert_eq!(ended.0[&NeighbourId(2)].order.len(), REMEMBERED);
    }
}
