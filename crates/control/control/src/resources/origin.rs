//! Where a resource is written.

use std::collections::BTreeMap;
use std::path::Path;

use hermes_api::canonical;
use hermes_config::{Place, Places, WrittenDocument};
use serde::{Deserialize, Serialize};

/// The file of a resource, and the lines of its parts. It lasts beside the resource and is no part of it: a resource that moves
/// within its file is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The file, as its author named it.
    pub file: String,
    /// The line of the whole, from 1.
    pub line: usize,
    /// Line and column, from 1, of each part by its path, such as `spec.rules[0]`; parts in the line of their whole are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, [usize; 2]>,
}

impl Origin {
    pub(super) fn of(document: &WrittenDocument) -> Self {
        let whole = document.place();
        let lines = document.lines().into_iter();
        Self {
            file: whole.file.display().to_string(),
            line: whole.line,
            parts: lines
                .map(|(path, place)| (path, [place.line, place.column]))
                .collect(),
        }
    }

    /// The JSON by which stores keep it.
    pub fn canonical(&self) -> Vec<u8> {
        // Maps have texts as keys, and numbers are whole: it always has a JSON.
        canonical(&serde_json::to_value(self).unwrap_or_default())
    }

    /// The place of each part.
    pub fn places(&self) -> Places {
        let file = Path::new(&self.file);
        let whole = (String::new(), Place::new(file, self.line, 1));
        let parts = self.parts.iter();
        let parts =
            parts.map(|(path, [line, column])| (path.clone(), Place::new(file, *line, *column)));
        Places::mapped(parts.chain([whole]).collect())
    }
}
