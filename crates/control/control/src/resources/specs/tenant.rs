//! `Tenant`: users and resources that others do not see.

use hermes_config::model::UserPattern;
use schemars::JsonSchema;
use serde::Deserialize;

/// A tenant: users, and all resources with its name as `metadata.tenant`. The overlay's operator writes it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSpec {
    /// Its users, each by name. Names of the tenant are for them alone.
    pub members: Vec<UserPattern>,
}
