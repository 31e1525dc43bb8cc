//! A document in the making.

use std::collections::BTreeSet;

use hermes_config::{child, element};
use serde_json::{Map, Value as Json, json};

use super::reads::Reads;
use super::source_map::{SourceField, SourceMap};
use super::tenants::NamedGroup;

/// The listener that other nodes and devices connect to.
pub(super) const OVERLAY: &str = "overlay";

/// A document in the making, and the source of each of its parts.
#[derive(Default)]
pub(super) struct Draft {
    root: Map<String, Json>,
    sources: SourceMap,
    /// Groups that it names.
    pub(super) groups: BTreeSet<NamedGroup>,
    /// The parts of the tree that it is made of.
    pub(super) reads: Reads,
}

impl Draft {
    /// A document of this node, which comes from this field unless a part says otherwise.
    pub(super) fn new(node: &str, source: Option<SourceField>) -> Self {
        let mut draft = Self::default();
        draft.root.insert("version".to_owned(), json!(1));
        draft.root.insert("node".to_owned(), json!(node));
        if let Some(source) = source {
            draft.sources.0.insert(String::new(), source);
        }
        draft
    }

    /// Sets a key of the whole.
    pub(super) fn set(&mut self, key: &str, value: Json, source: Option<SourceField>) {
        self.source(key.to_owned(), source);
        self.root.insert(key.to_owned(), value);
    }

    /// Adds an entry to a map of the whole, such as `upstreams`; the first one of a name stays.
    pub(super) fn entry(
        &mut self,
        section: &str,
        name: &str,
        value: Json,
        source: Option<SourceField>,
    ) {
        let entries = self.root.entry(section).or_insert_with(|| json!({}));
        let Some(entries) = entries.as_object_mut() else {
            return;
        };
        if !entries.contains_key(name) {
            entries.insert(name.to_owned(), value);
            self.source(child(section, name), source);
        }
    }

    /// Whether a map of the whole has an entry.
    pub(super) fn has(&self, section: &str, name: &str) -> bool {
        self.root
            .get(section)
            .is_some_and(|entries| entries.get(name).is_some())
    }

    /// Adds an element to a list of the whole, such as `routes`.
    pub(super) fn push(&mut self, section: &str, value: Json, source: Option<SourceField>) {
        let elements = self.root.entry(section).or_insert_with(|| json!([]));
        let Some(elements) = elements.as_array_mut() else {
            return;
        };
        let path = element(section, elements.len());
        elements.push(value);
        self.source(path, source);
    }

    /// The source of a part that is there already.
    pub(super) fn source(&mut self, path: String, source: Option<SourceField>) {
        if let Some(source) = source {
            self.sources.0.insert(path, source);
        }
    }

    /// Whether nothing is in a section.
    pub(super) fn lacks(&self, section: &str) -> bool {
        !self.root.contains_key(section)
    }

    /// The document, and the sources of its parts.
    pub(super) fn finish(self) -> (Json, SourceMap) {
        (Json::Object(self.root), self.sources)
    }
}
