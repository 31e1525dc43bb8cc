//! How much may be open towards an upstream at once, and how its links are kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{ByteSize, Duration};

/// Bounds of an upstream, over all workers, and of its responses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamLimits {
    /// Connections to its endpoints at once, idle ones included.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub connections: Option<u32>,
    /// Exchanges with its endpoints at once.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub streams: Option<u32>,
    /// Exchanges that may wait, for their time to connect, until there is room; the others are refused at once. Default: 1024.
    #[serde(default)]
    pub pending: Option<u32>,
    /// Bytes of the head of one answer. Default: 64KiB.
    #[serde(default)]
    pub head_bytes: Option<ByteSize>,
    /// Bytes of the trailers of one answer. Default: 16KiB.
    #[serde(default)]
    pub trailer_bytes: Option<ByteSize>,
    /// Field lines of the head of one answer, and of its trailers. Default: 1024.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub fields: Option<usize>,
    /// How long a connection of HTTP/1.1 is kept between exchanges; shorter where the server says so by `Keep-Alive: timeout`.
    /// Default: 60s.
    #[serde(default)]
    pub idle_time: Option<Duration>,
}

/// PING on HTTP/2 links, which finds out that a peer is gone although nothing says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keepalive {
    /// Time between two PINGs. Default: 15s.
    #[serde(default)]
    pub every: Option<Duration>,
    /// Silence after a PING that ends the link. Default: 5s.
    #[serde(default)]
    pub timeout: Option<Duration>,
}
