//! When a link is up.

use std::sync::Arc;
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

/// Several links, of which one is up at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which link is up in each slot; then they repeat.
    pub order: Arc<[usize]>,
    /// Which link this is.
    pub link: usize,
    /// How long a slot is.
    pub slot: Duration,
}

impl Turn {
    /// Whether the link is up, so long after the beginning of all of them.
    pub fn is_up(&self, since_start: Duration) -> bool {
        let slot = since_start.as_nanos() / self.slot.as_nanos().max(1);
        let index = slot % self.order.len().max(1) as u128;
        self.order.get(index as usize) == Some(&self.link)
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
    fn links_take_turns_as_they_are_told() {
        let turn = |link| Turn {
            order: [0, 2, 1].into(),
            link,
            slot: SECOND,
        };
        let up = |tenths: u32| (0..3).find(|link| turn(*link).is_up(SECOND * tenths / 10));
        assert_eq!(up(9), Some(0));
        assert_eq!(up(10), Some(2));
        assert_eq!(up(29), Some(1));
        assert_eq!(up(30), Some(0));
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
