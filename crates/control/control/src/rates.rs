//! How often one party does something that costs the controller: a few times at once, and then now and then.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

/// Parties that are remembered before those are looked for whose time is over.
const LOOK: usize = 1024;

/// Turns by party.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    /// Turns that may be taken at once.
    burst: u32,
    /// The time in which another turn comes.
    pause: Duration,
    /// When each party has all its turns again. Those for whom that is in the past are forgotten.
    full: Mutex<HashMap<K, Duration>>,
}

impl<K: Eq + Hash> Rates<K> {
    /// So many turns at once, and another one after each pause.
    pub(crate) fn new(burst: u32, pause: Duration) -> Self {
        Self {
            burst,
            pause,
            full: Mutex::default(),
        }
    }

    /// Takes a turn of a party, if it has one. Times are since any moment, the same for all.
    pub(crate) fn take(&self, party: K, now: Duration) -> bool {
        let mut full = self.full.lock();
        let is_new = !full.contains_key(&party);
        // Rarely, so that a look at all costs each newcomer little.
        if is_new && full.len() >= LOOK && full.len().is_power_of_two() {
            full.retain(|_, full| *full > now);
        }
        let known = full.get(&party).copied().unwrap_or_default();
        // A clock that was set back gives no turns, and takes none for longer than all of them need.
        let whole = self.pause * self.burst;
        let known = known.clamp(now, now + whole);
        let next = known + self.pause;
        let has_turn = next <= now + whole;
        full.insert(party, if has_turn { next } else { known });
        has_turn
    }

    /// Gives a turn back that was taken.
    pub(crate) fn give_back(&self, party: &K) {
        if let Some(full) = self.full.lock().get_mut(party) {
            *full = full.saturating_sub(self.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_party_has_a_few_turns_at_once_and_then_one_after_each_pause() {
        let rates = Rates::new(3, 10 * SECOND);
        let at = |now: u32, party| rates.take(party, SECOND * now);
        assert_eq!([at(100, "a"), at(100, "a"), at(101, "a")], [true; 3]);
        assert!(!at(105, "a"));
        assert!(at(105, "b"), "another party has its own");
        assert!(at(110, "a"));
        assert!(!at(111, "a"));
        assert_eq!([at(200, "a"), at(200, "a"), at(200, "a")], [true; 3]);
        assert!(!at(200, "a"));
        // The clock was set back by a day and more.
        assert!(!at(1, "a"));
        assert!(at(32, "a"));
    }

    #[test]
    fn parties_whose_time_is_over_are_forgotten() {
        let rates = Rates::new(1, SECOND);
        for party in 0..100_000_u32 {
            assert!(rates.take(party, SECOND * party));
        }
        assert!(rates.full.lock().len() <= LOOK);
    }
}
