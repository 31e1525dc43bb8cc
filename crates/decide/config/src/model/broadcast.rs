//! Broadcast: one request, copied to several endpoints.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plugs::PlugUse;
use super::scalar::{ByteSize, Duration, OneOrMany, UserPattern};

/// Requests with `X-Hermes-Broadcast: true` are copied to all endpoints, if their sender may ask for that.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Broadcast {
    /// Users who may broadcast, `group:NAME` for those of a group. Default: no one, unless `peers` says who.
    #[serde(default)]
    pub users: Vec<UserPattern>,
    /// Peer proxies, by name, that may hand over broadcasts. With `users` both must hold.
    #[serde(default)]
    pub peers: Vec<String>,
    /// Upstreams that get the copies. Default: the upstreams of the route's `to` or `terminate`.
    #[serde(default)]
    pub upstreams: Option<OneOrMany<String>>,
    /// Which reply the client gets. Default: first.
    #[serde(default)]
    pub reply: Reply,
    /// A broadcast of a sender who may not send any. Default: ignore, it is an ordinary request.
    #[serde(default)]
    pub otherwise: Otherwise,
    /// Copies at most; a request for more endpoints is refused. Default: 16.
    #[serde(default)]
    #[schemars(range(min = 1, max = 256))]
    pub copies: Option<NonZeroUsize>,
    /// The store for the content of a request, which the program has; `{ NAME: {..} }` with
    /// settings. Default: memory.
    #[serde(default)]
    pub store: Option<PlugUse>,
    /// Content of a request, which is kept until all copies are sent. Default: 64KiB.
    #[serde(default)]
    pub request_bytes: Option<ByteSize>,
    /// Content of each reply. Default: 1MiB.
    #[serde(default)]
    pub reply_bytes: Option<ByteSize>,
    /// From the request's head to the last reply. Default: 10s.
    #[serde(default)]
    pub time: Option<Duration>,
}

/// Which reply the client gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The first that is a success (2xx); the other copies are cancelled.
    #[default]
    First,
    /// All, in one `multipart/mixed`.
    All,
    /// The first success, once this many copies succeeded.
    Quorum(NonZeroUsize),
}

/// The fate of a broadcast of a sender who may not send any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Otherwise {
    /// The broadcast is an ordinary request.
    #[default]
    Ignore,
    /// The broadcast is refused with 403.
    Refuse,
}
