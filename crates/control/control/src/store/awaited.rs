//! The confirmation that the newest state waits for. It outlives a controller: nodes return by their own clocks, and the next one follows them.

use hermes_api::{Revision, canonical};
use serde::{Deserialize, Serialize};

use super::history::{Commit, History};
use super::{RecordChange, Store, StoreError};

/// The record of it.
const AWAITED: &str = "awaited";

/// A state that is returned from unless it is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Awaited {
    /// The state.
    pub revision: Revision,
    /// The time for it, in seconds, once the state is in force everywhere.
    pub seconds: u32,
    /// When the state was made, in Unix seconds.
    pub since: u64,
}

impl Awaited {
    /// The change of the record by which a state of this revision is made; `None` where there is none, and none is needed.
    pub(super) fn change(
        store: &dyn Store,
        revision: Revision,
        commit: &Commit<'_>,
    ) -> Result<Option<RecordChange>, StoreError> {
        let awaited = commit.confirm_seconds.map(|seconds| Self {
            revision,
            seconds,
            since: commit.time,
        });
        let change = RecordChange {
            key: AWAITED.to_owned(),
            expected: store.record(AWAITED)?,
            new: awaited.map(|awaited| awaited.record()),
        };
        Ok(Some(change).filter(|change| change.expected != change.new))
    }

    fn record(&self) -> Vec<u8> {
        // Numbers are always JSON.
        canonical(&serde_json::to_value(self).unwrap_or_default())
    }
}

impl History {
    /// The confirmation that a state waits for.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn awaited(&self, revision: Revision) -> Result<Option<Awaited>, StoreError> {
        let Some(record) = self.store().record(AWAITED)? else {
            return Ok(None);
        };
        let awaited: Awaited = serde_json::from_slice(&record)
            .map_err(|error| StoreError::new(format!("the record {AWAITED}: {error}")))?;
        // After a restore it is about a state of before.
        Ok(Some(awaited).filter(|awaited| awaited.revision == revision))
    }

    /// A state is confirmed: it stays.
    ///
    /// # Errors
    /// The store cannot be written, or another controller leads.
    pub fn confirm(&self, revision: Revision) -> Result<(), StoreError> {
        let Some(awaited) = self.awaited(revision)? else {
            return Ok(());
        };
        let change = RecordChange {
            key: AWAITED.to_owned(),
            expected: Some(awaited.record()),
            new: None,
        };
        match self.store().swap_as_leader(&[change])? {
            true => Ok(()),
            false => Err(StoreError::new("another controller has changed it")),
        }
    }
}
