//! Changes to the fields of a message.

use hermes_proto::fields::Fields;
use http::{HeaderName, HeaderValue};
use indexmap::IndexMap;

use crate::template::{Scope, Template};
use crate::unfit::Unfit;

/// Changes to fields, in the order in which they are made.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldChanges {
    pub(crate) moves: Vec<FieldMove>,
    pub(crate) values: Vec<(HeaderName, IndexMap<String, Template>)>,
    pub(crate) set: Vec<(HeaderName, Template)>,
    pub(crate) default: Vec<(HeaderName, Template)>,
    pub(crate) remove: Vec<HeaderName>,
}

/// A field that gets another name.
#[derive(Debug, Clone)]
pub(crate) struct FieldMove {
    pub(crate) from: HeaderName,
    pub(crate) to: HeaderName,
}

/// Fields that no mapping touches: they frame a message, or belong to the connection or to this proxy, whose policy has decided by them.
const UNTOUCHED: &[&str] = &[
    "client-cert",
    "client-cert-chain",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "forwarded",
    "host",
    "ipaddress",
    "keep-alive",
    "namespace",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-status",
    "range",
    "service",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user",
    "via",
    "x-real-ip",
];

/// Beginnings of the names of such fields.
const UNTOUCHED_PREFIXES: &[&str] = &["hermes-", "x-forwarded-", "x-hermes-"];

/// The name of a field that a mapping may change.
///
/// # Errors
/// It may not, or is none.
pub(crate) fn field_name(name: &str) -> Result<HeaderName, String> {
    let parsed: HeaderName = name
        .parse()
        .map_err(|_| format!("`{name}` is not the name of a field"))?;
    let text = parsed.as_str();
    let has_prefix = UNTOUCHED_PREFIXES
        .iter()
        .any(|prefix| text.starts_with(prefix));
    match has_prefix || UNTOUCHED.contains(&text) {
        true => Err(format!(
            "`{name}` belongs to the connection or to the proxy, and stays"
        )),
        false => Ok(parsed),
    }
}

impl FieldChanges {
    /// Changes fields.
    ///
    /// # Errors
    /// A value cannot stand in a field.
    pub(crate) fn apply(&self, fields: &mut Fields, scope: &Scope) -> Result<(), Unfit> {
        // All are taken before the first is put back, so that two can change places.
        let mut moved = Vec::new();
        for one in &self.moves {
            let values: Vec<HeaderValue> =
                fields.values(&one.from).map(HeaderValue::from).collect();
            fields.remove(&one.from);
            moved.push((&one.to, values));
        }
        for (name, values) in moved {
            if !values.is_empty() {
                fields.remove(name);
            }
            for value in values {
                fields.append(name, value);
            }
        }

        for (name, values) in &self.values {
            let value = fields.get(name);
            let value = value.and_then(|value| value.to_str().ok().map(str::to_owned));
            let new = value.and_then(|value| values.get(&value)?.plain(scope));
            if let Some(new) = new {
                fields.insert(name, value_of(name, &new)?);
            }
        }
        for (name, template) in &self.set {
            if let Some(text) = template.plain(scope) {
                fields.insert(name, value_of(name, &text)?);
            }
        }
        for (name, template) in &self.default {
            if let Some(text) = template.plain(scope).filter(|_| !fields.contains_key(name)) {
                fields.insert(name, value_of(name, &text)?);
            }
        }
        for name in &self.remove {
            fields.remove(name);
        }
        Ok(())
    }
}

/// A variable may have any text: a line break in it must not become a field.
fn value_of(name: &HeaderName, text: &str) -> Result<HeaderValue, Unfit> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
        let status = http::StatusCode::BAD_REQUEST;
        Unfit::new(
            status,
            format!("the value for `{name}` cannot stand in a field"),
        )
    })
}
