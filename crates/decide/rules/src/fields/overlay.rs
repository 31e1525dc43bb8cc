//! The fields that have a meaning in the overlay.

use hermes_config::model::FieldPattern;
use hermes_proto::fields::Fields;

use super::{USER, is_reserved, remove_where};

/// The fields that have a meaning in the overlay: never believed from clients, never shown to origins unasked.
///
/// These are the document's `fields`, and always `user`, because Hermes writes it itself. A name in which `_` stands for
/// `-` counts too: many origins take the two for the same. [Reserved](super::is_reserved) fields never do.
#[derive(Debug, Clone)]
pub struct OverlayFields {
    declared: Vec<FieldPattern>,
}

impl OverlayFields {
    /// The overlay fields of a document, from its `fields`.
    pub fn new(declared: &[FieldPattern]) -> Self {
        Self {
            declared: declared.to_vec(),
        }
    }

    /// Whether this is an overlay field.
    pub fn is_overlay(&self, name: &str) -> bool {
        self.is_declared(name)
            || (name.bytes().any(|byte| byte == b'_') && self.is_declared(&name.replace('_', "-")))
    }

    fn is_declared(&self, name: &str) -> bool {
        name == USER.as_str()
            || (self.declared.iter().any(|pattern| pattern.matches(name)) && !is_reserved(name))
    }

    /// Whether a pattern covers at least one overlay field, or one of the fields of traces, which are treated like them.
    pub(crate) fn meets(&self, pattern: &FieldPattern) -> bool {
        let own = ["user", "traceparent", "tracestate"];
        let own = own.map(|name| FieldPattern {
            prefix: name.to_owned(),
            wildcard: false,
        });

        self.declared
            .iter()
            .chain(&own)
            .any(|declared| overlaps(declared, pattern))
    }

    /// Removes the overlay fields that `keep` does not name.
    pub fn strip(&self, fields: &mut Fields, keep: &[FieldPattern]) {
        self.strip_telling(fields, keep, |_| {});
    }

    /// The same; `removed` hears of each line.
    pub fn strip_telling(
        &self,
        fields: &mut Fields,
        keep: &[FieldPattern],
        removed: impl FnMut(&str),
    ) {
        let kept = |name: &str| keep.iter().any(|pattern| pattern.matches(name));
        remove_where(fields, |name| self.is_overlay(name) && !kept(name), removed);
    }
}

/// Whether some name matches both patterns.
pub(super) fn overlaps(one: &FieldPattern, two: &FieldPattern) -> bool {
    match (one.wildcard, two.wildcard) {
        (true, true) => one.prefix.starts_with(&two.prefix) || two.prefix.starts_with(&one.prefix),
        (false, _) => two.matches(&one.prefix),
        (true, false) => one.matches(&two.prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(names: &[&str]) -> Vec<FieldPattern> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn map(fields: &[(&str, &str)]) -> Fields {
        let name = |name: &str| name.parse::<http::HeaderName>().unwrap();
        let value = |value: &str| value.parse::<http::HeaderValue>().unwrap();
        let lines = fields.iter();
        lines
            .map(|(field, text)| (name(field), value(text)))
            .collect()
    }

    fn overlay() -> OverlayFields {
        OverlayFields::new(&patterns(&["service", "x-hermes-*"]))
    }

    #[test]
    fn declared_fields_and_user_are_overlay_fields() {
        for (name, is) in [
            ("service", true),
            ("X-Hermes-Hop", true),
            ("x_hermes_hop", true),
            ("user", true),
            ("user-agent", false),
            ("services", false),
            ("x-hermes", false),
        ] {
            assert_eq!(
                overlay().is_overlay(&name.to_ascii_lowercase()),
                is,
                "{name}"
            );
        }
    }

    #[test]
    fn strip_removes_overlay_fields_that_are_not_kept() {
        let mut fields = map(&[
            ("service", "db"),
            ("service", "x"),
            ("x-hermes-a", "1"),
            ("x-hermes-b", "2"),
            ("accept", "*/*"),
        ]);
        overlay().strip(&mut fields, &patterns(&["x-hermes-a"]));
        assert_eq!(fields, map(&[("x-hermes-a", "1"), ("accept", "*/*")]));
    }

    #[test]
    fn patterns_meet_where_a_name_matches_both() {
        for (pattern, meets) in [
            ("service", true),
            ("serv*", true),
            ("x-*", true),
            ("x-hermes-a*", true),
            ("user", true),
            ("x-b*", false),
            ("colour", false),
        ] {
            assert_eq!(
                overlay().meets(&pattern.parse().unwrap()),
                meets,
                "{pattern}"
            );
        }
    }
}
