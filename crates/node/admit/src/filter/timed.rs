//! A filter that is part of the program, held to the time of the entry that asks it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_config::model::{Authorize, Fail};
use hermes_plug::{Deciding, Filter, Outcome, Subject, Verdict};
use http::StatusCode;

use super::external::{GRACE, TIMEOUT};

/// A filter of the program, and the fate of exchanges on which it does not decide in time.
pub(super) struct Timed {
    filter: Arc<dyn Filter>,
    timeout: Duration,
    fail: Fail,
    grace: Duration,
}

impl Timed {
    pub fn new(config: &Authorize, filter: Arc<dyn Filter>) -> Self {
        Self {
            filter,
            timeout: config.timeout.map_or(TIMEOUT, |timeout| timeout.0),
            fail: config.fail,
            grace: config.grace.map_or(GRACE, |grace| grace.0),
        }
    }

    /// The filter did not decide. The question may have taken it long: that opens only where it says itself that it cannot decide.
    fn undecided(&self) -> Verdict {
        let reason = format!("no decision within {} ms", self.timeout.as_millis());
        let verdict = match self.fail {
            Fail::Open if self.filter.is_away() => Verdict {
                outcome: Outcome::FailedOpen,
                ..Verdict::allow(reason)
            },
            Fail::Open | Fail::Closed => Verdict {
                outcome: Outcome::FailedClosed,
                ..Verdict::deny(StatusCode::SERVICE_UNAVAILABLE, reason)
            },
        };

        Verdict {
            grace: self.grace,
            ..verdict
        }
    }
}

impl Filter for Timed {
    fn decide<'a>(&'a self, subject: &'a Subject<'a>) -> Deciding<'a> {
        Box::pin(async move {
            let began = Instant::now();
            let decided = tokio::time::timeout(self.timeout, self.filter.decide(subject)).await;
            let verdict = decided.unwrap_or_else(|_| self.undecided());
            Verdict {
                took: Some(began.elapsed()),
                ..verdict
            }
        })
    }
}
