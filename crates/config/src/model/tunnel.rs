//! The form that tunnels of bytes take on a route.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How tunnels of bytes leave. POST is for proxies on the way that do not know CONNECT; it is what Envoy calls `use_post` and
/// `allow_post`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Tunnel {
    /// `connect`, `connect-tcp`, or `post` with the path that the tunnel came with, or else `/`.
    Word(TunnelWord),
    /// A POST with this path.
    Post(TunnelPost),
}

/// A form in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TunnelWord {
    /// CONNECT, to the target's authority.
    Connect,
    /// connect-tcp, by the URI template of the next proxy.
    ConnectTcp,
    /// A POST whose request and response contents are the two directions.
    Post,
}

/// A POST with a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TunnelPost {
    /// Its path, such as `/tunnel`.
    pub post: String,
}

impl Tunnel {
    /// The form.
    pub fn word(&self) -> TunnelWord {
        match self {
            Self::Word(word) => *word,
            Self::Post(_) => TunnelWord::Post,
        }
    }

    /// The path of POST, where one is given.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Word(_) => None,
            Self::Post(tunnel) => Some(&tunnel.post),
        }
    }
}
