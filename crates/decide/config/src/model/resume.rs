//! Tunnels of bytes that outlive the path to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{ByteSize, Duration};

/// Whether tunnels of bytes go on by another path when theirs breaks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Resume {
    /// `true`, or `false`.
    Is(bool),
    /// They do, with details.
    Details(ResumeDetails),
}

/// How they do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeDetails {
    /// Bytes from the client that are kept until they have arrived; beyond it, the client is slowed down. Default: 4MiB.
    #[serde(default)]
    pub window: Option<ByteSize>,
    /// How long a tunnel without a path is kept. Default: 10m.
    #[serde(default)]
    pub keep_for: Option<Duration>,
}

impl Resume {
    /// Whether they do.
    pub fn is_on(&self) -> bool {
        !matches!(self, Self::Is(false))
    }

    /// Bytes that are kept, where that is given.
    pub fn window(&self) -> Option<ByteSize> {
        match self {
            Self::Is(_) => None,
            Self::Details(details) => details.window,
        }
    }

    /// How long a tunnel is kept, where that is given.
    pub fn keep_for(&self) -> Option<Duration> {
        match self {
            Self::Is(_) => None,
            Self::Details(details) => details.keep_for,
        }
    }
}
