//! `Policy`: who may do what.

use hermes_api::Name;
use hermes_config::model::PolicyRule;
use schemars::JsonSchema;
use serde::Deserialize;

/// Rules about exchanges. An exchange that no rule allows is refused where it enters.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// The rules, as in the `policy` of a node. The first one that decides counts.
    pub rules: Vec<PolicyRule>,
    /// Policies with a smaller number are asked before others; those with the same in the order of their names. Default: 0.
    #[serde(default)]
    #[schemars(range(min = -1000, max = 1000))]
    pub order: i16,
    /// The nodes that ask. Default: all that an exchange passes.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub at: Vec<Name>,
}
