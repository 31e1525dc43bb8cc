//! `Overlay`: properties of the whole.

use hermes_config::model::{Duration, Percent};
use schemars::JsonSchema;
use serde::Deserialize;

/// Properties of the whole. There is one at most.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverlaySpec {
    /// The domain of certificates. It cannot change once a node has joined. Default: `OVERLAY.hermes.internal`.
    #[serde(rename = "trustDomain", default)]
    pub trust_domain: Option<String>,
    /// How changes spread.
    #[serde(default)]
    pub rollout: RolloutPlan,
    /// Bounds on the harm of one change.
    #[serde(default)]
    pub guards: Guards,
}

/// How changes spread.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutPlan {
    /// Nodes that try a change before the others, of each kind of node. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub canary: Option<u16>,
    /// How long nodes are looked at before others follow. Default: 10s.
    #[serde(default)]
    pub bake: Option<Duration>,
}

/// Bounds on the harm of one change.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guards {
    /// Share of the nodes that a change may concern without being forced. Default: 100%.
    #[serde(rename = "maxChanged", default)]
    pub max_changed: Option<Percent>,
}
