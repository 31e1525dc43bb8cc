//! `Service`: servers, and the nodes that reach them.

use hermes_api::Name;
use hermes_config::model::{
    EndpointAddress, FieldPattern, Health, HttpVersion, OneOrMany, PlugUse, TlsChoice,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Servers that do the same work. Exchanges go to the nearest node of those that reach one, and are divided by weight among equally near
/// ones.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// The servers.
    pub at: Vec<ServiceEnd>,
    /// In place of servers, the part of the nodes in `at` that answers, as in `handle` of a node's routes: `relay`, or
    /// `{ relay: { queue: 1MiB } }`. Default: none.
    #[serde(default)]
    pub handle: Option<PlugUse>,
    /// Active checks of the servers by their nodes. Default: none.
    #[serde(default)]
    pub health: Option<Health>,
    /// HTTP versions of the servers, the preferred one first. Default: as in a node's `upstreams`.
    #[serde(default)]
    pub http: Option<OneOrMany<HttpVersion>>,
    /// TLS to the servers. Default: none.
    #[serde(default)]
    pub tls: Option<TlsChoice>,
    /// Overlay fields that the servers may see, such as `user`. Default: none.
    #[serde(default)]
    pub expose: Vec<FieldPattern>,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceEnd {
    /// The node that connects to it, where the overlay ends.
    #[schemars(with = "String")]
    pub node: Name,
    /// Its address, as this node reaches it. Needed without `handle`.
    #[serde(default)]
    pub address: Option<EndpointAddress>,
    /// Its share of the exchanges relative to the others, 1 to 1000. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: Option<u16>,
}

impl ServiceEnd {
    /// Its share of the exchanges relative to the others.
    pub fn weight(&self) -> u32 {
        self.weight.unwrap_or(1).into()
    }
}
