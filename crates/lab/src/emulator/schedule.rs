//! When a link is up.

use std::time::Duration;

/// Times of up and down that repeat. The default is always up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schedule {
    /// When the first period begins.
    pub offset: Duration,
    /// How long it is up in each period.
    pub up: Duration,
    /// How long it is down after that; if zero, it is always up.
    pub down: Duration,
}

impl Schedule {
    /// Whether the link is up, so long after its beginning. Before the first period it is down.
    pub fn is_up(&self, since_start: Duration) -> bool {
        if self.down.is_zero() {
            return true;
        }
        let Some(since_offset) = since_start.checked_sub(self.offset) else {
            return false;
        };

        let period = (self.up + self.down).as_nanos();
        since_offset.as_nanos() % period < self.up.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn three_links_that_rotate_are_never_up_together() {
        let link = |index| Schedule {
            offset: SECOND * index,
            up: SECOND,
            down: SECOND * 2,
        };
        for tenth in 20..200_u32 {
            let up = (0..3)
                .filter(|index| link(*index).is_up(SECOND * tenth / 10))
                .count();
            assert_eq!(up, 1, "after {tenth} tenths");
        }
        assert!(!link(1).is_up(SECOND / 2));
    }

    #[test]
    fn without_down_time_it_is_always_up() {
        assert!(Schedule::default().is_up(Duration::ZERO));
        assert!(
            Schedule {
                offset: SECOND,
                ..Schedule::default()
            }
            .is_up(Duration::ZERO)
        );
    }
}
