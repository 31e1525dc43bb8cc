//! Retries and hedging: when an exchange is tried again, how often, and at what cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{ByteSize, Duration, OneOrMany, Percent, Rate};

/// When a failed attempt is followed by another. Keys of a route stand over those of its upstream, one by one.
///
/// A request that may have been processed is repeated only if its method is idempotent (RFC 9110,
/// 9.2.2).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all, the first one included, 1 to 10. Default: 3.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10))]
    pub attempts: Option<u8>,
    /// How long a request with an idempotent method is tried again, regardless of `attempts`, over
    /// outages of any length; at most 1h. Default: limited by `attempts` alone.
    #[serde(default)]
    pub keep_for: Option<Duration>,
    /// Conditions for a retry. Default: [connect-failure, refused-stream, reset, gateway-error].
    #[serde(default)]
    pub on: Option<OneOrMany<RetryOn>>,
    /// Longest time from the beginning of an attempt to its response head. Default: `timeouts` alone.
    #[serde(default)]
    pub per_try_timeout: Option<Duration>,
    /// Pauses between attempts.
    #[serde(default)]
    pub backoff: Backoff,
    /// Longest `Retry-After` of a 503 or 429 that is waited for; with a longer one, the response goes to the client. Default: 2s.
    #[serde(default)]
    pub retry_after: Option<Duration>,
    /// Content of a request that is kept to be sent again; once more than this was sent, there is no further attempt. Default: 64KiB.
    #[serde(default)]
    pub keep_bytes: Option<ByteSize>,
    /// How many retries an upstream is given in all.
    #[serde(default)]
    pub budget: RetryBudget,
    /// Whether requests are taken into custody on the way to the next proxy, which is a neighbour of this name in
    /// `defaults.custody`: they and their responses pass over UDP as the network lets them. Default: false.
    #[serde(default)]
    pub custody: Option<bool>,
}

/// The plug that carries requests to the next proxy where `custody` asks for it, and the ingress that takes them there.
pub const CARRIER: &str = "custody";

impl Retry {
    /// The plug that carries requests to the next proxy, as the route says, or else its upstream. `None`: a connection does.
    pub fn carrier(route: Option<&Self>, upstream: Option<&Self>) -> Option<&'static str> {
        let says = |retry: Option<&Self>| retry.and_then(|retry| retry.custody);
        let is_carried = says(route).or(says(upstream)) == Some(true);
        is_carried.then_some(CARRIER)
    }
}

/// Conditions for a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetryOn {
    /// No connection came about.
    ConnectFailure,
    /// The next hop said that it did not begin with the exchange (`REFUSED_STREAM`, GOAWAY). Always tried again.
    RefusedStream,
    /// No response came: the connection ended, the stream was reset, or a time-out passed.
    Reset,
    /// As `reset` and `connect-failure`, and the responses 502, 503 and 504.
    GatewayError,
    /// As `gateway-error`, and every other response of 500 and more.
    #[serde(rename = "5xx")]
    ServerError,
    /// The content of a response to GET broke off: the rest is asked for, with Range and If-Range, where a strong validator shows that
    /// it is of the same.
    Interrupted,
    /// The response 429 with a `Retry-After` that is short enough.
    RateLimited,
}

/// Pauses between attempts: a random time from zero to `base`, which doubles with each attempt up to `max`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backoff {
    /// Longest pause before the second attempt. Default: 25ms.
    #[serde(default)]
    pub base: Option<Duration>,
    /// Longest pause of all. Default: 250ms.
    #[serde(default)]
    pub max: Option<Duration>,
}

/// How many retries and hedges an upstream is given, by all workers together, so that failures do not multiply its load.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryBudget {
    /// Retries for each exchange that begins, in steps of 0.1%. Default: 20%.
    #[serde(default)]
    pub ratio: Option<Percent>,
    /// Retries that are allowed under any load. Default: 3 per second.
    #[serde(default)]
    pub min: Option<Rate>,
}

/// A second attempt beside one that is slow, for requests with a safe method (RFC 9110, 9.2.1) and without content. The first
/// good response wins, the other attempts are cancelled. Each of them costs the budget of [`Retry`] one retry.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hedge {
    /// How long an attempt may be without a response head until the next one begins beside it.
    pub after: Duration,
    /// Attempts at once, 2 to 4. Default: 2.
    #[serde(default)]
    #[schemars(range(min = 2, max = 4))]
    pub most: Option<u8>,
}
