//! Secrets in a document: values of fields that look like credentials, or that came from variables.

use serde_json::Value as Json;

use crate::env::NOT_SHOWN;
use crate::model::{Template, TemplatePart};
use crate::path::{Step, child, element, steps};
use crate::places::Places;

/// Maps of fields and their values.
const FIELDS: [&str; 3] = ["set", "append", "fields"];

/// Names of fields whose values are credentials, and what such names have in them.
const CREDENTIALS: [&str; 4] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
];
const SIGNS: [&str; 9] = [
    "access-key",
    "api-key",
    "apikey",
    "credential",
    "passwd",
    "password",
    "private-key",
    "secret",
    "token",
];

/// What stands for a secret. Reading it is an error that says so.
pub(crate) fn placeholder() -> String {
    format!("${{{NOT_SHOWN}}}")
}

/// A text as a file has it, so that reading it expands nothing.
pub(crate) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// Whether the value of this text, at this path, is not to be shown.
pub(crate) fn is_secret(path: &str, text: &str) -> bool {
    let Some(name) = field_of(path) else {
        return false;
    };
    let name = name.to_ascii_lowercase();
    let named =
        CREDENTIALS.contains(&name.as_str()) || SIGNS.iter().any(|sign| name.contains(sign));
    // An expression is a condition on credentials, and a text of variables alone says none.
    named && !text.starts_with('~') && has_words(text)
}

fn has_words(text: &str) -> bool {
    let is_words = |part: &TemplatePart| matches!(part, TemplatePart::Text(_));
    text.parse()
        .map_or(true, |Template { parts }| parts.iter().any(is_words))
}

/// The field whose value stands at this path.
fn field_of(path: &str) -> Option<String> {
    let mut steps = steps(path);
    let last = steps.pop()?;
    let map = steps.pop()?;
    match last {
        Step::Key(name) if FIELDS.contains(&map.key()) => Some(name),
        Step::Key(_) | Step::Index(_) => None,
    }
}

/// Replaces every text within `value`, which stands at `path`.
pub(crate) fn replace(value: &mut Json, path: &str, with: &impl Fn(&str, &str) -> String) {
    match value {
        Json::String(text) => *text = with(path, text),
        Json::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                replace(item, &element(path, index), with);
            }
        }
        Json::Object(entries) => {
            for (key, entry) in entries.iter_mut() {
                replace(entry, &child(path, key), with);
            }
        }
        _ => {}
    }
}

/// The variables that the value of a field was written with, if it still says what came from them.
pub(crate) fn variables<'p>(places: &'p Places, path: &str, text: &str) -> Option<&'p str> {
    field_of(path)?;
    let (written, expanded) = places.variables(path)?;
    (expanded == text).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn credentials_in_fields_are_secrets() {
        for name in ["authorization", "Cookie", "x-api-key", "x-hermes-token"] {
            for map in [
                "listeners.web.set",
                "routes[0].match.fields",
                "routes[2].append",
            ] {
                assert!(
                    is_secret(&format!("{map}.{name}"), "Bearer abc"),
                    "{map}.{name}"
                );
            }
        }
    }

    #[test]
    fn names_expressions_and_plain_variables_are_none() {
        assert!(!is_secret("routes[0].set.service", "video"));
        assert!(!is_secret("routes[0].match.fields.cookie", "~session="));
        assert!(!is_secret("routes[0].set.x-token", "{user}"));
        assert!(!is_secret("identity.token_file", "/etc/hermes/token"));
        assert!(!is_secret("fields[0]", "authorization"));
    }
}
