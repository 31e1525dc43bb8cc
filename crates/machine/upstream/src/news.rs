//! The log about an endpoint: one line when it fails, and one when it works again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Exchanges in a row that break before it is said: a kept connection may end just as it is used, and nothing is wrong then.
const BROKEN: u32 = 3;

/// Time in which a further failure of an endpoint is not logged, so that one that comes and goes
/// does not fill the log.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_secs(10);

/// The log about one endpoint.
#[derive(Debug)]
pub(crate) struct EndpointLog {
    upstream: Arc<str>,
    endpoint: Arc<str>,
    /// The remedy for a failure.
    remedy: &'static str,
    /// Whether the last attempts failed.
    failing: AtomicBool,
    history: Mutex<FailureHistory>,
}

/// The events, and the lines logged about them.
#[derive(Debug, Default)]
struct FailureHistory {
    failures: u32,
    since: Option<Instant>,
    told: bool,
    told_at: Option<Instant>,
}

/// The line to log.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Fails,
    Works { after: Duration, failures: u32 },
}

impl EndpointLog {
    /// The log of an endpoint, one of `endpoints` in its upstream.
    pub(crate) fn new(upstream: Arc<str>, endpoint: Arc<str>, endpoints: usize) -> Self {
        let remedy = if endpoints > 1 {
            "exchanges go to the other endpoints, and here again from a second on"
        } else {
            "there is no other endpoint: each exchange tries it again"
        };
        Self {
            upstream,
            endpoint,
            remedy,
            failing: AtomicBool::new(false),
            history: Mutex::default(),
        }
    }

    /// No connection came about.
    pub(crate) fn unreached(&self, reason: &str) {
        self.failed(BROKEN, reason);
    }

    /// An exchange broke.
    pub(crate) fn broke(&self, reason: &str) {
        self.failed(1, reason);
    }

    fn failed(&self, weight: u32, reason: &str) {
        self.failing.store(true, Ordering::Relaxed);
        if self.history.lock().failed(weight, Instant::now()).is_some() {
            let upstream = &*self.upstream;
            let endpoint = &*self.endpoint;
            let remedy = self.remedy;
            tracing::info!(upstream, endpoint, reason, "the next hop fails; {remedy}");
        }
    }

    /// An exchange was answered.
    pub(crate) fn answered(&self) {
        if !self.failing.load(Ordering::Relaxed) {
            return;
        }
        self.failing.store(false, Ordering::Relaxed);
        let line = self.history.lock().answered(Instant::now());

        if let Some(Line::Works { after, failures }) = line {
            let upstream = &*self.upstream;
            let endpoint = &*self.endpoint;
            let after = format!("{:.1} s", after.as_secs_f64());
            tracing::info!(
                upstream,
                endpoint,
                failures,
                after,
                "the next hop works again"
            );
        }
    }
}

impl FailureHistory {
    fn failed(&mut self, weight: u32, now: Instant) -> Option<Line> {
        self.failures = self.failures.saturating_add(weight);
        self.since.get_or_insert(now);
        let is_new = self.told_at.is_none_or(|last| now >= last + PAUSE);

        if self.told || self.failures < BROKEN || !is_new {
            return None;
        }
        (self.told, self.told_at) = (true, Some(now));
        Some(Line::Fails)
    }

    fn answered(&mut self, now: Instant) -> Option<Line> {
        let failures = self.failures;
        let since = self.since.take();
        let told = self.told;
        (self.failures, self.told) = (0, false);
        let since = since.filter(|_| told)?;
        self.told_at = Some(now);

        Some(Line::Works {
            after: now.duration_since(since),
            failures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_told_once_and_so_is_the_return() {
        let (mut history, now) = (FailureHistory::default(), Instant::now());
        assert_eq!(history.failed(BROKEN, now), Some(Line::Fails));
        assert!((0..1000).all(|_| history.failed(BROKEN, now + PAUSE * 2).is_none()));
        let after = PAUSE * 3;
        let failures = BROKEN * 1001;
        assert_eq!(
            history.answered(now + after),
            Some(Line::Works { after, failures })
        );
        assert_eq!(history.answered(now + after), None);
    }

    #[test]
    fn a_broken_exchange_is_no_death_yet() {
        let (mut history, now) = (FailureHistory::default(), Instant::now());
        for _ in 0..10 {
            assert!((1..BROKEN).all(|_| history.failed(1, now).is_none()));
            assert_eq!(history.answered(now), None);
        }
        assert!((1..BROKEN).all(|_| history.failed(1, now).is_none()));
        assert_eq!(history.failed(1, now), Some(Line::Fails));
    }

    #[test]
    fn who_comes_and_goes_is_told_of_now_and_then() {
        let (mut history, mut now) = (FailureHistory::default(), Instant::now());
        let mut lines = 0;
        for _ in 0..1000 {
            now += PAUSE / 100;
            lines += usize::from(history.failed(BROKEN, now).is_some());
            lines += usize::from(history.answered(now).is_some());
        }
        assert!((2..=22).contains(&lines), "{lines}");
    }
}
