//! Refusals of questions of the administrator.

use hermes_config::Problems;
use serde::Serialize;

/// Why a question of the administrator has no answer.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AdminRefusal {
    /// A document holds mistakes.
    Mistakes {
        /// All of them.
        problems: Problems,
    },
    /// A document is not put in force.
    NotInForce {
        /// The problems that prevent it.
        problems: Problems,
        /// Whether the document itself is sound, so that it may be put in force later.
        valid: bool,
    },
    /// Anything else, in words.
    Other {
        /// Those.
        error: String,
    },
}

impl AdminRefusal {
    /// In words.
    pub fn other(error: impl ToString) -> Self {
        Self::Other {
            error: error.to_string(),
        }
    }

    /// Whether the state of the node is at fault, rather than the question: the same may succeed later.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Mistakes { .. } => false,
            Self::NotInForce { valid, .. } => *valid,
            Self::Other { .. } => true,
        }
    }
}

impl From<Problems> for AdminRefusal {
    fn from(problems: Problems) -> Self {
        Self::Mistakes { problems }
    }
}
