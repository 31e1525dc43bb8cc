//! From a part of a document to the resource that it comes from.

use std::collections::BTreeMap;

use hermes_config::{Problem, prefixes};

use crate::resources::{Finding, Key, Tree};

/// A field of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceField {
    /// The resource.
    pub key: Key,
    /// The field, such as `spec.rules[0]`.
    pub field: String,
    /// Whether the part of the document is a copy of it, with the same parts below.
    pub is_copy: bool,
}

/// The source of each part of a document, by its path; a part that is not in it comes from the whole around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceMap(pub(super) BTreeMap<String, SourceField>);

impl SourceField {
    /// A part that was made because of a field.
    pub(super) fn made(key: &Key, field: impl Into<String>) -> Self {
        Self {
            key: key.clone(),
            field: field.into(),
            is_copy: false,
        }
    }

    /// A part that is a copy of a field.
    pub(super) fn copied(key: &Key, field: impl Into<String>) -> Self {
        Self {
            is_copy: true,
            ..Self::made(key, field)
        }
    }
}

impl SourceMap {
    /// The field that the part at this path, such as `routes[2].to`, comes from.
    pub fn locate(&self, path: &str) -> Option<SourceField> {
        let around = prefixes(path);
        let (around, source) = around
            .iter()
            .rev()
            .find_map(|path| Some((path, self.0.get(path)?)))?;
        // The part below a copy has the same path in the resource; what was made has no such part.
        let rest = path.get(around.len()..).filter(|_| source.is_copy);
        Some(SourceField {
            field: format!("{}{}", source.field, rest.unwrap_or_default()),
            ..source.clone()
        })
    }

    /// A problem of the document as a mistake in its resource, with file and line where `tree` knows them.
    pub fn finding(&self, tree: &Tree, problem: Problem) -> Finding {
        let Some(source) = self.locate(&problem.path) else {
            return Finding::from(Problem {
                place: None,
                ..problem
            });
        };
        let in_resource = Problem {
            path: source.field,
            ..problem
        };
        tree.finding(&source.key, in_resource)
    }
}
