//! How many small pieces and files a neighbour may have written: each costs an operation of the disk, however few bytes it has.

use std::collections::HashMap;
use std::time::Instant;

/// Bytes from which on a piece costs nothing beside them: a datagram has about as many.
const FULL: usize = 1024;

/// Bytes that a new file counts for: it is made, written to, removed and closed.
pub(super) const FILE: u64 = 8 * 1024;

/// Bytes that small pieces and new files of one neighbour may count for at once, beside those that they have: the files of all exchanges that it
/// may have open.
#[doc(alias = "bound")]
const AT_ONCE: u64 = 16 * 1024 * 1024;

/// Bytes of them a second, on and on: some hundred exchanges, or as many small pieces as take a sixth of a processor.
#[doc(alias = "bound")]
const EACH_SECOND: u64 = 4 * 1024 * 1024;

/// The bytes that are left to each neighbour, by its number. Neighbours are configured, and so are few.
#[derive(Debug, Default)]
pub(super) struct WritingPace(HashMap<u64, Left>);

#[derive(Debug)]
struct Left {
    bytes: u64,
    at: Instant,
}

impl WritingPace {
    /// Whether a neighbour may have this written now.
    pub(super) fn allows(&mut self, neighbour: u64, bytes: u64, now: Instant) -> bool {
        let left = self.0.entry(neighbour).or_insert(Left {
            bytes: AT_ONCE,
            at: now,
        });
        let passed = now.saturating_duration_since(left.at);
        let more = (passed.as_secs_f64() * EACH_SECOND as f64) as u64;
        if more > 0 {
            left.bytes = left.bytes.saturating_add(more).min(AT_ONCE);
            left.at = now;
        }
        match left.bytes.checked_sub(bytes) {
            Some(rest) => {
                left.bytes = rest;
                true
            }
            None => false,
        }
    }
}

/// Bytes that a piece counts for beside its own.
pub(super) fn of_piece(length: usize) -> u64 {
    FULL.saturating_sub(length) as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn crumbs_without_end_have_their_pace_and_leave_others_theirs() {
        let now = Instant::now();
        let mut pace = WritingPace::default();
        let crumbs = |pace: &mut WritingPace, neighbour: u64, now: Instant| {
            let more = (0..100_000).take_while(|_| pace.allows(neighbour, of_piece(1), now));
            more.count() as u64
        };
        assert_eq!(crumbs(&mut pace, 1, now), AT_ONCE / of_piece(1));
        assert_eq!(crumbs(&mut pace, 1, now), 0);
        assert!(pace.allows(2, FILE, now), "another neighbour");
        assert!(pace.allows(1, of_piece(FULL), now), "full pieces");

        let later = now + Duration::from_secs(1);
        let again = crumbs(&mut pace, 1, later);
        assert!(again.abs_diff(EACH_SECOND / of_piece(1)) <= 1, "{again}");
        let rested = crumbs(&mut pace, 1, later + Duration::from_secs(3600));
        assert_eq!(rested, AT_ONCE / of_piece(1));
    }

    #[test]
    fn exchanges_of_an_honest_neighbour_find_room() {
        let now = Instant::now();
        let mut pace = WritingPace::default();
        let exchanges = (0..1024).filter(|_| {
            pace.allows(1, FILE, now) && (0..4).all(|_| pace.allows(1, of_piece(300), now))
        });
        assert_eq!(exchanges.count(), 1024);
    }
}
