//! Nodes agree: their proposals are answered at once, and written to the store soon.
//!
//! The leader has all of it in memory, and writes what has changed within seconds: a rendezvous waits for no disk. If the leader is lost, the
//! next one reads what was written; nodes propose again what they remember, so that the last seconds come back with them.

use std::sync::Arc;
use std::time::Duration;

use hermes_api::{Agreed as Answer, Name, Proposed};

use super::agreed::{self, Agreed};
use super::controller::Controller;
use crate::resources::{Kind, Spec, Tree};
use crate::store::StoreError;

/// How often changes are written.
const WRITE: Duration = Duration::from_secs(1);

/// Writes between two looks for what no one asks for any more.
const FORGET: u32 = 60;

impl Controller {
    /// The answer to a proposal of a node.
    ///
    /// # Errors
    /// The proposal has no right form.
    pub(super) fn propose(&self, node: &Name, proposed: &Proposed) -> Result<Answer, &'static str> {
        let value = self.agreed.lock().propose(node, proposed, self.now())?;
        Ok(Answer {
            number: proposed.number,
            value: value.to_string(),
        })
    }

    /// What was agreed before this controller led.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn read_agreed(&self) -> Result<(), StoreError> {
        let read = Agreed::read(self.history.store(), self.now())?;
        *self.agreed.lock() = read;
        Ok(())
    }

    /// Writes what has changed, for as long as the controller runs.
    pub(super) async fn write_agreed(self: Arc<Self>) {
        let mut turns = tokio::time::interval(WRITE);
        let mut turn = 0_u32;
        let mut has_failed = false;
        loop {
            turns.tick().await;
            turn = turn.wrapping_add(1);
            if !self.leads() {
                continue;
            }
            if turn.is_multiple_of(FORGET) {
                self.agreed.lock().forget(self.now());
            }
            let controller = self.clone();
            let written = tokio::task::spawn_blocking(move || controller.write_changed()).await;
            let failure = written.map_err(|error| error.to_string()).flatten().err();
            if let Some(failure) = &failure
                && !has_failed
            {
                tracing::warn!("what nodes agree on is not written yet: {failure}");
            }
            has_failed = failure.is_some();
        }
    }

    /// Writes what has changed. It may block.
    fn write_changed(&self) -> Result<(), String> {
        let changed = self.agreed.lock().take_changed();
        let mut unwritten = Vec::new();
        let mut failure = None;
        for (record, content) in changed {
            // After one failure the others wait, too.
            let written = match &failure {
                None => agreed::write(self.history.store(), record, content),
                Some(_) => Ok(false),
            };
            match written {
                Ok(true) => {}
                Ok(false) => unwritten.push(record),
                Err(error) => {
                    unwritten.push(record);
                    failure = Some(error.to_string());
                }
            }
        }
        self.agreed.lock().changed_again(unwritten.into_iter());
        failure.map_or(Ok(()), Err)
    }
}

/// Whether a node may propose: one whose own answers are those of a service.
pub(super) fn may_propose(tree: &Tree, node: &Name) -> bool {
    tree.of_kind(Kind::Service)
        .any(|service| match service.spec() {
            Spec::Service(service) => {
                service.handle.is_some() && service.at.iter().any(|end| end.node == *node)
            }
            _ => false,
        })
}
