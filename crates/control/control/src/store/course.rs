//! The change under way: the state that all nodes had before it. It outlives a controller, so that the next one spreads the rest in waves.

use hermes_api::{Revision, canonical};
use serde::{Deserialize, Serialize};

use super::history::History;
use super::{RecordChange, Store, StoreError};

/// The record of it.
const COURSE: &str = "course";

/// How a state comes to its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It spreads from now on, until [`History::arrived`].
    Begins {
        /// The first nodes are not looked at.
        at_once: bool,
    },
    /// The change under way goes on with it, if there is one.
    GoesOn,
    /// All nodes have it at once: the change under way is over.
    Ends,
}

/// A change under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnderWay {
    /// The state that all nodes had before it.
    pub from: Revision,
    /// Its first nodes are not looked at before others follow.
    pub at_once: bool,
}

impl UnderWay {
    fn read(record: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(record)
            .map_err(|error| StoreError::new(format!("the record {COURSE}: {error}")))
    }

    fn record(self) -> Vec<u8> {
        // Numbers and truths are always JSON.
        canonical(&serde_json::to_value(self).unwrap_or_default())
    }
}

impl Course {
    /// The change of the record by which a state is made that follows this one; `None` where none is needed.
    pub(super) fn change(
        self,
        store: &dyn Store,
        before: Revision,
    ) -> Result<Option<RecordChange>, StoreError> {
        let expected = store.record(COURSE)?;
        let new = match self {
            Self::Begins { at_once } => {
                // After one that has not arrived, from where that one began.
                let unfinished = expected.as_deref().map(UnderWay::read).transpose()?;
                let from = unfinished.map_or(before, |unfinished| unfinished.from);
                Some(UnderWay { from, at_once }.record())
            }
            Self::GoesOn => expected.clone(),
            Self::Ends => None,
        };
        let change = RecordChange {
            key: COURSE.to_owned(),
            expected,
            new,
        };
        Ok(Some(change).filter(|change| change.expected != change.new))
    }
}

impl History {
    /// The change under way; `None` while the newest state is in force everywhere.
    ///
    /// # Errors
    /// The store cannot be read, or its record is damaged.
    pub fn under_way(&self) -> Result<Option<UnderWay>, StoreError> {
        let record = self.store().record(COURSE)?;
        record.as_deref().map(UnderWay::read).transpose()
    }

    /// The change under way is in force everywhere.
    ///
    /// # Errors
    /// The store cannot be written, or another controller leads.
    pub fn arrived(&self) -> Result<(), StoreError> {
        let Some(change) = Course::Ends.change(self.store(), Revision::FIRST)? else {
            return Ok(());
        };
        match self.store().swap_as_leader(&[change])? {
            true => Ok(()),
            false => Err(StoreError::new("another controller has changed it")),
        }
    }
}
