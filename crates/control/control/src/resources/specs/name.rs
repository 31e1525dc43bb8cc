//! `Name`: what users ask for.

use hermes_api::Name;
use hermes_config::model::{OneOrMany, TargetMatch, UserMatch};
use schemars::JsonSchema;
use serde::Deserialize;

/// A target that users ask for, and the service behind it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NameSpec {
    /// Hosts, or prefixes of addresses, with a port where only that one is meant: `VIDEO`, `DB:5432`, `*.example.com`, `10.1.0.0/16`.
    /// Default: the name of the resource.
    #[serde(default)]
    pub name: Option<OneOrMany<TargetMatch>>,
    /// The users for whom it means this: names, `group:ops`, patterns. Others may have the same name for something else. Default: for
    /// all. What they may do is said by policies.
    #[serde(rename = "for", default)]
    pub users: Option<OneOrMany<UserMatch>>,
    /// The service.
    #[schemars(with = "String")]
    pub service: Name,
}
