//! How flows of IP packets are followed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::Duration;

/// Which flows of the tunnels of IP that end here are followed: each is counted, and has an access record when it ends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowLog {
    /// One flow in so many is followed. Default: 1, all.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub one_in: Option<u32>,
    /// How long a flow may be silent before it has ended. Default: 60s.
    #[serde(default)]
    pub silent_for: Option<Duration>,
}
