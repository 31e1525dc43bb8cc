//! Moments that outlive the process, and the time that has passed since one.
//!
//! The clock of the machine may be set, and a response must not be young again because of that. While the machine runs, its own clock since
//! the start counts; across a start the clock of the machine does, and where it has visibly gone back no one knows how old a response is.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// Seconds of the machine's clock since 1970.
    wall: u64,
    /// The same by the machine's clock since its start; `None` where the system does not tell.
    running: Option<Running>,
}

/// Seconds since the machine was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Running {
    /// Names this start.
    start: String,
    seconds: u64,
}

impl Moment {
    /// This one.
    pub(crate) fn now() -> Self {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            wall: wall.unwrap_or_default().as_secs(),
            running: running(),
        }
    }

    /// The time since an earlier one; `None` if that cannot be known. `latest` is a moment of the machine's clock that has passed, in seconds.
    pub(crate) fn since(&self, earlier: &Self, latest: u64) -> Option<Duration> {
        if let (Some(now), Some(then)) = (&self.running, &earlier.running)
            && now.start == then.start
        {
            let seconds = now.seconds.checked_sub(then.seconds);
            return seconds.map(Duration::from_secs);
        }
        if self.wall < latest {
            return None;
        }
        self.wall.checked_sub(earlier.wall).map(Duration::from_secs)
    }
}

#[cfg(target_os = "linux")]
fn running() -> Option<Running> {
    let start = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // It counts the time in which the machine sleeps, too.
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds = uptime.split('.').next()?.parse().ok()?;
    Some(Running {
        start: start.trim().to_owned(),
        seconds,
    })
}

#[cfg(not(target_os = "linux"))]
fn running() -> Option<Running> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(wall: u64, running: Option<(&str, u64)>) -> Moment {
        let running = running.map(|(start, seconds)| Running {
            start: start.to_owned(),
            seconds,
        });
        Moment { wall, running }
    }

    #[test]
    fn a_clock_that_is_set_makes_nothing_younger_while_the_machine_runs() {
        let then = moment(1000, Some(("a", 50)));
        for wall in [0, 1000, 9_999_999] {
            let now = moment(wall, Some(("a", 80)));
            assert_eq!(now.since(&then, 5000), Some(Duration::from_secs(30)));
        }
    }

    #[test]
    fn across_a_start_of_the_machine_its_clock_counts_unless_it_has_gone_back() {
        let then = moment(1000, Some(("a", 50)));
        let since = |wall, latest| moment(wall, Some(("b", 3))).since(&then, latest);
        assert_eq!(since(1060, 1000), Some(Duration::from_secs(60)));
        assert_eq!(since(999, 900), None);
        assert_eq!(
            since(1060, 1061),
            None,
            "something was written later than now"
        );
        assert_eq!(
            moment(1060, None).since(&then, 0),
            Some(Duration::from_secs(60))
        );
    }

    #[test]
    fn this_moment_is_not_before_itself() {
        let now = Moment::now();
        assert!(Moment::now().since(&now, 0).is_some());
    }
}
