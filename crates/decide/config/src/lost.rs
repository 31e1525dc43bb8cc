//! What of a document could not be read.

use std::collections::BTreeSet;

use crate::path::{Step, steps};

/// Parts of a document that could not be read.
#[derive(Debug, Clone, Default)]
pub struct Lost(BTreeSet<Vec<Step>>);

impl Lost {
    pub(crate) fn new<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        Self(paths.map(steps).collect())
    }

    /// Whether the part was lost, or something around it.
    pub fn covers(&self, part: &[Step]) -> bool {
        (0..=part.len()).any(|length| self.0.contains(&part[..length]))
    }

    /// Whether anything of the part was lost.
    pub fn is_within(&self, part: &[Step]) -> bool {
        self.covers(part)
            || self
                .0
                .range(part.to_vec()..)
                .next()
                .is_some_and(|lost| lost.starts_with(part))
    }

    /// Whether anything of the part at this path was lost.
    pub fn touches(&self, path: &str) -> bool {
        self.is_within(&steps(path))
    }
}
