//! Which endpoints are fit: active checks, and ejection of those that fail exchanges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Duration, OneOrMany, Percent, StatusMatch};

/// Checks of each endpoint, made once for the process and not once for each worker.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// The kind of check.
    pub kind: CheckKind,
    /// Path that an `http` check asks for. Default: `/`.
    #[serde(default)]
    pub path: Option<String>,
    /// `Host` of an `http` check. Default: the endpoint as it is configured.
    #[serde(default)]
    pub host: Option<String>,
    /// Statuses that an `http` check takes for healthy. Default: 200-299.
    #[serde(default)]
    pub expect: Option<OneOrMany<StatusMatch>>,
    /// The payload of a `udp` check, to which any answer counts. Default: random bytes, which must
    /// come back.
    #[serde(default)]
    pub send: Option<String>,
    /// From one check of an endpoint to the next, give or take a tenth. Default: 5s.
    #[serde(default)]
    pub interval: Option<Duration>,
    /// How long one check may take. Default: 1s.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// Checks in a row that must succeed until an unhealthy endpoint is healthy. Default: 2.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub healthy: Option<u16>,
    /// Checks in a row that must fail until a healthy endpoint is unhealthy. The first check of all decides alone. Default: 3.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    pub unhealthy: Option<u16>,
}

/// The kinds of active checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// Connects, under TLS where the upstream has it.
    Tcp,
    /// Sends a GET on a connection of its own.
    Http,
    /// Sends a datagram and waits for the answer.
    Udp,
}

/// Ejection: an endpoint that fails exchange after exchange gets no exchanges for a while.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Eject {
    /// Failures in a row: no connection, a reset, or from an origin a status of 5xx. Default: 5.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub consecutive: Option<u16>,
    /// For how long; the second time in a row twice as long, and so on up to ten times. Default: 30s.
    #[serde(rename = "for", default)]
    pub time: Option<Duration>,
    /// Most of the upstream's endpoints that may be ejected at once. Default: 50%.
    #[serde(default)]
    pub most: Option<Percent>,
}
