//! Whether an endpoint is fit: a machine that is told of checks and exchanges. Time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// An ejection lasts at most this many times the first one's time.
const LONGEST: u32 = 10;

/// Smallest share of its weight that an endpoint has when it comes back.
const FIRST_SHARE: f64 = 0.1;

/// The health of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    /// The result of checks; `None` before the first.
    sound: Option<bool>,
    /// Checks in a row that spoke against it.
    against: u16,
    check_reason: String,
    /// Exchanges in a row that failed.
    failed: u16,
    ejection: Option<Ejection>,
    /// When checks found it healthy again.
    back: Option<Instant>,
}

#[derive(Debug)]
struct Ejection {
    until: Instant,
    time: Duration,
    /// How often in a row.
    times: u32,
    reason: String,
}

/// The outcome of all that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fitness {
    /// No failures.
    Healthy,
    /// Checks fail.
    Unhealthy,
    /// Exchanges failed.
    Ejected,
}

impl Fitness {
    /// The word for people and metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Ejected => "ejected",
        }
    }
}

/// When exchanges eject an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EjectionRule {
    /// Failures in a row.
    pub(crate) consecutive: u16,
    /// Time of the first ejection.
    pub(crate) time: Duration,
}

/// Checks in a row that turn the finding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thresholds {
    pub(crate) healthy: u16,
    pub(crate) unhealthy: u16,
}

impl Condition {
    /// A check was made; true if that changed the finding. The first check of all decides alone.
    pub(crate) fn checked(
        &mut self,
        outcome: Result<(), String>,
        thresholds: Thresholds,
        now: Instant,
    ) -> bool {
        let good = outcome.is_ok();
        if let Err(reason) = outcome {
            self.check_reason = reason;
        }

        if self.sound == Some(good) {
            self.against = 0;
            return false;
        }

        self.against += 1;
        let needed = match self.sound {
            None => 1,
            Some(_) if good => thresholds.healthy,
            Some(_) => thresholds.unhealthy,
        };

        if self.against < needed {
            return false;
        }
        self.back = (self.sound.is_some() && good).then_some(now).or(self.back);
        (self.sound, self.against) = (Some(good), 0);

        true
    }

    /// An exchange failed. Where the endpoint is to be ejected by the rule, `admit` may object. True if it was ejected.
    pub(crate) fn failed(
        &mut self,
        reason: &str,
        rule: EjectionRule,
        now: Instant,
        admit: impl FnOnce(Instant) -> bool,
    ) -> bool {
        self.failed = self.failed.saturating_add(1);
        if self.failed < rule.consecutive || self.is_ejected(now) {
            return false;
        }

        let again = self
            .ejection
            .as_ref()
            .filter(|last| now < last.until + last.time);
        // An ejection soon after the last one lasts longer; one long after begins anew.
        let times = again.map_or(1, |last| (last.times + 1).min(LONGEST));
        let time = rule.time * times;

        // Asked last: to admit counts the ejection.
        if !admit(now + time) {
            return false;
        }
        let reason = format!("{} failures in a row, the last: {reason}", self.failed);
        self.ejection = Some(Ejection {
            until: now + time,
            time,
            times,
            reason,
        });

        self.failed = 0;
        true
    }

    /// An exchange went well.
    pub(crate) fn served(&mut self) {
        self.failed = 0;
    }

    fn is_ejected(&self, now: Instant) -> bool {
        self.ejection
            .as_ref()
            .is_some_and(|ejection| now < ejection.until)
    }

    /// Whether it may be used.
    pub(crate) fn fitness(&self, now: Instant) -> Fitness {
        match self.sound {
            Some(false) => Fitness::Unhealthy,
            _ if self.is_ejected(now) => Fitness::Ejected,
            _ => Fitness::Healthy,
        }
    }

    /// Why it may not be used.
    pub(crate) fn reason(&self, now: Instant) -> Option<String> {
        match (self.fitness(now), &self.ejection) {
            (Fitness::Unhealthy, _) => Some(format!("check: {}", self.check_reason)),
            (Fitness::Ejected, Some(ejection)) => {
                let left = ejection.until.saturating_duration_since(now).as_secs();
                Some(format!("{}; back in {left}s", ejection.reason))
            }
            _ => None,
        }
    }

    /// Share of its weight that it has now, where an endpoint that came back grows to all of it in `slow_start`.
    pub(crate) fn share(&self, slow_start: Duration, now: Instant) -> f64 {
        let ejected = self.ejection.as_ref().map(|ejection| ejection.until);
        let Some(back) = self.back.max(ejected).filter(|_| !slow_start.is_zero()) else {
            return 1.0;
        };
        let passed = now.saturating_duration_since(back).as_secs_f64() / slow_start.as_secs_f64();
        passed.clamp(FIRST_SHARE, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: EjectionRule = EjectionRule {
        consecutive: 3,
        time: Duration::from_secs(30),
    };
    const THRESHOLDS: Thresholds = Thresholds {
        healthy: 2,
        unhealthy: 3,
    };

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fail(condition: &mut Condition, times: usize, now: Instant) -> bool {
        (0..times).any(|_| condition.failed("reset", RULE, now, |_| true))
    }

    fn check(condition: &mut Condition, good: bool, now: Instant) -> bool {
        condition.checked(
            if good {
                Ok(())
            } else {
                Err("refused".to_owned())
            },
            THRESHOLDS,
            now,
        )
    }

    #[test]
    fn the_first_check_decides_and_later_ones_in_a_row() {
        let (mut condition, now) = (Condition::default(), Instant::now());
        assert_eq!(condition.fitness(now), Fitness::Healthy);
        assert!(check(&mut condition, false, now));
        assert_eq!(condition.reason(now).unwrap(), "check: refused");
        assert!(!check(&mut condition, true, now));
        assert!(!check(&mut condition, false, now), "the row is broken");
        assert!(!check(&mut condition, true, now));
        assert!(check(&mut condition, true, now));
        assert_eq!(condition.fitness(now), Fitness::Healthy);
        assert!(!check(&mut condition, false, now) && !check(&mut condition, false, now));
        assert!(check(&mut condition, false, now));
        assert_eq!(condition.fitness(now), Fitness::Unhealthy);
    }

    #[test]
    fn failures_in_a_row_eject_and_a_success_breaks_the_row() {
        let (mut condition, now) = (Condition::default(), Instant::now());
        assert!(!fail(&mut condition, 2, now));
        condition.served();
        assert!(!fail(&mut condition, 2, now));
        assert!(fail(&mut condition, 1, now));
        assert_eq!(
            condition.reason(now).unwrap(),
            "3 failures in a row, the last: reset; back in 30s"
        );
        assert_eq!(condition.fitness(now + after(29)), Fitness::Ejected);
        assert_eq!(condition.fitness(now + after(30)), Fitness::Healthy);
    }

    #[test]
    fn each_ejection_in_a_row_is_longer_up_to_a_bound() {
        let (mut condition, mut now) = (Condition::default(), Instant::now());
        for times in (1..=10).chain([10, 10]) {
            assert!(fail(&mut condition, 3, now));
            let time = after(30 * times);
            assert_eq!(condition.fitness(now + time - after(1)), Fitness::Ejected);
            now += time;
            assert_eq!(condition.fitness(now), Fitness::Healthy);
        }
        now += after(300);
        assert!(fail(&mut condition, 3, now));
        assert_eq!(
            condition.fitness(now + after(30)),
            Fitness::Healthy,
            "a long good time is remembered too"
        );
    }

    #[test]
    fn an_objection_keeps_it() {
        let (mut condition, now) = (Condition::default(), Instant::now());
        assert!((0..9).all(|_| !condition.failed("reset", RULE, now, |_| false)));
        assert_eq!(condition.fitness(now), Fitness::Healthy);
    }

    #[test]
    fn one_that_comes_back_grows_to_its_weight() {
        let (mut condition, now, slow) = (Condition::default(), Instant::now(), after(100));
        check(&mut condition, true, now);
        assert_eq!(
            condition.share(slow, now),
            1.0,
            "the start of all is no return"
        );
        for good in [false, false, false, true, true] {
            check(&mut condition, good, now);
        }
        let shares: Vec<_> = [0, 5, 50, 100, 200]
            .map(|passed| condition.share(slow, now + after(passed)))
            .into();
        assert_eq!(shares, [0.1, 0.1, 0.5, 1.0, 1.0]);
        assert_eq!(condition.share(Duration::ZERO, now), 1.0);
    }

    #[test]
    fn the_end_of_an_ejection_is_a_return() {
        let (mut condition, now) = (Condition::default(), Instant::now());
        fail(&mut condition, 3, now);
        assert_eq!(condition.share(after(100), now + after(80)), 0.5);
    }
}
