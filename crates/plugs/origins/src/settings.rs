//! The settings of `through: [ { origins: {..} } ]`.

use std::time::Duration;

use hermes_config::model::{ByteSize, Duration as Time};
use hermes_config::{Problem, element};
use http::uri::Authority;
use schemars::JsonSchema;
use serde::Deserialize;

/// Other origins of one function.
#[doc(alias = "bound")]
const OTHERS: usize = 8;

/// Bytes of a piece, where the settings say nothing.
const PIECE: u64 = 1 << 20;

/// The smallest piece: each costs a request.
const LEAST_PIECE: u64 = 64 << 10;

/// How long an origin may send nothing until another is asked.
const STALL: Duration = Duration::from_secs(3);

/// The settings at `through: [ { origins: {..} } ]`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OriginsSettings {
    /// Hosts that have the same objects under the same paths, `cdn.internal` or `mirror.example:8080`: routes of this node lead there. 1 to 8.
    others: Vec<String>,
    /// Bytes of a piece, at least 64KiB; 1MiB.
    #[serde(default)]
    piece: Option<ByteSize>,
    /// How long an origin may send nothing until another is asked for the rest; 3s.
    #[serde(default)]
    stall: Option<Time>,
}

/// The rules, with every default filled in.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) others: Vec<Authority>,
    pub(crate) piece: u64,
    pub(crate) stall: Duration,
}

impl OriginsSettings {
    /// The rules.
    ///
    /// # Errors
    /// All that is wrong.
    pub(crate) fn rules(&self) -> Result<Rules, Vec<Problem>> {
        let mut wrong = Vec::new();
        let mut others = Vec::new();
        for (index, other) in self.others.iter().enumerate() {
            match other.parse::<Authority>() {
                Ok(authority) if !other.contains('@') => others.push(authority),
                _ => {
                    let problem = Problem::new(element("others", index), "no host");
                    wrong.push(problem.remedy("write one, such as `cdn.internal`"));
                }
            }
        }
        if self.others.is_empty() || self.others.len() > OTHERS {
            let problem = Problem::new("others", format!("there are {}", self.others.len()));
            wrong.push(problem.remedy(format!("name 1 to {OTHERS} other origins")));
        }
        let piece = self.piece.map_or(PIECE, |size| size.0);
        if piece < LEAST_PIECE {
            let problem = Problem::new("piece", "smaller than 64KiB");
            wrong.push(problem.remedy("each piece costs a request: write 1MiB"));
        }
        let stall = self.stall.map_or(STALL, |time| time.0);
        match wrong.is_empty() {
            true => Ok(Rules {
                others,
                piece,
                stall,
            }),
            false => Err(wrong),
        }
    }
}
