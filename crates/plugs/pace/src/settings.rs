//! The settings of pacing: `through: [ { pace: {..} } ]`.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Problem;
use hermes_config::model::{ByteSize, Duration as Time};
use http::uri::Authority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a request waits for its turn, with all that come again.
#[doc(alias = "bound")]
const WAIT: Duration = Duration::from_secs(60);

/// The longest content that is sent again.
#[doc(alias = "bound")]
const KEPT: u64 = 64 << 10;

/// The most that the settings may have kept.
#[doc(alias = "bound")]
const MOST_KEPT: u64 = 16 << 20;

/// What stands at `through: [ { pace: {..} } ]`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PaceSettings {
    /// How its room is known: `learned` (the default) by the origin's own words and by what passes; `atb` and `aatb` by the token buckets of
    /// *Rethinking HTTP API Rate Limiting*.
    mode: Mode,
    /// Whose requests share the room: `origin` (the default), all users' together; `user`, each user's, where an origin counts them apart.
    per: SharedBy,
    /// How long a request waits for its turn, with all that come again; then it gets the origin's refusal, or 429. `Prefer: wait=SECONDS` of
    /// a request makes it shorter. 60s.
    wait: Option<Time>,
    /// The host of a node that keeps the turns of this one and others, as `pace.internal`: it has a route with `handle: pace`, and this node a
    /// route to it. Default: this node's own.
    keeper: Option<String>,
    /// The longest content of a request that is sent again after a refusal; 64KiB.
    kept: Option<ByteSize>,
}

/// How the room of an origin is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// By its words, and by what passes.
    #[default]
    Learned,
    /// An adaptive token bucket.
    Atb,
    /// An adaptive token bucket that knows how many users ask.
    Aatb,
}

impl Mode {
    /// Its name in settings and status.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Learned => "learned",
            Self::Atb => "atb",
            Self::Aatb => "aatb",
        }
    }
}

/// Whose requests share the room of an origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SharedBy {
    /// All users'.
    #[default]
    Origin,
    /// Those of each user.
    User,
}

/// The rules, with every default filled in.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) mode: Mode,
    pub(crate) share: SharedBy,
    pub(crate) wait: Duration,
    pub(crate) keeper: Option<Arc<Authority>>,
    /// Bytes.
    pub(crate) kept: usize,
}

impl PaceSettings {
    /// The rules.
    ///
    /// # Errors
    /// A content that is too long to be kept, a keeper that is no host.
    pub(crate) fn rules(&self) -> Result<Rules, Vec<Problem>> {
        let kept = self.kept.map_or(KEPT, |size| size.0);
        let mut wrong = Vec::new();
        if kept > MOST_KEPT {
            let problem = Problem::new("kept", "longer than 16MiB");
            wrong.push(problem.remedy("longer contents are sent once"));
        }
        let keeper = self.keeper.as_deref().map(str::parse).transpose();
        let keeper: Option<Authority> = keeper.unwrap_or_else(|_| {
            let problem = Problem::new("keeper", "no host");
            wrong.push(problem.remedy("write one, such as `pace.internal`"));
            None
        });
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Rules {
            mode: self.mode,
            share: self.per,
            wait: self.wait.map_or(WAIT, |time| time.0),
            keeper: keeper.map(Arc::new),
            kept: usize::try_from(kept).unwrap_or(usize::MAX),
        })
    }
}
