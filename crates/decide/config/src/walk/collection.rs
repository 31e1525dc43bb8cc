//! Maps and lists.

use serde_json::{Map, Value as Json};

use super::{At, Walk};
use crate::Problem;
use crate::nearest;
use crate::path::{child, element};
use crate::tree::{Entry, Node};

impl<'s> Walk<'s> {
    pub(super) fn map(&mut self, schema: &'s Json, entries: &[Entry], at: At<'_>) -> Json {
        let properties = schema.get("properties").and_then(Json::as_object);
        let others = schema.get("additionalProperties");
        let mut meant = Vec::new();
        let mut json = Map::new();

        for entry in entries {
            let path = child(at.path, &entry.key);
            let known = properties.and_then(|properties| properties.get(&entry.key));
            if let Some(schema) = known.or(others.filter(|others| others.is_object())) {
                let inner = At {
                    node: &entry.node,
                    path: &path,
                    place: entry.shown(),
                };
                json.insert(entry.key.clone(), self.value(schema, inner));
            } else if others == Some(&Json::Bool(true)) {
                json.insert(entry.key.clone(), entry.node.json());
            } else if others == Some(&Json::Bool(false)) {
                meant.extend(self.unknown(properties, entry, &path));
            }
        }

        // After the unknown keys: a mistyped key is not reported as missing, too.
        self.missing(schema, entries, &meant, at);
        if let Some(problem) = miscounted(schema, entries.len(), at) {
            return self.wrong(problem);
        }
        Json::Object(json)
    }

    /// Reports an unknown key; returns the key that was probably meant.
    fn unknown(
        &mut self,
        properties: Option<&'s Map<String, Json>>,
        entry: &Entry,
        path: &str,
    ) -> Option<&'s str> {
        let keys = || {
            properties
                .into_iter()
                .flatten()
                .map(|(key, _)| key.as_str())
        };

        // `ca` for `ca_file`: an abbreviation is nearer than any similar name.
        let file = format!("{}_file", entry.key);
        let near = keys()
            .find(|key| **key == file)
            .or_else(|| nearest(&entry.key, keys()));
        let remedy = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if keys().next().is_none() => "there are none here".to_owned(),
            None => format!("keys here are {}", keys().collect::<Vec<_>>().join(", ")),
        };

        self.problems
            .push(Problem::at(&entry.place, path, "unknown key").remedy(remedy));
        near
    }

    /// Reports required keys that are neither given nor mistyped.
    fn missing(&mut self, schema: &'s Json, entries: &[Entry], meant: &[&str], at: At<'_>) {
        for key in required(schema) {
            if meant.contains(&key) || entries.iter().any(|entry| entry.key == key) {
                continue;
            }
            let says = schema
                .get("properties")
                .and_then(|all| all.get(key)?.get("description")?.as_str());
            let remedy = match says {
                Some(says) => format!("add `{key}`: {}", says.trim_end_matches('.')),
                None => format!("add `{key}`"),
            };

            self.problems
                .push(at.problem(format!("`{key}` is missing")).remedy(remedy));
        }
    }

    pub(super) fn list(&mut self, schema: &'s Json, nodes: &[Node], at: At<'_>) -> Json {
        let least = schema.get("minItems").and_then(Json::as_u64).unwrap_or(0);
        if (nodes.len() as u64) < least {
            return self.wrong(
                at.problem("the list is empty")
                    .remedy("write a value, or remove the key"),
            );
        }

        let Some(items) = schema.get("items") else {
            return Json::Array(Vec::new());
        };
        let mut json = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let path = element(at.path, index);
            json.push(self.value(
                items,
                At {
                    node,
                    path: &path,
                    place: &node.place,
                },
            ));
        }

        Json::Array(json)
    }
}

/// The problem with the number of entries of a map.
fn miscounted(schema: &Json, count: usize, at: At<'_>) -> Option<Problem> {
    if bound(schema, "minProperties").is_some_and(|least| count < least) {
        return Some(at.problem("the map is empty").remedy("write a name in it"));
    }
    let most = bound(schema, "maxProperties").filter(|most| count > *most)?;
    let reason = format!("the map has {count} keys, and may have {most}");
    Some(
        at.problem(reason)
            .remedy("write each in a place of its own"),
    )
}

/// A bound on the number of entries.
fn bound(schema: &Json, name: &str) -> Option<usize> {
    usize::try_from(schema.get(name)?.as_u64()?).ok()
}

/// The keys that a map must have.
fn required(schema: &Json) -> impl Iterator<Item = &str> {
    schema
        .get("required")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
}
