//! `Route`: a detour of some exchanges.

use hermes_api::Name;
use hermes_config::model::{Match, Retry, Timeouts};
use schemars::JsonSchema;
use serde::Deserialize;

/// Exchanges that go another way from the ingresses than their name says: through certain nodes, or to another service. Routes come
/// before names.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// The exchanges, as in a node's `routes`. Each node on the way asks again, so conditions have to hold at all of them.
    #[serde(rename = "match")]
    pub matches: Match,
    /// Nodes that they pass, in this order. Default: the shortest way.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub via: Vec<Name>,
    /// The service that they go to.
    #[schemars(with = "String")]
    pub to: Name,
    /// When a failed attempt of an ingress is followed by another. Default: as in a node's `routes`.
    #[serde(default)]
    pub retry: Option<Retry>,
    /// Time-outs at each node on the way. Default: as in a node's `routes`.
    #[serde(default)]
    pub timeouts: Option<Timeouts>,
}
