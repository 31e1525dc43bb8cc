//! How many questions at once a server is asked: a machine without clocks or locks.
//!
//! A server that takes one question after the other answers none in time if many come at once, those of other users neither. So there
//! are fewer while questions that had their whole time stay without an answer, and more again with each that is answered.

use std::time::{Duration, Instant};

/// Questions at once, however slow a server is: one user's, and another's.
#[doc(alias = "bound")]
const FEWEST: usize = 2;

/// The pace of one server.
#[derive(Debug)]
pub(super) struct Pace {
    most: usize,
    at_once: usize,
    /// Below so many there is one more for each easy answer: as many as were left when there were last fewer.
    known: usize,
    /// Answers since there was last one more.
    answers: usize,
    /// When there were last fewer.
    slowed: Option<Instant>,
}

impl Pace {
    /// At most so many at once.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            at_once: most,
            known: most,
            answers: 0,
            slowed: None,
        }
    }

    pub(super) fn at_once(&self) -> usize {
        self.at_once
    }

    /// A question was answered. There is one more for each round of answers; for each of them, where it came with ease and the server is
    /// known to manage that many.
    pub fn answered(&mut self, took: Duration, timeout: Duration) {
        self.answers += 1;
        let is_easy = took < timeout / 4 && self.at_once < self.known;
        if is_easy || self.answers >= self.at_once {
            self.answers = 0;
            self.at_once = (self.at_once + 1).min(self.most);
        }
    }

    /// A question had its whole time, from `asked` on, and no answer. Those that were asked before there were fewer say nothing new.
    pub(super) fn missed(&mut self, asked: Instant, now: Instant) {
        if self.slowed.is_none_or(|slowed| slowed < asked) {
            self.slowed = Some(now);
            self.answers = 0;
            self.at_once = (self.at_once / 2).max(FEWEST.min(self.most));
            self.known = self.at_once;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(200);

    #[test]
    fn one_burst_without_answers_counts_once() {
        let (mut pace, now) = (Pace::new(256), Instant::now());
        for _ in 0..128 {
            pace.missed(now, now + TIMEOUT);
        }
        assert_eq!(pace.at_once(), 128);
        let mut asked = now + TIMEOUT * 2;
        for _ in 0..20 {
            pace.missed(asked, asked + TIMEOUT);
            asked += TIMEOUT * 2;
        }
        assert_eq!(pace.at_once(), FEWEST);
        let mut single = Pace::new(1);
        single.missed(now, now);
        assert_eq!(single.at_once(), 1);
    }

    #[test]
    fn it_comes_to_what_a_server_can_do_that_takes_one_after_the_other() {
        // Half of them are one user's; each takes 2 ms.
        let (mut pace, mut now) = (Pace::new(256), Instant::now());
        let (mut late, mut rounds) = (0, 0);
        while rounds < 1000 {
            let own = pace.at_once() / 2;
            let time = Duration::from_millis(2) * u32::try_from(own).unwrap();
            for nth in 1..=u32::try_from(own).unwrap() {
                let took = Duration::from_millis(2) * nth;
                if took < TIMEOUT {
                    pace.answered(took, TIMEOUT);
                } else {
                    late += 1;
                    pace.missed(now, now + TIMEOUT);
                }
            }
            now += time.max(Duration::from_millis(1)) + TIMEOUT;
            rounds += 1;
        }
        assert!(late < 200, "{late}");
        assert!((50..=256).contains(&pace.at_once()), "{}", pace.at_once());
    }
}
