//! Secrets that a document names: `${secret:NAME}` becomes the path of the file that the agent opens it into.

use std::collections::BTreeMap;

use hermes_api::Name;
use hermes_config::{Problem, child, element};
use serde_json::Value as Json;

use super::source_map::SourceMap;
use crate::resources::{Findings, Key, Kind, Spec, Tree};

/// Begins a reference.
const BEGIN: &str = "${secret:";

/// Where the agent has them.
const FOLDER: &str = "${HERMES_SECRETS}";

/// The references of a document, and their boxes.
pub(super) struct SecretsOf<'a> {
    tree: &'a Tree,
    node: &'a Name,
    places: &'a SourceMap,
    /// The boxes of the node, by the names of their files.
    pub(super) boxes: BTreeMap<String, String>,
    pub(super) keys: Vec<Key>,
    findings: Findings,
}

impl<'a> SecretsOf<'a> {
    /// Replaces the references of a node's document.
    ///
    /// # Errors
    /// A secret is not there, or not sealed to the node.
    pub(super) fn resolve(
        tree: &'a Tree,
        node: &'a Name,
        places: &'a SourceMap,
        document: &mut Json,
    ) -> Result<Self, Findings> {
        let mut secrets = Self {
            tree,
            node,
            places,
            boxes: BTreeMap::new(),
            keys: Vec::new(),
            findings: Findings::default(),
        };
        secrets.walk("", document);
        std::mem::take(&mut secrets.findings).or(secrets)
    }

    fn walk(&mut self, path: &str, value: &mut Json) {
        match value {
            Json::String(text) if text.contains(BEGIN) => *text = self.resolved(path, text),
            Json::Array(elements) => {
                for (index, value) in elements.iter_mut().enumerate() {
                    self.walk(&element(path, index), value);
                }
            }
            Json::Object(entries) => {
                for (key, value) in entries.iter_mut() {
                    self.walk(&child(path, key), value);
                }
            }
            _ => {}
        }
    }

    fn resolved(&mut self, path: &str, text: &str) -> String {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(BEGIN) {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            resolved.push_str(before);
            match self.file(path, name) {
                Ok(file) => resolved.push_str(&format!("{FOLDER}/{file}")),
                Err(problem) => {
                    let finding = self.places.finding(self.tree, *problem);
                    self.findings.extend([finding]);
                }
            }
            rest = after;
        }
        resolved.push_str(rest);
        resolved
    }

    /// The file of a secret. A resource means secrets of its own tenant.
    fn file(&mut self, path: &str, name: &str) -> Result<String, Box<Problem>> {
        let problem =
            |reason: String, remedy: &str| Box::new(Problem::new(path, reason).remedy(remedy));
        let bad = || {
            problem(
                format!("`{name}` is no name of a secret"),
                "write ${secret:NAME}",
            )
        };
        let own = Key::new(Kind::Secret, name.parse().map_err(|_| bad())?);
        let source = self.places.locate(path);
        let key = match &source {
            Some(source) => source.key.sibling(Kind::Secret, &own.name),
            None => own,
        };
        self.keys.push(key.clone());
        let Some(Spec::Secret(secret)) = self.tree.resource(&key).map(|secret| secret.spec())
        else {
            return Err(problem(
                format!("there is no {key}"),
                "apply a Secret of this name",
            ));
        };
        let Some(sealed) = secret.sealed.get(self.node) else {
            let reason = format!("{key} is not sealed to the node `{}`", self.node);
            let remedy = "name the node in its `for`, and apply it with its value";
            return Err(problem(reason, remedy));
        };
        let file = key.short();
        self.boxes.insert(file.clone(), sealed.clone());
        Ok(file)
    }
}
