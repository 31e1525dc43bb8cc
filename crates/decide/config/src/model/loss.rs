//! Recovery of datagrams that a path loses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::Duration;

/// How tunnels of UDP mend the loss of datagrams, between this node and the one where they end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LossRecovery {
    /// `plain`, `auto`, `retransmit`, `parity` or `groups`, with the defaults of the rest.
    Word(LossWord),
    /// The word, and bounds.
    Details(LossDetails),
}

/// The means by which lost datagrams are had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossWord {
    /// None: lost datagrams stay lost, and none waits for another.
    Plain,
    /// As the measured loss and round trip ask for it: sent again where there is time, and else computed from parity.
    #[default]
    Auto,
    /// They are sent again.
    Retransmit,
    /// They are computed from parity, which is sent with the others: no round trip is waited for.
    Parity,
    /// They travel in streams of QUIC, one for the datagrams of each 10 ms, where a hop is of HTTP/3: QUIC sends lost ones again.
    Groups,
}

/// The means, and its bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LossDetails {
    /// The means. Default: auto.
    #[serde(default)]
    pub by: LossWord,
    /// How long datagrams wait for one that is missing: the delay that this adds at most, up to `10s`. Default: 200ms.
    #[serde(default)]
    pub within: Option<Duration>,
    /// How often one datagram is sent again at most, 1 to 20. Default: 5.
    #[serde(default)]
    pub tries: Option<u8>,
    /// Datagrams of parity for each hundred others, 1 to 100. Default: 20; with `auto`, by the measured loss.
    #[serde(default)]
    pub percent: Option<u8>,
}

impl LossRecovery {
    /// The means.
    #[must_use]
    pub fn word(&self) -> LossWord {
        match self {
            Self::Word(word) => *word,
            Self::Details(details) => details.by,
        }
    }

    /// The bounds that are given.
    #[must_use]
    pub fn details(&self) -> Option<&LossDetails> {
        match self {
            Self::Word(_) => None,
            Self::Details(details) => Some(details),
        }
    }
}
