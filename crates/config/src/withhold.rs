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
fn placeholder() -> String {
    format!("${{{NOT_SHOWN}}}")
}

/// A text as a file has it, so that reading it expands nothing.
pub(crate) fn escaped(text: &str) -> Option<String> {
    text.contains("${").then(|| text.replace("${", "$${"))
}

/// Where a value stands, without a word for it until one is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Spot<'a> {
    /// At this path.
    At(&'a str),
    /// Under this key of a map.
    Entry(&'a Spot<'a>, &'a str),
    /// At this index of a list.
    Element(&'a Spot<'a>, usize),
}

impl Spot<'_> {
    fn path(&self) -> String {
        match self {
            Self::At(path) => (*path).to_owned(),
            Self::Entry(map, key) => child(&map.path(), key),
            Self::Element(list, index) => element(&list.path(), *index),
        }
    }

    /// The field whose value stands here.
    fn field(&self) -> Option<String> {
        let is_map = |key: &str| FIELDS.contains(&key);
        match self {
            Self::Entry(Self::Entry(_, map), name) => is_map(map).then(|| (*name).to_owned()),
            Self::Entry(Self::Element(..), _) | Self::Element(..) => None,
            Self::Entry(Self::At(_), _) | Self::At(_) => {
                let mut steps = steps(&self.path());
                let last = steps.pop()?;
                let map = steps.pop()?;
                match last {
                    Step::Key(name) if is_map(map.key()) => Some(name),
                    Step::Key(_) | Step::Index(_) => None,
                }
            }
        }
    }
}

/// Whether the value of this text is not to be shown here.
pub(crate) fn is_secret(spot: &Spot<'_>, text: &str) -> bool {
    let Some(name) = spot.field() else {
        return false;
    };
    // An expression is a condition on credentials, and a text of variables alone says none.
    is_named(&name) && !text.starts_with('~') && has_words(text)
}

/// Whether what has this name looks like a credential.
pub(crate) fn is_named(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIALS.contains(&name.as_str()) || SIGNS.iter().any(|sign| name.contains(sign))
}

fn has_words(text: &str) -> bool {
    let is_words = |part: &TemplatePart| matches!(part, TemplatePart::Text(_));
    text.parse()
        .map_or(true, |Template { parts }| parts.iter().any(is_words))
}

/// Replaces every text within `value`, which stands here.
pub(crate) fn replace(
    value: &mut Json,
    spot: &Spot<'_>,
    with: &impl Fn(&Spot<'_>, &str) -> Option<String>,
) {
    match value {
        Json::String(text) => {
            if let Some(other) = with(spot, text) {
                *text = other;
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                replace(item, &Spot::Element(spot, index), with);
            }
        }
        Json::Object(entries) => {
            for (key, entry) in entries.iter_mut() {
                replace(entry, &Spot::Entry(spot, key), with);
            }
        }
        _ => {}
    }
}

/// What stands in the place of a text that is not shown: the variables that it was written with, or the placeholder.
pub(crate) fn instead(places: &Places, spot: &Spot<'_>, text: &str) -> Option<String> {
    let written = variables(places, spot, text);
    written.or_else(|| is_secret(spot, text).then(placeholder))
}

/// The variables that the value of a field was written with, if it still says what came from them.
pub(crate) fn variables(places: &Places, spot: &Spot<'_>, text: &str) -> Option<String> {
    spot.field()?;
    let path = spot.path();
    let (written, expanded) = places.variables(&path)?;
    (expanded == text).then(|| written.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Spot;

    fn is_secret(path: &str, text: &str) -> bool {
        super::is_secret(&Spot::At(path), text)
    }

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
