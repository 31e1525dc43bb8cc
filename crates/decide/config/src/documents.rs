//! Texts of several documents that `---` divides, as resources are written: each is checked against a schema of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::Value as Json;

use crate::path::{child, element};
use crate::tree::{Node, Value};
use crate::{Place, Places, Problem, schema, walk, yaml};

/// Bytes of one text: a hundred thousand resources have some twenty million.
#[doc(alias = "bound")]
const TEXT_BYTES: usize = 32 << 20;

/// A document as it is written; no variable in it is expanded, and no path is changed.
#[derive(Clone)]
pub struct WrittenDocument(Node);

/// The documents of a text.
#[derive(Default)]
pub struct WrittenDocuments {
    /// Those that can be read, in their order.
    pub documents: Vec<WrittenDocument>,
    /// Violations of YAML, and keys that stand twice in a map.
    pub problems: Vec<Problem>,
}

/// Reads the documents of a text, which problems call `name`.
pub fn read_documents(name: &Path, text: &str) -> WrittenDocuments {
    let mut problems = Vec::new();
    if text.len() > TEXT_BYTES {
        let reason = format!("{} is larger than {} MiB", name.display(), TEXT_BYTES >> 20);
        let problem = Problem::new("", reason).remedy("divide it");
        return WrittenDocuments {
            problems: vec![problem],
            ..WrittenDocuments::default()
        };
    }

    let file: Arc<Path> = name.into();
    let roots = yaml::parse_all(text, &file, &mut problems);
    WrittenDocuments {
        documents: roots.into_iter().map(WrittenDocument).collect(),
        problems,
    }
}

/// The schema of a type that documents of such a text may have.
pub fn schema_of<T: JsonSchema>() -> Json {
    schema::of::<T>()
}

impl WrittenDocument {
    /// The place where it begins.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The text below these keys, the outermost first; `None` if there is none.
    pub fn text(&self, keys: &[&str]) -> Option<&str> {
        let mut node = &self.0;
        for key in keys {
            node = &node.entry(key)?.node;
        }
        match &node.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its content, with the form that this schema demands.
    ///
    /// # Errors
    /// Everything that violates the schema.
    pub fn check(&self, schema: &Json) -> Result<Json, Vec<Problem>> {
        let (json, problems) = walk::read_as_written(schema, &self.0);
        if problems.is_empty() {
            Ok(json)
        } else {
            Err(problems)
        }
    }

    /// The places of its parts.
    pub fn places(&self) -> Places {
        Places::new(self.0.clone())
    }

    /// The place of each part by its path, but for parts in the line of the whole that they belong to.
    pub fn lines(&self) -> BTreeMap<String, Place> {
        let mut lines = BTreeMap::new();
        collect(&self.0, "", self.0.place.line, &mut lines);
        lines
    }
}

fn collect(node: &Node, path: &str, line: usize, lines: &mut BTreeMap<String, Place>) {
    let mut add = |path: String, place: &Place, node: &Node| {
        if place.line != line {
            lines.insert(path.clone(), place.clone());
        }
        collect(node, &path, place.line, lines);
    };
    match &node.value {
        Value::List(nodes) => {
            for (index, node) in nodes.iter().enumerate() {
                add(element(path, index), &node.place, node);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                add(child(path, &entry.key), entry.shown(), &entry.node);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
