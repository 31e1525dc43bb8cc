//! How many lines of one kind the log gets.

use std::time::{Duration, Instant};

/// Log lines about refused handshakes of one listener within `SPAN`; all are counted.
#[doc(alias = "bound")]
const LINES: u32 = 10;

/// The time over which those lines are counted.
#[doc(alias = "bound")]
const SPAN: Duration = Duration::from_secs(10);

/// Counts the lines of one kind.
#[derive(Debug, Default)]
pub(super) struct Lines {
    began: Option<Instant>,
    told: u32,
    left_out: u64,
}

impl Lines {
    /// If a line may be written at `now`: how many were left out since the last one.
    pub(super) fn next(&mut self, now: Instant) -> Option<u64> {
        if self
            .began
            .is_none_or(|began| now.saturating_duration_since(began) >= SPAN)
        {
            (self.began, self.told) = (Some(now), 0);
        }

        if self.told >= LINES {
            self.left_out += 1;
            return None;
        }

        self.told += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_of_in_a_few_lines_and_what_is_left_out_is_counted() {
        let (mut lines, began) = (Lines::default(), Instant::now());
        let told = (0..1000).filter(|_| lines.next(began).is_some()).count();
        assert_eq!(told, LINES as usize);
        assert_eq!(lines.next(began + SPAN), Some(1000 - u64::from(LINES)));
        assert_eq!(lines.next(began + SPAN), Some(0));
    }
}
