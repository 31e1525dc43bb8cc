//! Secrets in a document: those that stand in it in place of a file, and values of fields that look like credentials, or that came
//! from variables.

use serde_json::Value as Json;

use crate::env::NOT_SHOWN;
use crate::model::{Template, TemplatePart};
use crate::path::{Step, child, element, steps};
use crate::places::Places;

/// Maps of fields and their values.
const FIELDS: [&str; 3] = ["set", "append", "fields"];

/// The key of a secret that stands in the document.
pub(crate) const INLINE: &str = "inline";

/// Parts of the names of credential fields.
const SIGNS: [&str; 12] = [
    "access-key",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "private-key",
    "secret",
    "signature",
    "token",
];

/// Whole words of such names, between hyphens, underscores and dots.
const WORDS: [&str; 14] = [
    "auth",
    "authentication",
    "bearer",
    "creds",
    "hmac",
    "jwt",
    "key",
    "otp",
    "pass",
    "pin",
    "pwd",
    "session",
    "sid",
    "sig",
];

/// Schemes of credentials (RFC 9110 section 11.4), in fields of any name.
const SCHEMES: [&str; 8] = [
    "apikey ",
    "aws4-",
    "basic ",
    "bearer ",
    "digest ",
    "dpop ",
    "negotiate ",
    "token ",
];

/// Characters of a text without a gap from which on it may be a key: 64 random bits in hexadecimal have 16.
#[doc(alias = "bound")]
const KEY_CHARACTERS: usize = 16;

/// Stands for a secret. Reading it is an error with an explanation.
fn placeholder() -> String {
    format!("${{{NOT_SHOWN}}}")
}

/// A text as a file has it, so that reading it expands nothing.
pub(crate) fn escaped(text: &str) -> Option<String> {
    text.contains("${").then(|| text.replace("${", "$${"))
}

/// The place of a value. Its path is built only when asked for: most values of a document are no secrets.
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

    /// Whether a text stands here in place of a file: `inline`, below a key for file names.
    fn is_inline(&self) -> bool {
        let may_be = match self {
            Self::At(path) => path.ends_with(INLINE),
            Self::Entry(_, key) => *key == INLINE,
            Self::Element(..) => false,
        };
        // The cheap test first: a path is built by allocating.
        may_be && is_inline(&self.path())
    }

    /// The field with this value.
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

/// Whether this is the path of a text that stands in the document in place of a file.
pub(crate) fn is_inline(path: &str) -> bool {
    let mut steps = steps(path);
    let is_last = steps.pop().is_some_and(|last| last.key() == INLINE);
    let mut around = steps
        .iter()
        .rev()
        .map(Step::key)
        .filter(|key| !key.is_empty());
    let names_files = around
        .next()
        .is_some_and(|key| key.ends_with("file") || key == "files");
    // Maps of names that are the operator's, each to such a text.
    let is_in_map = matches!(around.next(), Some("fields" | "client_domains"));
    is_last && (names_files || is_in_map)
}

/// Whether a text must not be shown: its key makes it a secret, its field has a name of credentials, or it looks like one itself.
pub(crate) fn is_secret(spot: &Spot<'_>, text: &str) -> bool {
    let Some(name) = spot.field() else {
        return spot.is_inline();
    };
    // An expression is a condition on credentials, and a text of variables alone reveals none.
    let says_something = !text.starts_with('~') && has_words(text);
    says_something && (is_named(&name) || has_sign_word(&name) || is_credential(text))
}

/// Whether this name looks like that of a credential.
pub(crate) fn is_named(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SIGNS.iter().any(|sign| name.contains(sign))
}

fn has_sign_word(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(['-', '_', '.']);
    words.any(|word| WORDS.contains(&word))
}

/// Whether a value looks like a credential, whatever the field's name: it begins with a scheme, or has a word that looks random.
fn is_credential(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let has_scheme = SCHEMES.iter().any(|scheme| lower.starts_with(scheme));
    let mut words = text.split(|one: char| !one.is_ascii_alphanumeric() && !"+_-".contains(one));
    has_scheme || words.any(is_random)
}

/// A kind of character. Keys change between them, words rarely.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterKind {
    Digit,
    Upper,
    Lower,
}

impl CharacterKind {
    fn of(one: char) -> Option<Self> {
        match one {
            '0'..='9' => Some(Self::Digit),
            'A'..='Z' => Some(Self::Upper),
            'a'..='z' => Some(Self::Lower),
            _ => None,
        }
    }

    /// A word may begin with a capital.
    fn changes_to(self, next: Self) -> bool {
        self != next && (self, next) != (Self::Upper, Self::Lower)
    }
}

/// Whether a word changes between letters, capitals and digits once in six characters, as keys do.
fn is_random(word: &str) -> bool {
    let kinds: Vec<CharacterKind> = word.chars().filter_map(CharacterKind::of).collect();
    let pairs = kinds.iter().zip(kinds.iter().skip(1));
    let changes = pairs.filter(|(one, next)| one.changes_to(**next)).count();
    kinds.len() >= KEY_CHARACTERS && changes * 6 >= kinds.len()
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

/// The replacement for a hidden text: the variables that it was written with, or the placeholder.
pub(crate) fn instead(places: &Places, spot: &Spot<'_>, text: &str) -> Option<String> {
    let written = variables(places, spot, text);
    if !is_secret(spot, text) {
        return written;
    }

    // The default of a variable is the secret itself, and so may be the text beside variables in an
    // inline secret.
    let tells = |written: &String| written.contains(":-") || spot.is_inline() && !is_name(written);
    written
        .filter(|written| !tells(written))
        .or_else(|| Some(placeholder()))
}

/// Whether a text consists of one variable.
fn is_name(written: &str) -> bool {
    let name = written
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['$', '{', '}']))
}

/// Whether a path is one within the settings of a plug, for the node or where the plug is named.
fn is_in_settings(path: &str) -> bool {
    let steps = steps(path);
    let keys: Vec<&str> = steps.iter().map(Step::key).collect();
    matches!(
        keys.as_slice(),
        ["plugs", _, _, ..]
            | ["listeners", _, "ingress", _, ..]
            | ["authorize", _, "filter", _, ..]
            | ["functions", _, _, _, ..]
            | ["routes", _, "handle" | "through", _, ..]
            | ["routes", _, "broadcast", "store", _, ..]
            | ["routes", _, "terminate", "by", _, ..]
    )
}

/// The variables that the value of a field or setting was written with, if it still has their
/// values.
pub(crate) fn variables(places: &Places, spot: &Spot<'_>, text: &str) -> Option<String> {
    let path = spot.path();
    if spot.field().is_none() && !spot.is_inline() && !is_in_settings(&path) {
        return None;
    }
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
    fn a_credential_under_another_name_is_a_secret() {
        for name in [
            "x-functions-key",
            "x_auth",
            "php_session",
            "x-hub-signature-256",
        ] {
            assert!(is_secret(&format!("routes[0].set.{name}"), "abc"), "{name}");
        }
        for value in [
            "Bearer abc",
            "basic YTpi",
            "3f786850e387550fdab836ed7e6dc881",
            "v1.9f8b1c2d3e4f5a6b7c8d",
            "id=7; k=AbC3dE5fG7hI9jK1",
            "eyJhbGciOiJIUzI1NiJ9.e30.sB1",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        ] {
            assert!(is_secret("upstreams.a.set.x-edge", value), "{value}");
        }
    }

    #[test]
    fn values_that_people_write_are_none() {
        for value in [
            "video",
            "max-age=31536000; includeSubDomains; preload",
            "https://cdn.example.org/a-long-path/of-words/2026-11-28",
            "default-src 'self'; img-src https://images1.example.org",
            "2001:db8:85a3:0:0:8a2e:370:7334",
            "Sat, 28 Nov 2026 09:20:25 GMT",
            "text/html; charset=utf-8",
            "hermes.example.org/v2/tenants/north-west-1",
            "0.0.0.0/0, 10.0.0.0/8",
            "1234567890123456",
        ] {
            assert!(!is_secret("routes[0].set.x-edge", value), "{value}");
        }
        assert!(!is_secret("routes[0].set.keep-alive", "timeout=5"));
        assert!(!is_secret("routes[0].set.author", "someone"));
    }

    #[test]
    fn names_expressions_and_plain_variables_are_none() {
        assert!(!is_secret("routes[0].set.service", "video"));
        assert!(!is_secret("routes[0].match.fields.cookie", "~session="));
        assert!(!is_secret("routes[0].set.x-token", "{user}"));
        assert!(!is_secret("identity.token_file", "/etc/hermes/token"));
        assert!(!is_secret("fields[0]", "authorization"));
    }

    #[test]
    fn what_stands_in_place_of_a_file_is_a_secret() {
        for path in [
            "identity.token_file.inline",
            "listeners.web.auth.basic.file.inline",
            "upstreams.a.tls.crl_file[1].inline",
            "listeners.a.tls.client_domains[\"b.test\"].inline",
            "upstreams.a.fields.x-key.inline",
            "authorize[0].rego.files[1].inline",
        ] {
            assert!(is_secret(path, "abc"), "{path}");
        }
        for path in ["upstreams.inline", "groups.inline[0]", "routes[0].name"] {
            assert!(!is_secret(path, "abc"), "{path}");
        }
    }
}
