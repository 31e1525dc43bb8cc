//! Connections from here, beside a next proxy or in its place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::Duration;

/// When a connection is made from here, though the route leads to a next proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DirectPath {
    /// `fallback`: once the next proxy has failed.
    Word(DirectWord),
    /// Also while it takes its time.
    Race(DirectRace),
}

/// When a connection is made from here, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirectWord {
    /// Once the next proxy has failed: it could not be reached, or answers with a status of 500 or more.
    Fallback,
}

/// A race of two ways.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectRace {
    /// The head start of the next proxy, at most `10s`: after it, or once that has failed, the target is dialled from here too, and the way that is
    /// open first wins. Default: it has all the time that it takes, as with `fallback`.
    #[serde(default)]
    pub after: Option<Duration>,
    /// Whether requests have the way, too, and not tunnels alone. Default: false.
    #[serde(default)]
    pub requests: bool,
}

impl DirectPath {
    /// The head start of the next proxy; `None` where it has all the time that it takes.
    #[must_use]
    pub fn after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Word(DirectWord::Fallback) => None,
            Self::Race(race) => race.after.map(|after| after.0),
        }
    }

    /// Whether requests have the way, too.
    #[must_use]
    pub fn takes_requests(&self) -> bool {
        match self {
            Self::Word(DirectWord::Fallback) => false,
            Self::Race(race) => race.requests,
        }
    }
}
