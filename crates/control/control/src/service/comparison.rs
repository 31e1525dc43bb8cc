//! The consequences of a change that is not made: resources with their fields, documents, and who gains and loses access.

use std::path::Path;
use std::sync::Arc;

use hermes_api::Revision;
use hermes_config::{Change as FieldChange, Kind as ChangeKind, Place, child, element};
use hermes_net::clock::unix_seconds;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::admin::{Apply, applied};
use super::controller::Controller;
use super::difference::Difference;
use super::in_force::compiled;
use super::outcome::NotChanged;
use super::published::Published;
use crate::compile::{AccessChanges, Accessible, Network, access_changes};
use crate::resources::{self, Key, Kind, Resource, Tree};

/// The consequences of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The revision that it was compared with.
    pub base: Revision,
    /// Resources that differ.
    pub resources: Vec<ResourceChange>,
    /// Nodes whose documents differ; `devices` stands for all devices.
    pub documents: Vec<String>,
    /// Nodes that attend and would get another document.
    pub nodes: usize,
    /// Who reaches something else.
    pub access: AccessChanges,
}

/// A resource that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceChange {
    /// The resource, as `Kind/tenant/name`.
    pub resource: String,
    /// Whether it is new, gone, or another one.
    pub kind: ChangeKind,
    /// `FILE:LINE` in what was compared, or where it was written before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The fields of one with another content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl Controller {
    /// Compares files with the state in force. It may take a while, and holds up no one.
    ///
    /// # Errors
    /// The resources, or the documents made of them, are not valid; or the store cannot be read.
    pub fn compare(&self, asked: &Apply) -> Result<Comparison, NotChanged> {
        let before = self.in_force.lock().published.clone();
        let read = resources::read(&asked.sources()).map_err(NotChanged::Invalid)?;
        let read = self.sealed(&read, &asked.secrets)?;
        let tree = applied(&before.tree, asked, &read).map_err(NotChanged::Invalid)?;
        let difference = Difference::between(&before.tree, &tree);
        let domain = &self.about.trust_domain;
        let documents = compiled(&tree, domain, Some(&before)).map_err(NotChanged::Invalid)?;
        let next = Published {
            revision: before.revision.next(),
            tree: Arc::new(tree),
            documents,
            ..(*before).clone()
        };

        let changed = self.described(&difference, &before, &next);
        let members = self.members().map_err(NotChanged::Store)?;
        let users = members.into_iter().filter_map(|member| member.user);
        let users = users.map(|user| user.to_string());
        let access = access_changes(
            &before.accessible(domain),
            &next.accessible(domain),
            users,
            unix_seconds(),
        );
        Ok(Comparison {
            base: before.revision,
            resources: difference.resources(&before.tree, &next.tree),
            documents: changed.documents,
            nodes: changed.nodes,
            access,
        })
    }
}

impl Published {
    /// The state as exchanges walk through it.
    pub(super) fn accessible(&self, domain: &str) -> Accessible<'_> {
        let documents = self.documents.iter();
        let documents =
            documents.map(|(recipient, document)| (recipient, &document.compiled.document));
        Accessible {
            tree: &self.tree,
            network: Network::new(self.domain(domain), documents),
        }
    }

    /// Its trust domain; `domain` is that of an overlay that names none.
    pub(super) fn domain<'a>(&'a self, domain: &'a str) -> &'a str {
        let own = self.tree.overlay();
        let own = own.and_then(|(_, overlay)| overlay.trust_domain.as_deref());
        own.unwrap_or(domain)
    }
}

impl Difference {
    fn resources(&self, before: &Tree, after: &Tree) -> Vec<ResourceChange> {
        let lists = [
            (ChangeKind::Added, &self.added, after),
            (ChangeKind::Changed, &self.changed, after),
            (ChangeKind::Removed, &self.removed, before),
        ];
        let changes = lists.into_iter().flat_map(|(kind, keys, written)| {
            keys.iter().map(move |key| ResourceChange {
                resource: key.to_string(),
                kind,
                place: place(written, key),
                fields: match (before.resource(key), after.resource(key)) {
                    // Sealed anew, its fields always differ.
                    _ if key.kind == Kind::Secret => Vec::new(),
                    (Some(old), Some(new)) => fields(old, new),
                    _ => Vec::new(),
                },
            })
        });
        changes.collect()
    }
}

fn place(tree: &Tree, key: &Key) -> Option<String> {
    tree.place(key, "").map(|place| shown(&place))
}

/// A place as editors take it.
pub(super) fn shown(place: &Place) -> String {
    let file: &Path = &place.file;
    format!("{}:{}", file.display(), place.line)
}

fn fields(old: &Resource, new: &Resource) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    for part in ["metadata", "spec"] {
        differences(
            part,
            Some(&old.to_json()[part]),
            Some(&new.to_json()[part]),
            &mut changes,
        );
    }
    changes
}

/// The differences between two values, by their paths. Lists of one length are compared element by element, others as a whole.
fn differences(path: &str, old: Option<&Json>, new: Option<&Json>, changes: &mut Vec<FieldChange>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Json::Object(old)), Some(Json::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                differences(&child(path, key), old.get(key), new.get(key), changes);
            }
        }
        (Some(Json::Array(old)), Some(Json::Array(new))) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                differences(&element(path, index), Some(old), Some(new), changes);
            }
        }
        (old, new) => changes.push(FieldChange {
            kind: match (old, new) {
                (None, _) => ChangeKind::Added,
                (_, None) => ChangeKind::Removed,
                _ => ChangeKind::Changed,
            },
            path: path.to_owned(),
            from: None,
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}
