//! Which endpoints of one upstream may be ejected, and how many at once.

use std::time::Duration;

use hermes_config::model::{self, Percent};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::condition::EjectionRule;

/// The rule of an upstream, and the ends of the ejections in force.
#[derive(Debug)]
pub(crate) struct Ejector {
    pub(crate) rule: EjectionRule,
    /// Endpoints that may be ejected at once.
    most: usize,
    ends: Mutex<Vec<Instant>>,
}

impl Ejector {
    pub(crate) fn new(config: &model::Eject, endpoints: usize) -> Self {
        const CONSECUTIVE: u16 = 5;
        const TIME: Duration = Duration::from_secs(30);
        const MOST: Percent = Percent(500_000);
        let most = config.most.unwrap_or(MOST).of(endpoints as u64);
        let rule = EjectionRule {
            consecutive: config.consecutive.unwrap_or(CONSECUTIVE).max(1),
            time: config.time.map_or(TIME, |time| time.0),
        };

        Self {
            rule,
            most: usize::try_from(most).unwrap_or(endpoints),
            ends: Mutex::default(),
        }
    }

    /// Whether one more may be ejected now, until `end`; if so it is counted.
    pub(crate) fn admit(&self, now: Instant, end: Instant) -> bool {
        let mut ends = self.ends.lock();
        ends.retain(|end| now < *end);
        let has_room = ends.len() < self.most;
        if has_room {
            ends.push(end);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_a_share_is_ejected_at_once() {
        let (now, ejector) = (Instant::now(), Ejector::new(&model::Eject::default(), 5));
        let end = now + Duration::from_secs(30);
        assert_eq!([0; 3].map(|_| ejector.admit(now, end)), [true, true, false]);
        assert!(
            ejector.admit(end, end + Duration::from_secs(30)),
            "those that are back make room"
        );
        assert!(
            !Ejector::new(&model::Eject::default(), 1).admit(now, end),
            "the only one is never ejected"
        );
    }
}
