//! Changes to fields: remove, set, append.

use hermes_config::model::{FieldPattern, Template};
use hermes_proto::fields::Fields;
use http::header::{HeaderName, HeaderValue};
use indexmap::IndexMap;

use super::{is_reserved, remove_where};
use crate::template::{Values, render};

/// A change that would have made a bad field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field {name}: {reason}")]
pub struct BadField {
    /// The field's name as configured.
    pub name: String,
    /// The mistake; does not reveal the value.
    pub reason: String,
}

impl BadField {
    fn new(name: &str, reason: &str) -> Self {
        Self {
            name: name.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// Changes fields: first `remove`, then `set`, then `append`.
///
/// A value that renders to nothing (without authentication, say) writes no field, though `set`
/// still removes the old one. Space around a value is cut off (RFC 9110, 5.5).
/// [Reserved](super::is_reserved) fields are never removed.
///
/// # Errors
/// When a name is reserved or no field name at all, or a rendered value holds a control character. The fields may have
/// been changed in part then: the exchange is to be refused.
pub fn apply(
    set: &IndexMap<String, Template>,
    append: &IndexMap<String, Template>,
    remove: &[FieldPattern],
    fields: &mut Fields,
    values: &Values<'_>,
) -> Result<(), BadField> {
    if !remove.is_empty() {
        let named = |name: &str| remove.iter().any(|pattern| pattern.matches(name));
        remove_where(fields, |name| named(name) && !is_reserved(name), |_| {});
    }

    for (name, template) in set {
        let (name, value) = field(name, template, values)?;
        fields.remove(&name);
        if let Some(value) = value {
            fields.insert(name, value);
        }
    }

    for (name, template) in append {
        if let (name, Some(value)) = field(name, template, values)? {
            fields.append(name, value);
        }
    }

    Ok(())
}

fn field(
    written: &str,
    template: &Template,
    values: &Values<'_>,
) -> Result<(HeaderName, Option<HeaderValue>), BadField> {
    let name: HeaderName = written
        .parse()
        .map_err(|_| BadField::new(written, "not a field name"))?;
    if is_reserved(name.as_str()) {
        return Err(BadField::new(
            written,
            "belongs to the connection or to the proxy and cannot be changed",
        ));
    }

    let text = render(template, values);
    let Some(value) = field_value(&text) else {
        return Err(BadField::new(
            written,
            "the value would hold a control character",
        ));
    };

    Ok((name, Some(value).filter(|value| !value.is_empty())))
}

/// A field value without space around it; `None` if it holds a control character (RFC 9110, 5.5).
pub(crate) fn field_value(text: &str) -> Option<HeaderValue> {
    let text = text.trim_matches([' ', '\t']);
    if text.chars().any(char::is_control) {
        return None;
    }
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(names: &[&str]) -> Vec<FieldPattern> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn templates(fields: &[(&str, &str)]) -> IndexMap<String, Template> {
        fields
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.parse().unwrap()))
            .collect()
    }

    fn map(fields: &[(&str, &str)]) -> Fields {
        let name = |name: &str| name.parse::<HeaderName>().unwrap();
        let value = |value: &str| value.parse::<HeaderValue>().unwrap();
        let lines = fields.iter();
        lines
            .map(|(field, text)| (name(field), value(text)))
            .collect()
    }

    fn values(user: Option<&str>) -> Values<'_> {
        Values {
            peer: None,
            listener: "web",
            user,
            tls_peer: None,
            target_host: "VIDEO",
            target_port: Some(80),
            node: "n",
            path: "/",
            query: None,
            method: "GET",
        }
    }

    #[test]
    fn removes_then_sets_then_appends() {
        let mut fields = map(&[("a", "old"), ("b", "old"), ("b", "older"), ("c", "old")]);
        let result = apply(
            &templates(&[("b", "{user}")]),
            &templates(&[("a", "new"), ("b", "{listener}")]),
            &patterns(&["a"]),
            &mut fields,
            &values(Some("alice")),
        );
        assert_eq!(result, Ok(()));
        assert_eq!(
            fields,
            map(&[("b", "alice"), ("b", "web"), ("c", "old"), ("a", "new")])
        );
    }

    #[test]
    fn empty_values_write_no_field() {
        let mut fields = map(&[("service", "forged")]);
        let both = templates(&[("service", " {user} ")]);
        assert_eq!(apply(&both, &both, &[], &mut fields, &values(None)), Ok(()));
        assert!(fields.is_empty());
    }

    #[test]
    fn refuses_control_characters_in_rendered_values() {
        for user in ["a\r\nhost: b", "a\0", "a\tb", "a\u{7f}", "a\u{85}b"] {
            let error = apply(
                &templates(&[("service", "{user}")]),
                &IndexMap::new(),
                &[],
                &mut map(&[]),
                &values(Some(user)),
            );
            assert_eq!(
                error.unwrap_err().to_string(),
                "field service: the value would hold a control character"
            );
        }
    }

    #[test]
    fn refuses_reserved_and_impossible_names() {
        for (name, reason) in [
            (
                "Content-Length",
                "belongs to the connection or to the proxy and cannot be changed",
            ),
            (
                "host",
                "belongs to the connection or to the proxy and cannot be changed",
            ),
            ("a b", "not a field name"),
            (":path", "not a field name"),
        ] {
            let error = apply(
                &IndexMap::new(),
                &templates(&[(name, "x")]),
                &[],
                &mut map(&[]),
                &values(None),
            );
            assert_eq!(error.unwrap_err(), BadField::new(name, reason));
        }
    }

    #[test]
    fn wildcards_do_not_remove_reserved_fields() {
        let mut fields = map(&[("content-length", "1"), ("content-type", "a/b")]);
        assert_eq!(
            apply(
                &IndexMap::new(),
                &IndexMap::new(),
                &patterns(&["content-*"]),
                &mut fields,
                &values(None)
            ),
            Ok(())
        );
        assert_eq!(fields, map(&[("content-length", "1")]));
    }

    #[test]
    fn values_may_be_other_than_ascii() {
        let mut fields = map(&[]);
        assert_eq!(
            apply(
                &templates(&[("service", "{user}")]),
                &IndexMap::new(),
                &[],
                &mut fields,
                &values(Some("j\u{fc}rgen"))
            ),
            Ok(())
        );
        assert_eq!(
            fields.get("service").unwrap().as_bytes(),
            "j\u{fc}rgen".as_bytes()
        );
    }
}
