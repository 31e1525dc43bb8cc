//! Why there is no plan.

use serde::Serialize;
use thiserror::Error;

/// There is no plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Error)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Unplanned {
    /// Attributes cannot be given.
    #[error("{}", gaps_in_words(gaps))]
    Unbridgeable {
        /// The attributes, each with its reason.
        gaps: Vec<Gap>,
    },
    /// No links lead there.
    #[error("no links lead from `{from}` to `{to}`")]
    NoWay {
        /// The place of the first area.
        from: String,
        /// The place of the second.
        to: String,
    },
    /// The search would take too long.
    #[error(
        "the search takes more steps than are allowed; name fewer places in `at` of functions, or divide the file"
    )]
    TooMuchWork,
    /// Too many attributes matter.
    #[error("{attributes} attributes matter to this path, {most} may; divide the area")]
    TooManyAttributes {
        /// Their number.
        attributes: usize,
        /// The bound.
        most: usize,
    },
}

/// An attribute that cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The attribute.
    pub attribute: String,
    /// The reason, in words.
    pub because: String,
    /// Functions that are nearest to giving it; three at most.
    pub nearest: Vec<Candidate>,
}

/// A function that might help, and its obstacle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// The function.
    pub function: String,
    /// What stands against it, in words.
    pub obstacle: String,
}

fn gaps_in_words(gaps: &[Gap]) -> String {
    let words = gaps.iter().map(|gap| {
        let nearest = gap.nearest.iter();
        let nearest: String = nearest
            .map(|candidate| format!("; {}: {}", candidate.function, candidate.obstacle))
            .collect();
        format!("`{}`: {}{nearest}", gap.attribute, gap.because)
    });
    words.collect::<Vec<_>>().join(", and ")
}
