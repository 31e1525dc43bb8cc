//! The document in force, the one before it, and the one to return to where the one in force is not confirmed.
//!
//! They are kept as text: a tenth of the memory of what they mean, and read again as the same documents.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_config::{Loaded, Places, Problems, parse, write_whole};
use serde::Serialize;

use super::source::DocumentSource;
use super::state::StateFile;

/// A document that is, or was, in force.
#[derive(Clone)]
pub(crate) struct Revision {
    /// The whole document, secrets included, with variables as its file has them.
    pub(crate) text: Arc<str>,
    /// The files that it was read from.
    pub(crate) files: Vec<PathBuf>,
    /// The snapshot that was made of it.
    pub(crate) number: u64,
    /// Where its parts are written, if no file can be read again that would say so.
    pub(crate) places: Option<Arc<Places>>,
}

impl Revision {
    pub(crate) fn of(loaded: &Loaded, number: u64, source: &DocumentSource) -> Self {
        Self {
            text: write_whole(&loaded.document, &loaded.places).into(),
            files: loaded.files.clone(),
            number,
            places: match source {
                DocumentSource::File(_) => None,
                DocumentSource::Caller { .. } => Some(Arc::new(loaded.places.clone())),
            },
        }
    }

    /// The document. Unless its places are kept, too, they are in the text, which no file says.
    ///
    /// # Errors
    /// When a variable of the environment is gone that it needs.
    pub(crate) fn loaded(&self) -> Result<Loaded, Problems> {
        let name = format!("document of revision {}", self.number);
        let env = |name: &str| std::env::var(name).ok();
        let read = parse(Path::new(&name), &self.text, &env)?;
        Ok(Loaded {
            files: self.files.clone(),
            places: self.places.as_deref().cloned().unwrap_or(read.places),
            document: read.document,
        })
    }
}

impl fmt::Debug for Revision {
    /// Without the text: secrets may be in it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Revision")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What was put in force.
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
    /// Whether the last confirmed document is always kept: every start asks for a confirmation, or no file says what is in force.
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
    /// What keeps the node from returning, now or after a restart in between.
    pub(crate) warning: Option<String>,
}

/// What is shown of a document that is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unconfirmed {
    /// Time that is left to confirm it.
    pub left_seconds: u64,
    /// The revision whose document the node returns to; `None`: there is none, and the node stops.
    pub returns_to: Option<u64>,
    /// What keeps the node from returning, now or after a restart in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Documents {
    pub(crate) fn begin(loaded: &Loaded, node: &str, source: &DocumentSource) -> Self {
        Self {
            current: Revision::of(loaded, 1, source),
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

    /// What is to be confirmed, at this time.
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

    /// The document in force is confirmed: nothing is returned to. What a later start needs is kept, and nothing else.
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
