//! The settings of a check.

use std::time::Duration;

use hermes_config::model::{Health, StatusMatch};

use crate::condition::Thresholds;

/// The settings of a check, defaults filled in.
pub(super) struct Plan<'a> {
    pub(super) health: &'a Health,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) thresholds: Thresholds,
}

impl<'a> Plan<'a> {
    pub(super) fn new(health: &'a Health) -> Self {
        const INTERVAL: Duration = Duration::from_secs(5);
        const TIMEOUT: Duration = Duration::from_secs(1);
        let healthy = health.healthy.unwrap_or(2);
        let unhealthy = health.unhealthy.unwrap_or(3);

        Self {
            health,
            interval: health.interval.map_or(INTERVAL, |interval| interval.0),
            timeout: health.timeout.map_or(TIMEOUT, |timeout| timeout.0),
            thresholds: Thresholds { healthy, unhealthy },
        }
    }

    /// Whether a status says that the endpoint is well.
    pub(super) fn expects(&self, status: u16) -> bool {
        const SUCCESS: StatusMatch = StatusMatch {
            low: 200,
            high: 299,
        };

        let expected = self
            .health
            .expect
            .as_ref()
            .map_or(&[SUCCESS][..], |expected| expected);

        expected.iter().any(|range| range.matches(status))
    }
}
