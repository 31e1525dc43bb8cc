//! Traces: the recorded exchanges, and the collector of their spans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClientTls;
use super::scalar::{Duration, HttpUrl, Percent};

/// Traces and metrics that are sent to a collector. Without it, trace identifiers are made and carried all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Share of the traces that begin here which are recorded; those that began elsewhere say so themselves.
    /// Default: 1%.
    #[serde(default)]
    pub sample: Option<Percent>,
    /// OTLP/HTTP collector, such as `http://127.0.0.1:4318` or `https://otlp.example:4318`, that gets a span of each recorded exchange.
    /// Default: none.
    #[serde(default)]
    pub otlp: Option<HttpUrl>,
    /// TLS to an `https` collector: trusted authorities and own certificate. Default: the system's
    /// authorities.
    #[serde(default)]
    pub tls: Option<ClientTls>,
    /// How spans name users.
    #[serde(default)]
    pub user: TraceUser,
    /// Time between two times at which the metrics are sent to `otlp` as well. Default: never.
    #[serde(default)]
    pub metrics: Option<Duration>,
}

/// How spans name users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceUser {
    /// Nothing.
    #[default]
    Omit,
    /// The first half of the SHA-256 of the name: the same user is recognised, but who knows names can find theirs.
    Hash,
    /// The name.
    Name,
}

/// The handling of a client's `traceparent`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Continue {
    /// Removed; a new trace begins, unless `accepts` names `traceparent`.
    #[default]
    New,
    /// Trusted: the client's trace goes on.
    Continue,
}

/// Metrics that have a bound of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Users that have counters of their own, those with the most use; the rest share `other`. 0: everybody shares.
    /// Default: 20.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    pub users: Option<usize>,
}
