//! Leaves out redundant values: those that equal the default of the schema.

use serde_json::{Map, Value as Json};

use crate::schema::keep_said;

/// Removes every null, and every entry that equals its default.
pub(crate) fn shorten(schema: &Json, value: &mut Json) {
    keep_said(value);
    Walked { root: schema }.remove(schema, value);
}

/// A walk; every schema that it meets is part of `root`.
struct Walked<'s> {
    root: &'s Json,
}

impl<'s> Walked<'s> {
    fn remove(&self, schema: &'s Json, value: &mut Json) {
        let mut branches = Vec::new();
        self.branches(schema, &mut branches);
        match value {
            Json::Object(entries) => {
                let meant = branches.iter().find(|branch| takes(branch, entries));
                if let Some(meant) = meant {
                    self.of_map(meant, entries);
                }
            }
            Json::Array(items) => {
                let element = branches.iter().find_map(|branch| branch.get("items"));
                if let Some(element) = element {
                    items.iter_mut().for_each(|item| self.remove(element, item));
                }
            }
            _ => {}
        }
    }

    fn of_map(&self, schema: &'s Json, entries: &mut Map<String, Json>) {
        let property = |key: &str| schema.get("properties").and_then(|all| all.get(key));
        entries.retain(|key, value| {
            let default = property(key).and_then(|property| property.get("default"));
            default != Some(value)
        });

        for (key, value) in entries {
            if let Some(schema) = property(key).or_else(|| schema.get("additionalProperties")) {
                self.remove(schema, value);
            }
        }
    }

    /// The alternatives of a schema, references followed.
    fn branches(&self, schema: &'s Json, out: &mut Vec<&'s Json>) {
        let pointer = schema
            .get("$ref")
            .and_then(Json::as_str)
            .and_then(|name| name.strip_prefix('#'));
        if let Some(target) = pointer.and_then(|pointer| self.root.pointer(pointer)) {
            return self.branches(target, out);
        }

        match schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            Some(Json::Array(alternatives)) => alternatives
                .iter()
                .for_each(|alternative| self.branches(alternative, out)),
            _ => out.push(schema),
        }
    }
}

/// Whether the schema is one of maps with these keys.
fn takes(schema: &Json, entries: &Map<String, Json>) -> bool {
    let open = schema
        .get("additionalProperties")
        .is_some_and(Json::is_object);
    let known = schema.get("properties").and_then(Json::as_object);
    open || known.is_some_and(|known| entries.keys().all(|key| known.contains_key(key)))
}
