//! Which packet numbers are new.

/// How far behind the highest number that came a packet may be.
#[doc(alias = "bound")]
pub const REPLAY_WINDOW: u64 = 1024;

const WORD: u64 = u64::BITS as u64;
const WORDS: usize = (REPLAY_WINDOW / WORD) as usize;

/// The packet numbers that were received recently. An older number is taken for a replay.
#[derive(Debug, Clone, Default)]
pub struct ReplayWindow {
    /// One above the highest number.
    next: u64,
    /// One bit for each of the last numbers, by the number modulo the window.
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// Whether a packet of this number may be looked at. Only the number of an authenticated packet
    /// is to be [marked](Self::mark).
    pub fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        number.saturating_add(REPLAY_WINDOW) >= self.next && self.word(number) & bit(number) == 0
    }

    /// Marks a number as come; whether it was new.
    pub fn mark(&mut self, number: u64) -> bool {
        if !self.is_new(number) {
            return false;
        }

        if number >= self.next {
            self.forget_up_to(number);
            self.next = number.saturating_add(1);
        }
        self.seen[index(number)] |= bit(number);
        true
    }

    /// The places of the numbers between the highest and this one held older ones.
    fn forget_up_to(&mut self, number: u64) {
        if number - self.next >= REPLAY_WINDOW {
            self.seen = [0; WORDS];
            return;
        }
        for passed in self.next..=number {
            self.seen[index(passed)] &= !bit(passed);
        }
    }

    fn word(&self, number: u64) -> u64 {
        self.seen[index(number)]
    }
}

fn index(number: u64) -> usize {
    (number % REPLAY_WINDOW / WORD) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % WORD)
}

/// Arbitrary numbers: no number is new twice, and the highest is never new again.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let mut window = ReplayWindow::default();
    let mut seen = std::collections::BTreeSet::new();
    for step in data.chunks(3) {
        let mut bytes = [0; 8];
        bytes[8 - step.len()..].copy_from_slice(step);
        let number = u64::from_be_bytes(bytes) >> (step.len() % 2 * 4);

        let new = window.is_new(number);
        assert!(!(new && seen.contains(&number)));
        let recent = seen
            .last()
            .is_none_or(|highest| number + REPLAY_WINDOW > *highest);
        assert_eq!(new, recent && !seen.contains(&number));
        assert_eq!(window.mark(number), new);
        seen.insert(number);
        assert!(!window.is_new(number));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_new_once_and_within_the_window() {
        let mut window = ReplayWindow::default();
        assert!(window.mark(0));
        assert!(!window.mark(0));
        assert!(window.mark(REPLAY_WINDOW));
        assert!(!window.is_new(0), "it would be its place again");
        assert!(window.mark(1));
        assert!(window.mark(10 * REPLAY_WINDOW));
        assert!(!window.is_new(9 * REPLAY_WINDOW));
        assert!(window.is_new(9 * REPLAY_WINDOW + 1));
    }

    #[test]
    fn the_highest_numbers_that_a_packet_may_have_count_once_as_well() {
        let mut window = ReplayWindow::default();
        for number in [u64::MAX - 1, u64::MAX - 500, u64::MAX - 2] {
            assert!(window.mark(number), "{number}");
            assert!(!window.is_new(number), "{number}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_new_twice(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_one(&data);
        }
    }
}
