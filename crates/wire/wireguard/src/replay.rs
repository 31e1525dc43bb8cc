//! The numbers that a session has seen (RFC 6479): packets may overtake each other, and no number
//! counts twice.

/// Words of the window: one of them is being emptied while numbers go on.
#[doc(alias = "bound")]
const WORDS: u64 = 32;

/// Numbers that may come late.
const LATE: u64 = (WORDS - 1) * 64;

/// The numbers that were seen.
#[derive(Debug, Default)]
pub(crate) struct ReplayWindow {
    /// One more than the highest number seen; 0 before the first.
    next: u64,
    seen: [u64; WORDS as usize],
}

impl ReplayWindow {
    /// Whether a number is new. Only the number of an authenticated message may be
    /// [noted](Self::note).
    pub(crate) fn is_new(&self, number: u64) -> bool {
        // Ahead of all that was seen: no word of the window has it yet.
        if number >= self.next {
            return true;
        }
        self.next - number <= LATE && self.seen[slot(number)] & bit(number) == 0
    }

    /// A new number was seen.
    pub(crate) fn note(&mut self, number: u64) {
        if number >= self.next {
            // RFC 6479, 2.2: whole words are emptied, not shifted, so a jump costs no more than one round of the window.
            let last = self.next.saturating_sub(1) / 64;
            // Clears the words of numbers that are too old by now.
            for word in last + 1..=(number / 64).min(last + WORDS) {
                self.seen[(word % WORDS) as usize] = 0;
            }
            self.next = number + 1;
        }
        self.seen[slot(number)] |= bit(number);
    }
}

fn slot(number: u64) -> usize {
    (number / 64 % WORDS) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::{Strategy, prop, proptest};

    use super::*;

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let near = 0..3 * LATE;
        let far = (0..40_u64).prop_map(|step| step * 997);
        prop::collection::vec(proptest::prop_oneof![near, far], 0..200)
    }

    proptest! {
        #[test]
        fn no_number_counts_twice_and_recent_ones_count_once(numbers in numbers()) {
            let mut window = ReplayWindow::default();
            let mut seen = HashSet::new();
            let mut highest = 0;
            for number in numbers {
                let is_recent = number + LATE > highest;
                let is_new = window.is_new(number);
                assert!(!is_new || !seen.contains(&number), "{number} twice");
                assert!(is_new || seen.contains(&number) || !is_recent, "{number} is refused");
                if is_new {
                    window.note(number);
                    seen.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }

    #[test]
    fn a_leap_forgets_all_that_was_before() {
        let mut window = ReplayWindow::default();
        window.note(5);
        window.note(1 << 40);
        assert!(!window.is_new(5) && !window.is_new(6));
        assert!(window.is_new((1 << 40) - 5));
    }
}
