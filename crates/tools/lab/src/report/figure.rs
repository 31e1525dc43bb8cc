//! The meaning of a number.

use serde::{Deserialize, Serialize};

/// Whether more or less of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times, sizes, failures.
    Less,
    /// Rates.
    More,
}

/// A figure: the meaning of its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name within the case.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
}

impl Figure {
    /// A figure of which less is better.
    pub fn less(name: impl Into<String>, unit: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.to_owned(),
            better: Better::Less,
        }
    }

    /// A figure of which more is better.
    pub fn more(name: impl Into<String>, unit: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.to_owned(),
            better: Better::More,
        }
    }
}
