//! The document in force, the one before it, and the one to return to where the one in force is not confirmed.
//!
//! They are kept as text: a tenth of the memory of parsed ones, and read again as the same documents.

mod revision;
mod source;
mod state;

use std::time::{Duration, Instant};

use hermes_config::Loaded;

use crate::answers::Unconfirmed;
pub(crate) use revision::Revision;
pub use source::{DocumentSource, last_confirmed};
pub(crate) use state::LastConfirmed;
use state::StateFile;
pub use state::state_folder;

/// The longest time to confirm a document; a later moment may be none that the clock knows.
#[doc(alias = "bound")]
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The setting of the clock that ends a probation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// The document in force is confirmed.
    None,
    /// The node returns then.
    At(Instant),
    /// It was not confirmed, and there is nothing to return to.
    Missed,
}

/// The documents that were put in force.
#[derive(Debug)]
pub(crate) struct Documents {
    /// The document in force.
    pub(crate) current: Revision,
    /// The one before it; `None` at first, and after it was returned to.
    pub(crate) before: Option<Revision>,
    /// Set while the document in force is not confirmed.
    pub(crate) waiting: Option<Probation>,
    /// The document that was not confirmed, since the node returned from it.
    pub(crate) given_up: Option<Revision>,
    /// Whether the last confirmed document is always kept: every start asks for a confirmation, or the document in force has no file.
    pub(crate) guarded: bool,
    /// Where the last confirmed document outlives the process.
    pub(crate) state: StateFile,
}

/// A document in force that is not confirmed.
#[derive(Debug)]
pub(crate) struct Probation {
    /// The last confirmed document; `None`: the node stops.
    pub(crate) back: Option<Revision>,
    /// How long it has in all.
    pub(crate) time: Duration,
    /// When the node returns.
    pub(crate) until: Instant,
    /// The obstacle to a return, now or after a restart in between.
    pub(crate) warning: Option<String>,
}

impl Probation {
    /// Begins now, and ends after `time`, or after a year if that is longer.
    pub(crate) fn new(back: Option<Revision>, time: Duration, warning: Option<String>) -> Self {
        let time = time.min(LONGEST);
        Self {
            back,
            time,
            until: Instant::now() + time,
            warning,
        }
    }
}

impl Documents {
    pub(crate) fn begin(loaded: &Loaded, node: &str, source: &DocumentSource) -> Self {
        Self {
            current: source.revision(loaded, 1),
            before: None,
            waiting: None,
            given_up: None,
            guarded: source.file().is_none(),
            state: source.state(node),
        }
    }

    /// A document is in force, maybe the same as before: then the one before it is the same, too.
    pub(crate) fn follow(&mut self, revision: Revision) {
        let last = std::mem::replace(&mut self.current, revision);
        if last.text != self.current.text {
            self.before = Some(last);
        }
    }

    /// The probation of the document in force, as it is shown at this time.
    pub(crate) fn unconfirmed(&self, now: Instant) -> Option<Unconfirmed> {
        let waiting = self.waiting.as_ref()?;
        let left = waiting.until.saturating_duration_since(now);
        Some(Unconfirmed {
            left_seconds: left
                .as_millis()
                .div_ceil(1000)
                .try_into()
                .unwrap_or(u64::MAX),
            returns_to: waiting.back.as_ref().map(|back| back.number),
            warning: waiting.warning.clone(),
        })
    }

    /// The document in force is confirmed: there is nothing to return to. The state file keeps it only where a later start needs it.
    pub(crate) fn settle(&mut self) {
        self.waiting = None;
        self.given_up = None;
        if !self.guarded {
            self.state.remove();
        } else if let Err(error) = self.state.write(&self.current, None) {
            tracing::warn!("the confirmed document is not kept for a restart: {error}");
        }
    }
}
