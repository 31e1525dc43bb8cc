//! `User` and `Group`: users with several names, and users under one name.

use hermes_config::model::UserPattern;
use schemars::JsonSchema;
use serde::Deserialize;

/// A user who is found under several names. A user with one name needs no resource.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// The user's other names, in tokens for example. Default: none.
    #[serde(default)]
    pub names: Vec<String>,
}

/// Users under one name, written `group:NAME` wherever users are named.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// Users, and patterns with one star.
    pub members: Vec<UserPattern>,
}
