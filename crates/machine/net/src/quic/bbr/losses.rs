//! Losses of the path, and those that our own queue causes.
//!
//! A link that loses packets on its own loses as many of them while the window is below the path's product as above. Losses that come
//! only with a larger window are those of a queue that is full, or of a rate that is policed.

/// Packets after which half of a count is forgotten.
const MEMORY: f64 = 256.0;

/// Packets without which a share says nothing.
const ENOUGH: f64 = 16.0;

/// Losses above those of calm phases that do not count (BBRLossThresh).
const TOLERANCE: f64 = 0.02;

/// Deviations by which two shares have to differ.
const DEVIATIONS: f64 = 2.0;

/// Losses for which the window makes up, at most: a path that loses more is better given less.
const MOST: f64 = 0.25;

/// Packets of one kind of phase.
#[derive(Debug, Clone, Copy, Default)]
struct LossShare {
    lost: f64,
    all: f64,
}

impl LossShare {
    fn add(&mut self, arrived: f64, lost: f64) {
        self.lost += lost;
        self.all += arrived + lost;
        if self.all > MEMORY {
            self.lost /= 2.0;
            self.all /= 2.0;
        }
    }

    fn rate(&self) -> Option<f64> {
        (self.all >= ENOUGH).then(|| self.lost / self.all)
    }

    /// The variance of the rate.
    fn variance(&self, rate: f64) -> f64 {
        rate * (1.0 - rate) / self.all
    }
}

/// Packets that were lost in phases whose window fits into the path, and in others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    calm: LossShare,
    pressed: LossShare,
}

impl Losses {
    fn share(&mut self, was_calm: bool) -> &mut LossShare {
        if was_calm {
            &mut self.calm
        } else {
            &mut self.pressed
        }
    }

    /// Packets that were sent in a calm phase or not have arrived.
    pub(super) fn handle_arrived(&mut self, was_calm: bool, packets: f64) {
        self.share(was_calm).add(packets, 0.0);
    }

    /// As [`Self::handle_arrived`], of those that were lost.
    pub(super) fn handle_lost(&mut self, was_calm: bool, packets: f64) {
        self.share(was_calm).add(0.0, packets);
    }

    /// The share of packets that the path loses whatever we send.
    pub(super) fn of_path(&self) -> f64 {
        self.calm.rate().unwrap_or_default().min(MOST)
    }

    /// Whether more is lost where the window is larger, by more than chance.
    pub(super) fn are_ours(&self) -> bool {
        let (Some(calm), Some(pressed)) = (self.calm.rate(), self.pressed.rate()) else {
            return false;
        };
        let variance = self.calm.variance(calm) + self.pressed.variance(pressed);
        pressed > calm + TOLERANCE + DEVIATIONS * variance.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many packets of a hundred lost in calm phases, and in others.
    fn losses(calm: u32, pressed: u32) -> Losses {
        let mut losses = Losses::default();
        for at in 0..200 {
            for (was_calm, percent) in [(true, calm), (false, pressed)] {
                if at % 100 < percent {
                    losses.handle_lost(was_calm, 1.0);
                } else {
                    losses.handle_arrived(was_calm, 1.0);
                }
            }
        }
        losses
    }

    #[test]
    fn losses_that_do_not_depend_on_the_window_are_those_of_the_path() {
        for percent in [0, 1, 10, 20] {
            let losses = losses(percent, percent);
            assert!(!losses.are_ours(), "{percent}");
            let share = f64::from(percent) / 100.0;
            assert!((losses.of_path() - share).abs() < 0.01, "{percent}");
        }
        assert_eq!(losses(60, 60).of_path(), MOST);
    }

    #[test]
    fn losses_that_come_with_a_larger_window_are_ours() {
        assert!(losses(0, 10).are_ours());
        assert!(losses(10, 40).are_ours());
        assert!(!losses(0, 1).are_ours());
        assert!(!losses(40, 10).are_ours());
    }

    #[test]
    fn a_few_packets_say_nothing() {
        let mut losses = Losses::default();
        losses.handle_lost(true, 10.0);
        losses.handle_lost(false, 15.0);
        assert!(!losses.are_ours());
        assert_eq!(losses.of_path(), 0.0);
    }
}
