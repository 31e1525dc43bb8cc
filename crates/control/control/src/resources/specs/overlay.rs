//! `Overlay`: properties of the whole.

use hermes_api::Hash;
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
    /// How long nodes go on with each other when their certificates could not be renewed, as no controller was there; at most 60 days, of
    /// certificates that are made from then on. Default: 30 days.
    #[serde(default)]
    pub grace: Option<Duration>,
    /// SHA-256 of the programs that nodes may run, as `hermes nodes --json` lists them. Nodes say it themselves: it is no attestation.
    /// Default: any.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub binaries: Vec<Hash>,
}

/// How changes spread.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutPlan {
    /// Nodes that try a change before the others, of each kind of node. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub canary: Option<u16>,
    /// How long these nodes are looked at before others follow; at most an hour. Default: 10s, and not at all where they carried less than
    /// 50 exchanges in the five minutes before.
    #[serde(default)]
    pub bake: Option<Duration>,
    /// How much worse the exchanges of these nodes may go meanwhile, before the change is taken back.
    #[serde(rename = "stopOn", default)]
    pub stop_on: StopOn,
}

impl RolloutPlan {
    /// Nodes of each kind that try a change.
    pub fn canaries(&self) -> usize {
        self.canary.unwrap_or(1).into()
    }
}

/// How much worse the exchanges of a node may go since a change than in the minutes before.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopOn {
    /// Share of all exchanges that may fail more than before: without a response, with a 5xx, or broken off by the target. Fewer than 20
    /// exchanges or 5 failures stop nothing. Default: 5%.
    #[serde(default)]
    pub errors: Option<Percent>,
    /// How many times as long as before the slowest hundredth of requests may take. It counts with 200 exchanges before and since, and 5 ms
    /// are no difference. Default: 1.5.
    #[serde(default)]
    #[schemars(range(min = 1.0, max = 1000.0))]
    pub p99: Option<f64>,
}

/// Bounds on the harm of one change.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guards {
    /// Share of the nodes that a change may concern without being forced. Default: 100%.
    #[serde(rename = "maxChanged", default)]
    pub max_changed: Option<Percent>,
}
