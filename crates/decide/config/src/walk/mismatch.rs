//! Values of the wrong kind, and the probable intention.

use serde_json::Value as Json;

use super::{At, Walk, accepts, types};
use crate::Problem;
use crate::model::scalar::{ScalarError, check};
use crate::path::{Step, steps};
use crate::tree::{Node, Value};
use crate::withhold::{is_inline, is_named};

impl<'s> Walk<'s> {
    /// Reports a value of a kind that no alternative takes.
    pub(super) fn mismatch(&mut self, branches: &[&'s Json], at: At<'_>) -> Json {
        let text = branches
            .iter()
            .find(|branch| types(branch).contains(&"string"));
        let problem = match (text, &at.node.plain) {
            (Some(schema), Some(plain)) if let Err(error) = format_of(schema, plain) => {
                Problem::scalar(at.place, at.path, error)
            }
            _ => {
                let problem = at.problem(format!(
                    "expected {}, found {}",
                    expected(branches),
                    found(at)
                ));
                let plain = at.node.plain.as_deref().unwrap_or_default();
                let is_said = !is_inline(at.path) && !is_credential(at.path, plain);
                Problem {
                    remedy: remedy(branches, at.node).filter(|_| is_said),
                    ..problem
                }
            }
        };

        self.wrong(problem)
    }
}

impl<'s> Walk<'s> {
    /// The remedy where a word stands for a map with that key, such as `basic` for
    /// `{ basic: { file: .. } }`, or a path for `{ file: PATH }`.
    pub(super) fn map_form(&self, branches: &[&'s Json], text: &str) -> Option<String> {
        let maps = || {
            branches
                .iter()
                .filter_map(|branch| branch.get("properties")?.as_object())
        };

        if let Some(inner) = maps().find_map(|properties| properties.get(text)) {
            let mut alternatives = Vec::new();
            self.branches(inner, &mut alternatives);
            let keys = alternatives
                .iter()
                .find_map(|inner| inner.get("required")?.as_array());
            let keys: Vec<&str> = keys
                .into_iter()
                .flatten()
                .filter_map(Json::as_str)
                .collect();

            let value = match keys.as_slice() {
                [] => "..".to_owned(),
                keys => format!(
                    "{{ {} }}",
                    keys.iter()
                        .map(|key| format!("{key}: .."))
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            };

            return Some(format!("write a map: {{ {text}: {value} }}"));
        }

        let path =
            text.contains(['/', '.']) && maps().any(|properties| properties.contains_key("file"));
        path.then(|| format!("write a map: {{ file: {text} }}"))
    }
}

fn format_of(schema: &Json, plain: &str) -> Result<(), ScalarError> {
    check(
        schema
            .get("format")
            .and_then(Json::as_str)
            .unwrap_or_default(),
        plain,
    )
}

fn found(at: At<'_>) -> String {
    let node = at.node;
    match (&node.value, &node.plain) {
        (_, Some(_)) if is_inline(at.path) => "a value, which is not shown here".to_owned(),
        (Value::Text(text), _) if is_credential(at.path, text) => {
            "text, which is not shown here".to_owned()
        }
        (Value::Text(text), _) => format!("text `{text}`"),
        (Value::Bool(_), Some(plain)) => format!("`{plain}`"),
        (_, Some(plain)) => format!("the number `{plain}`"),
        _ => node.kind().to_owned(),
    }
}

/// Whether a text in the wrong place could be a password or token: by its key, or by its form, as `user:password` and `Bearer ..`.
fn is_credential(path: &str, text: &str) -> bool {
    const KEYS: [&str; 3] = ["auth", "basic", "bearer"];
    let steps = steps(path);
    let key = steps.last().map(Step::key).unwrap_or_default();
    let by_key = is_named(key) || KEYS.contains(&key) && text.contains([':', ' ']);

    let mut words = text.split_whitespace();
    let scheme = words.next().unwrap_or_default().to_ascii_lowercase();
    let is_scheme = ["basic", "bearer"].contains(&scheme.as_str()) && words.next().is_some();
    let is_pair = text.split_once(':').is_some_and(|(_, after)| {
        let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || b":.[]%".contains(&byte);
        !after.is_empty() && !after.starts_with('/') && !after.bytes().all(is_of_address)
    });

    by_key || is_scheme || is_pair
}

fn expected(branches: &[&Json]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for name in branches.iter().flat_map(|branch| types(branch)) {
        let kind = match name {
            "boolean" => "true or false",
            "integer" => "a whole number",
            "number" => "a number",
            "string" => "text",
            "array" => "a list",
            "object" => "a map",
            _ => continue,
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }

    kinds.join(" or ")
}

fn remedy(branches: &[&Json], node: &Node) -> Option<String> {
    let takes = |kind: &str| branches.iter().any(|branch| types(branch).contains(&kind));
    match (&node.value, &node.plain) {
        (Value::Int(_) | Value::Float(_) | Value::Bool(_), Some(plain)) if takes("string") => {
            Some(format!("write it in quotes: \"{plain}\""))
        }
        (Value::Text(text), None)
            if branches
                .iter()
                .any(|branch| accepts(branch, &Value::of_plain(text))) =>
        {
            Some(format!("remove the quotes: {text}"))
        }
        (Value::Text(text), Some(_)) if takes("boolean") => switch(text),
        (Value::Map(entries), _)
            if takes("string")
                && entries
                    .iter()
                    .all(|entry| matches!(entry.node.value, Value::Null)) =>
        {
            Some("if it begins with `{`, write it in quotes".to_owned())
        }
        (Value::List(_), _) if takes("string") => Some("give one value".to_owned()),
        (_, Some(plain)) if takes("array") => Some(format!("write a list: [{plain}]")),
        _ => described(branches),
    }
}

fn switch(text: &str) -> Option<String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "on" | "y" => Some("write true".to_owned()),
        "no" | "off" | "n" => Some("write false".to_owned()),
        _ => None,
    }
}

/// The description of the only alternative.
fn described(branches: &[&Json]) -> Option<String> {
    let [only] = branches else { return None };
    let text = only.get("description")?.as_str()?;
    Some(format!(
        "here stands {}{}",
        text.get(..1)?.to_ascii_lowercase(),
        text.get(1..)?.trim_end_matches('.')
    ))
}
