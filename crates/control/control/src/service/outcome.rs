//! Changes as operators ask for them, and what they are told of them.

use hermes_api::{Name, Revision, SignedEndorsement};
use serde::{Deserialize, Serialize};

use crate::resources::Findings;

/// How a change is made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct How {
    /// The revision that it was made from; another one in force refuses it.
    pub base: Option<Revision>,
    /// Nodes and controller return from it unless it is confirmed within so many seconds.
    pub confirm_seconds: Option<u32>,
    /// It may take away much of what there is.
    pub force: bool,
    /// Only say what it would do.
    pub dry_run: bool,
    /// The first nodes are not looked at before others follow. They still come first.
    pub now: bool,
    /// The operator's signatures of the documents that it leads to.
    pub endorsements: Vec<SignedEndorsement>,
    /// Who makes it.
    pub author: String,
    /// Why, in his words.
    pub message: String,
}

/// A change that has begun, or would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The state that it leads to; the one in force where nothing differs.
    pub revision: Revision,
    /// Resources that are new, as `Kind/tenant/name`.
    pub added: Vec<String>,
    /// Resources with another content.
    pub changed: Vec<String>,
    /// Resources that are gone.
    pub removed: Vec<String>,
    /// Nodes whose documents differ; `devices` stands for all devices.
    pub documents: Vec<String>,
    /// Nodes that attend and get another document.
    pub nodes: usize,
    /// Keys that are in force at a node only after a restart, each with its node.
    #[serde(default)]
    pub restarts: Vec<String>,
    /// Why it has to be forced.
    #[serde(default)]
    pub guarded: Vec<String>,
}

/// Why nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotChanged {
    /// The resources, or the documents made of them, are not valid.
    Invalid(Findings),
    /// Another change came first, or waits to be confirmed.
    Conflict(String),
    /// This revision still spreads: two changes at once could not be told apart when a node refuses.
    Spreads(Revision),
    /// It takes away too much to be meant.
    Guarded(String),
    /// The store does not take it.
    Store(String),
}

impl std::fmt::Display for NotChanged {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Invalid(findings) => findings.fmt(out),
            Self::Spreads(revision) => write!(out, "revision {revision} still spreads"),
            Self::Conflict(reason) | Self::Guarded(reason) | Self::Store(reason) => {
                out.write_str(reason)
            }
        }
    }
}

/// The end of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its revision.
    pub revision: Revision,
    /// The node that refused it, and why; `None`: it is in force at every node that attends.
    pub stopped: Option<Refusal>,
}

/// The node that stopped a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The node.
    pub node: Name,
    /// Its reason.
    pub reason: String,
}

/// How far a change has spread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spreading {
    /// The stage, from 1: each is a state of the overlay on the way to the last one.
    pub stage: usize,
    /// The number of stages.
    pub stages: usize,
    /// The wave of the stage, from 1: its first one is the canary.
    pub wave: usize,
    /// The number of waves of the stage.
    pub waves: usize,
    /// Nodes of the wave.
    pub nodes: Vec<Name>,
    /// Nodes of the wave that are waited for.
    pub waiting: Vec<Name>,
}
