//! How it goes with a certificate, for status, metrics and log.

use serde::Serialize;

/// How a certificate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressState {
    /// There is one, and its renewal waits for its time.
    Valid,
    /// No certificate yet: handshakes are refused.
    Missing,
    /// An order is open.
    Ordering,
    /// The last order failed; the certificate from before stays in force.
    Failing,
    /// The last order failed, and there is no certificate: handshakes are refused.
    FailingWithout,
}

/// How it goes with a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Its names.
    pub domains: String,
    /// How it is.
    pub state: ProgressState,
    /// Seconds until it is renewed, or until the next attempt; `None` while an order is open.
    pub next_seconds: Option<u64>,
    /// Orders that succeeded since the process began.
    pub obtained: u64,
    /// Orders that failed since then.
    pub failed: u64,
    /// Why the last one failed, if no other has succeeded since.
    pub reason: Option<String>,
    /// How to mend that.
    pub remedy: Option<String>,
}

/// Counts and memory of orders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) obtained: u64,
    pub(crate) failed: u64,
    /// Failures since the last success.
    pub(crate) in_a_row: u32,
    pub(crate) is_ordering: bool,
    /// Unix time in seconds of the next step.
    pub(crate) next: Option<u64>,
    pub(crate) reason: Option<String>,
    pub(crate) remedy: Option<String>,
}

impl Record {
    /// The state at `now`, Unix time in seconds.
    pub(crate) fn progress(&self, domains: &[String], has_one: bool, now: u64) -> Progress {
        let state = match (has_one, self.in_a_row) {
            _ if self.is_ordering => ProgressState::Ordering,
            (true, 0) => ProgressState::Valid,
            (false, 0) => ProgressState::Missing,
            (true, _) => ProgressState::Failing,
            (false, _) => ProgressState::FailingWithout,
        };
        Progress {
            domains: domains.join(", "),
            state,
            next_seconds: self.next.map(|next| next.saturating_sub(now)),
            obtained: self.obtained,
            failed: self.failed,
            reason: self.reason.clone(),
            remedy: self.remedy.clone(),
        }
    }
}
