//! Fields that say where a request came from.

use hermes_config::model::FieldPattern;
use hermes_proto::fields::Fields;

use super::name_patterns::NamePatterns;
use super::overlay::overlaps;
use super::remove_where;

/// Fields by which proxies tell the origin where a request came from, and which a client could write to be taken for someone
/// else. A name in which `_` stands for `-` counts too: many origins take the two for the same.
#[derive(Debug, Clone)]
pub struct Provenance(NamePatterns);

impl Provenance {
    /// The fields in a document's `provenance`.
    pub fn new(patterns: &[FieldPattern]) -> Self {
        Self(NamePatterns::new(patterns))
    }

    /// Whether this is one of them.
    pub fn covers(&self, name: &str) -> bool {
        self.0.covers(name)
    }

    /// Whether a pattern covers at least one of them.
    pub(crate) fn meets(&self, pattern: &FieldPattern) -> bool {
        self.0.iter().any(|own| overlaps(own, pattern))
    }

    /// Removes those that `keep` does not name.
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
        remove_where(fields, |name| self.covers(name) && !kept(name), removed);
    }
}

#[cfg(test)]
mod tests {
    use hermes_proto::fields::FieldName;

    use super::*;

    fn patterns(names: &[&str]) -> Vec<FieldPattern> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn default() -> Provenance {
        Provenance::new(&hermes_config::model::default_provenance())
    }

    #[test]
    fn what_proxies_write_is_covered_however_it_is_written() {
        for name in [
            "X-Forwarded-For",
            "x-forwarded-host",
            "x_forwarded_for",
            "X-Real-IP",
            "X_Real-Ip",
            "Client-Cert",
            "client_cert_chain",
            "X-Forwarded-Client-Cert",
            "x-ssl-client-dn",
            "ssl-client-verify",
            "True-Client-IP",
            "CF-Connecting-IP",
            "x-client-ip",
            "remote-user",
            "x-original-url",
        ] {
            assert!(default().covers(&name.to_ascii_lowercase()), "{name}");
        }
        for name in [
            "accept",
            "cookie",
            "content-type",
            "referer",
            "te",
            "x-requested-with",
            "x-real",
            "client-hints",
        ] {
            assert!(!default().covers(&name.to_ascii_lowercase()), "{name}");
        }
    }

    #[test]
    fn short_patterns_are_not_passed_over() {
        let all = Provenance::new(&patterns(&["a*", "b", "cd"]));
        for (name, covered) in [
            ("a", true),
            ("ax-y", true),
            ("b", true),
            ("bx", false),
            ("cd", true),
            ("cde", false),
        ] {
            assert_eq!(all.covers(&name.to_ascii_lowercase()), covered, "{name}");
        }
        assert!(!Provenance::new(&[]).covers("x-forwarded-for"));
    }

    #[test]
    fn strip_keeps_what_the_listener_accepts() {
        let mut fields = Fields::new();
        for name in ["x-forwarded-for", "x_forwarded_for", "x-real-ip", "accept"] {
            fields.insert(name, http::HeaderValue::from_static("1"));
        }
        default().strip(&mut fields, &patterns(&["x-forwarded-for"]));
        let mut names: Vec<&str> = fields.names().map(FieldName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "x-forwarded-for"]);
    }
}
