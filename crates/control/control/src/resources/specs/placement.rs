//! `Placement`: a decision of the planner.

use hermes_api::Name;
use hermes_config::model::{OneOrMany, UserMatch};
use schemars::JsonSchema;
use serde::Deserialize;

/// The nodes that serve some users best, as measured. The planner writes it and no one else, and nothing follows it yet.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementSpec {
    /// The objective that it serves.
    #[schemars(with = "String")]
    pub objective: Name,
    /// The users. Default: all.
    #[serde(rename = "for", default)]
    pub users: Option<OneOrMany<UserMatch>>,
    /// The service that they reach. Default: all.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub service: Option<Name>,
    /// Nodes where they enter, the best first. Default: as it is without.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub ingress: Vec<Name>,
    /// Nodes of the service that serve them, the best first. Default: as it is without.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub at: Vec<Name>,
    /// The measurements that led to it, in words.
    #[serde(default)]
    pub because: String,
}
