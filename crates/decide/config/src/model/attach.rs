//! Attachments: connections that the node to be reached opens itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{OneOrMany, TextMatch};

/// Where a listener takes exchanges from without being reachable: a proxy that it attaches to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Attach {
    /// An upstream, attached to under the user of the node's `identity`.
    Upstream(String),
    /// An upstream, with details.
    Details(AttachDetails),
}

/// How a listener attaches.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachDetails {
    /// The upstream whose endpoints are attached to.
    pub to: String,
    /// The name to be attached under. Default: the user of the node's `identity`.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
    /// Attachments that are kept open. Default: 2.
    #[serde(default)]
    #[schemars(range(min = 1, max = 16))]
    pub connections: Option<u8>,
}

impl Attach {
    /// The upstream's name.
    pub fn upstream(&self) -> &str {
        match self {
            Self::Upstream(upstream) => upstream,
            Self::Details(details) => &details.to,
        }
    }

    /// The name, where one is given.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Upstream(_) => None,
            Self::Details(details) => details.name.as_deref(),
        }
    }

    /// How many attachments are kept open, where that is given.
    pub fn connections(&self) -> Option<u8> {
        match self {
            Self::Upstream(_) => None,
            Self::Details(details) => details.connections,
        }
    }
}

/// Under which names a route lets nodes be attached here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AttachAs {
    /// `true`: under the name of the user of the request, and no other.
    Own(bool),
    /// Under any of these names, for every user that the route matches.
    Names(OneOrMany<TextMatch>),
}
