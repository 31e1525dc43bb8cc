//! Events that the log tells at once when they begin, and then as a sum, however many there are.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time between two log lines about the same thing: floods must not fill the log.
#[doc(alias = "bound")]
const PERIOD: Duration = Duration::from_secs(60);

/// Events of one kind.
#[derive(Debug, Default)]
pub struct Periodic(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    told: Option<Instant>,
    count: u64,
}

impl Periodic {
    /// Counts this many events; how many the log is to tell of now, if it is.
    pub fn count(&self, events: u64, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        state.count += events;
        let due = state
            .told
            .is_none_or(|told| now.duration_since(told) >= PERIOD);

        if !due || state.count == 0 {
            return None;
        }
        state.told = Some(now);
        Some(std::mem::take(&mut state.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let (periodic, now) = (Periodic::default(), Instant::now());
        assert_eq!(periodic.count(0, now), None);
        assert_eq!(periodic.count(3, now), Some(3));
        assert_eq!((0..100).find_map(|_| periodic.count(1, now)), None);
        assert_eq!(periodic.count(1, now + PERIOD), Some(101));
        assert_eq!(periodic.count(0, now + PERIOD * 2), None);
    }
}
