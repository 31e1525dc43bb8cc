//! The change under way: the state that all nodes had before it. It outlives a controller, so that the next one spreads the rest in waves.

use hermes_api::Revision;

use super::history::History;
use super::{RecordChange, Store, StoreError};

/// The record of it.
const COURSE: &str = "course";

/// How a state comes to its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It spreads from now on, until [`History::arrived`].
    Begins,
    /// The change under way goes on with it, if there is one.
    GoesOn,
    /// All nodes have it at once: the change under way is over.
    Ends,
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
            // One that has not arrived is spread anew, from where it began.
            Self::Begins => expected
                .clone()
                .or_else(|| Some(before.to_string().into_bytes())),
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
    /// The revision from which the change under way began; `None` while the newest state is in force everywhere.
    ///
    /// # Errors
    /// The store cannot be read, or its record is damaged.
    pub fn course(&self) -> Result<Option<Revision>, StoreError> {
        let Some(record) = self.store().record(COURSE)? else {
            return Ok(None);
        };
        let revision = std::str::from_utf8(&record).ok();
        let revision = revision.and_then(|text| text.parse().ok());
        let damaged = || StoreError::new(format!("the record {COURSE} is damaged"));
        revision.ok_or_else(damaged).map(Some)
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
