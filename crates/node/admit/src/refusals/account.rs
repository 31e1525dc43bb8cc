//! The account of an exchange, step by step.

use hermes_config::Places;
use hermes_rules::judge::Step;
use serde::{Deserialize, Serialize};

/// The fate of an exchange, or its forecast.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Its request, in words.
    pub question: String,
    /// The node that was asked; `None` for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where it enters; empty for a packet, about which no listener decides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub listener: String,
    /// The steps that were compared, in order.
    pub steps: Vec<Stated>,
    /// Whose it is.
    pub user: Option<String>,
    /// The route that it takes.
    pub route: Option<String>,
    /// The verdict of the egress rules, where the request chose an address.
    pub egress: Option<String>,
    /// Whether it goes on.
    pub allowed: bool,
    /// Why not.
    pub refused: Option<String>,
    /// The status of the answer, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why no lines are told, where none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_lines: Option<String>,
    /// The circumstances, of an exchange that is not only supposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub happened: Option<Happened>,
}

/// One thing that was compared or done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stated {
    /// When, in a word.
    pub phase: String,
    /// Where it is written, as `routes[2].match`.
    pub path: String,
    /// The file and line, as `node.yaml:12`; `None` where no file says it.
    pub place: Option<String>,
    /// The result.
    pub said: String,
}

/// The circumstances of a refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happened {
    /// The name of the refusal.
    pub refusal: String,
    /// The exchange, by its identifier in records; `None` where there was no request.
    pub exchange: Option<String>,
    /// When (RFC 3339, UTC).
    pub time: String,
    /// Where it came from.
    pub source: String,
    /// Where it went.
    pub upstream: Option<String>,
    /// The endpoint of its last attempt.
    pub endpoint: Option<String>,
    /// The later proxy that refused it.
    pub refused_by: Option<Later>,
    /// The revision of the configuration that decided.
    pub revision: u64,
    /// The revision that is in force now, by which the steps are told.
    pub revision_now: u64,
}

/// A refusal of a later proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later {
    /// The proxy.
    pub node: String,
    /// Its name for the refusal.
    pub refusal: Option<String>,
}

impl Stated {
    /// A step, and where that is written.
    pub fn new(step: Step, places: Option<&Places>) -> Self {
        let place = places.and_then(|places| place_of(places, &step.path));
        Self {
            phase: step.phase.word().to_owned(),
            path: step.path,
            place,
            said: step.said,
        }
    }
}

/// Where a path is written, as `node.yaml:12`.
pub fn place_of(places: &Places, path: &str) -> Option<String> {
    let place = places.locate(&places.origin_of(path))?;
    let file = place.file.file_name()?.to_string_lossy();
    Some(format!("{file}:{}", place.line))
}
