//! Bounds on the memory for contents on their way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::ByteSize;

/// Bounds of the contents that the node holds for readers that are slower than their senders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// All connections together. Above it, those that hold more than their share get no more room, and are ended if they do not
    /// move. Default: 128MiB.
    #[serde(default)]
    pub total: Option<ByteSize>,
    /// One connection with all its streams. Default: 16MiB.
    #[serde(default)]
    pub connection: Option<ByteSize>,
}
