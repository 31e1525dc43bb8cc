//! Changes of a running node from within its process: by an agent, a signal, a test.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Loaded;
use hermes_observe::Vitals;

use crate::answers::NodeStatus;
use crate::change::{Confirmed, NotReloaded, NotReturned, ReloadReport, TooLate, Trigger};
use crate::process::Node;

/// Changes a running node. All of it may block, as files that stand still do.
#[derive(Clone)]
pub struct NodeHandle(pub(crate) Arc<Node>);

impl NodeHandle {
    /// Puts a document in force. With `confirm`, the node returns to the last confirmed one unless [`Self::confirm`] is called within
    /// that time, which is at most a year.
    ///
    /// # Errors
    /// The problems of the document; then nothing has changed.
    pub fn apply(
        &self,
        document: impl Into<Loaded>,
        confirm: Option<Duration>,
    ) -> Result<ReloadReport, NotReloaded> {
        self.0.apply(document.into(), confirm)
    }

    /// Reads the configuration again and puts it in force, unless it is one that was not confirmed.
    ///
    /// # Errors
    /// The problems of the document; then nothing has changed.
    pub fn reload(&self) -> Result<ReloadReport, NotReloaded> {
        self.0.reload(Trigger::Surroundings)
    }

    /// How the node is.
    pub fn status(&self) -> NodeStatus {
        self.0.status()
    }

    /// Sums over all exchanges that have ended; never blocks.
    pub fn vitals(&self) -> Vitals {
        self.0.shared.telemetry.vitals()
    }

    /// Keeps the document in force.
    ///
    /// # Errors
    /// The node has returned to an earlier one.
    pub fn confirm(&self) -> Result<Confirmed, TooLate> {
        self.0.confirm()
    }

    /// Returns to the last confirmed document, or to the one before the one in force.
    ///
    /// # Errors
    /// When there is none, or it does not hold any more; then nothing has changed.
    pub fn roll_back(&self) -> Result<ReloadReport, NotReturned> {
        self.0.roll_back()
    }
}
