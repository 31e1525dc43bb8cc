//! How tunnels leave on a route, whether those of bytes outlive their path, and how those of UDP mend losses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::direct::DirectPath;
use super::loss::LossRecovery;
use super::resume::Resume;

/// How tunnels of bytes leave. POST is for proxies on the way that do not know CONNECT; Envoy calls
/// it `use_post` and `allow_post`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Tunnel {
    /// `connect`, `connect-tcp`, or `post` with the path that the tunnel came with, or else `/`.
    Word(TunnelWord),
    /// The form, and more.
    Details(TunnelDetails),
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

/// A form, and more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TunnelDetails {
    /// The form. Default: as they came; with `post`, that.
    #[serde(default)]
    pub form: Option<TunnelWord>,
    /// The path of a POST, such as `/tunnel`.
    #[serde(default)]
    pub post: Option<String>,
    /// `true`, or details: tunnels go on when the path to the node where they end breaks or changes, if that node knows how.
    /// Default: false; true for connections to names of the overlay.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// When the client is told that the tunnel is open. Default: opened.
    #[serde(default)]
    pub answer: Option<TunnelAnswer>,
    /// Connect to the target from here, within `egress`, where the next proxy fails (`fallback`) or is slow (`{ after: 250ms }`). Default: never.
    #[serde(default)]
    pub direct: Option<DirectPath>,
    /// How tunnels of UDP mend the loss of datagrams, if the node where they end takes part: `plain`, `auto`, `retransmit`, `parity`, `groups`, or details.
    /// Default: plain where they leave, and `auto` where they end and the other node asks for recovery.
    #[serde(default)]
    pub loss: Option<LossRecovery>,
}

/// When the client of a tunnel is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TunnelAnswer {
    /// Once it is open, or has failed.
    Opened,
    /// At once. A failure is then a reset.
    Early,
}

impl Tunnel {
    /// The form; `None` if tunnels leave in the form in which they came.
    pub fn word(&self) -> Option<TunnelWord> {
        match self {
            Self::Word(word) => Some(*word),
            Self::Details(details) => {
                let post = details.post.as_ref().map(|_| TunnelWord::Post);
                post.or(details.form)
            }
        }
    }

    /// The path of POST, where one is given.
    pub fn path(&self) -> Option<&str> {
        self.details()?.post.as_deref()
    }

    /// Whether they outlive their path, where that is given.
    pub fn resume(&self) -> Option<&Resume> {
        self.details()?.resume.as_ref()
    }

    /// When connections are made from here, though the route leads to a next proxy.
    pub fn direct(&self) -> Option<&DirectPath> {
        self.details()?.direct.as_ref()
    }

    /// How tunnels of UDP mend the loss of datagrams, where that is given.
    pub fn loss(&self) -> Option<&LossRecovery> {
        self.details()?.loss.as_ref()
    }

    /// The keys beside the form.
    pub fn details(&self) -> Option<&TunnelDetails> {
        match self {
            Self::Word(_) => None,
            Self::Details(details) => Some(details),
        }
    }
}
