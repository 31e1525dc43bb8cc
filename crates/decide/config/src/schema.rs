//! The JSON Schema of a document: the loader checks against it, and editors use it for completion.

use std::sync::OnceLock;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::model::Document;

/// The JSON Schema (draft 2020-12) of a document.
///
/// Scalars with a syntax of their own name it in `format` (`hermes-duration`, ...). No value may be null.
pub fn schema() -> Value {
    cached().clone()
}

/// The schema, made once.
pub(crate) fn cached() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = of::<Document>();
        if let Value::Object(root) = &mut schema {
            root.insert("title".into(), "Hermes configuration, version 1".into());
        }

        schema
    })
}

/// The schema of a type.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    without_null(&mut schema);
    schema
}

/// The schema of a type of settings, without references: so it can be part of another schema. A
/// recursive type has no such schema.
pub fn settings_schema<T: JsonSchema>() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    without_null(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.retain(|key, _| key != "$schema" && key != "title");
    }

    schema
}

/// Removes null from everything: a key that may be absent is left away, not set to nothing.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(object) => {
            drop_null_type(object);
            drop_null_branch(object);
            match object.get_mut("default") {
                Some(Value::Null) => drop(object.remove("default")),
                Some(default) => drop(keep_said(default)),
                None => {}
            }

            object.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

/// Removes every null within a value; returns whether the value itself is anything else.
pub(crate) fn keep_said(value: &mut Value) -> bool {
    match value {
        Value::Null => return false,
        Value::Array(items) => items.retain_mut(keep_said),
        Value::Object(entries) => entries.retain(|_, entry| keep_said(entry)),
        _ => {}
    }
    true
}

fn drop_null_type(object: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get_mut("type") else {
        return;
    };
    types.retain(|name| name != "null");
    if let [only] = types.as_slice() {
        let only = only.clone();
        object.insert("type".into(), only);
    }
}

/// `anyOf: [X, null]` becomes X; keys beside it, such as the description, stay.
fn drop_null_branch(object: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = object.get_mut("anyOf") else {
        return;
    };
    branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
    let [Value::Object(only)] = branches.as_slice() else {
        return;
    };

    let only = only.clone();
    object.remove("anyOf");
    for (key, value) in only {
        object.entry(key).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::schema;

    #[test]
    fn no_value_may_be_null() {
        assert!(!schema().to_string().contains("null"));
    }

    #[test]
    fn every_property_is_described() {
        fn check(schema: &serde_json::Value, path: &str) {
            let properties = schema
                .get("properties")
                .and_then(serde_json::Value::as_object)
                .into_iter()
                .flatten();
            for (name, property) in properties {
                assert!(property.get("description").is_some(), "{path}.{name}");
            }
            for (name, inner) in schema
                .get("$defs")
                .and_then(serde_json::Value::as_object)
                .into_iter()
                .flatten()
            {
                check(inner, name);
            }
        }
        check(&schema(), "");
    }
}
