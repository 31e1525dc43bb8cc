//! `Link`: which node opens connections to which.

use hermes_api::Name;
use hermes_config::model::{HttpVersion, OneOrMany};
use schemars::JsonSchema;
use serde::Deserialize;

/// One node may send to another one. In an overlay without any link, each node may send to each.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The node that opens connections.
    #[schemars(with = "String")]
    pub from: Name,
    /// The node that they are opened to.
    #[schemars(with = "String")]
    pub to: Name,
    /// HTTP versions of the connections, the preferred one first: `[3, 2]`. Default: [2, 1].
    #[serde(default)]
    pub http: Option<OneOrMany<HttpVersion>>,
}
