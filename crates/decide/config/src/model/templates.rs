//! URI templates of proxies: which paths ask for a tunnel (RFC 9298, section 2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::OneOrMany;

/// Templates that a listener serves beside the default ones.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Templates {
    /// Of CONNECT-UDP, such as `/udp{?target_host,target_port}`. Default: only
    /// `/.well-known/masque/udp/{target_host}/{target_port}/`.
    #[serde(default)]
    pub udp: Option<OneOrMany<String>>,
    /// Of connect-tcp. Default: only `/.well-known/masque/tcp/{target_host}/{target_port}/`.
    #[serde(default)]
    pub tcp: Option<OneOrMany<String>>,
}

/// Templates of the next proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamTemplates {
    /// Of CONNECT-UDP: a path, or a whole URI, which also names the proxy. Default:
    /// `/.well-known/masque/udp/{target_host}/{target_port}/`.
    #[serde(default)]
    pub udp: Option<String>,
    /// Of connect-tcp. Default: `/.well-known/masque/tcp/{target_host}/{target_port}/`.
    #[serde(default)]
    pub tcp: Option<String>,
}
