//! Routes that end at a plug's connector.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlugUse;

/// The connector that opens the far ends of a route's tunnels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminateBy {
    /// Its name, which is part of the program; `{ NAME: {..} }` with settings.
    pub by: PlugUse,
}
