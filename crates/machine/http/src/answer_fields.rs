//! Fields that any answer to an exchange gets.

use std::fmt;

use hermes_proto::fields::Fields;
use http::{HeaderName, HeaderValue};

/// Fields that the final response to an exchange gets by one decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerFields {
    /// Removed, before anything else.
    pub remove: Vec<NamePattern>,
    /// Set, in place of existing fields.
    pub set: Fields,
    /// Appended.
    pub append: Fields,
    /// Added where the response has no field of the name by then.
    pub if_absent: Fields,
    /// Set where the response has a field of the name by then.
    pub if_present: Fields,
}

/// A field that is known only when the final response is sent, such as the time until then.
pub struct LateField(Box<dyn Fn() -> (HeaderName, HeaderValue) + Send + Sync>);

impl LateField {
    /// One that is made so.
    pub fn new(make: impl Fn() -> (HeaderName, HeaderValue) + Send + Sync + 'static) -> Self {
        Self(Box::new(make))
    }

    pub(crate) fn make(&self) -> (HeaderName, HeaderValue) {
        (self.0)()
    }
}

impl fmt::Debug for LateField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LateField")
    }
}

/// Names of fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    /// The name, or how it begins; in lower case.
    pub prefix: Box<str>,
    /// Whether all names are meant that begin so.
    pub is_wildcard: bool,
    /// Names that are not meant.
    pub except: &'static [&'static str],
}

impl NamePattern {
    fn matches(&self, name: &str) -> bool {
        let is_it = match self.is_wildcard {
            true => name.starts_with(&*self.prefix),
            false => name == &*self.prefix,
        };
        is_it && !self.except.contains(&name)
    }
}

impl AnswerFields {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.each().into_iter().all(Fields::is_empty)
    }

    /// The fields of each kind.
    pub fn each(&self) -> [&Fields; 4] {
        [&self.set, &self.append, &self.if_absent, &self.if_present]
    }

    /// The fields of each kind, to be changed.
    pub fn each_mut(&mut self) -> [&mut Fields; 4] {
        [
            &mut self.set,
            &mut self.append,
            &mut self.if_absent,
            &mut self.if_present,
        ]
    }

    /// Changes the fields of an answer accordingly.
    pub(crate) fn apply(&self, fields: &mut Fields) {
        if !self.remove.is_empty() {
            let named = |name: &str| self.remove.iter().any(|pattern| pattern.matches(name));
            fields.retain(|name| !named(name.as_str()));
        }
        fields.replace(&self.set);
        fields.extend(&self.append);
        fields.extend_absent(&self.if_absent);
        fields.replace_present(&self.if_present);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_static(value));
        }
        fields
    }

    fn answered(decided: Vec<AnswerFields>, lines: &[(&'static str, &'static str)]) -> Fields {
        let mut answer = fields(lines);
        for decided in &decided {
            decided.apply(&mut answer);
        }
        answer
    }

    #[test]
    fn what_is_set_later_counts_and_what_is_appended_stays() {
        let first = AnswerFields {
            set: fields(&[("x-a", "1"), ("x-b", "1")]),
            append: fields(&[("x-c", "1"), ("x-d", "1")]),
            ..AnswerFields::default()
        };
        let second = AnswerFields {
            set: fields(&[("x-b", "2"), ("x-c", "2")]),
            append: fields(&[("x-d", "2")]),
            ..AnswerFields::default()
        };

        let answer = answered(
            vec![first, second],
            &[("x-a", "0"), ("x-d", "0"), ("x-e", "0")],
        );
        let expected = fields(&[
            ("x-d", "0"),
            ("x-e", "0"),
            ("x-a", "1"),
            ("x-d", "1"),
            ("x-b", "2"),
            ("x-c", "2"),
            ("x-d", "2"),
        ]);
        assert_eq!(answer, expected);
    }

    #[test]
    fn what_is_removed_is_so_before_anything_is_set() {
        let pattern = |prefix: &str, is_wildcard| NamePattern {
            prefix: prefix.into(),
            is_wildcard,
            except: &["content-length"],
        };
        let only = AnswerFields {
            remove: vec![pattern("server", false), pattern("content-", true)],
            set: fields(&[("server", "ours")]),
            ..AnswerFields::default()
        };
        assert!(!only.is_empty());
        let lines = [
            ("server", "nginx/1.18"),
            ("server-timing", "a"),
            ("content-length", "0"),
            ("content-type", "text/plain"),
        ];
        let expected = [
            ("server-timing", "a"),
            ("content-length", "0"),
            ("server", "ours"),
        ];
        assert_eq!(answered(vec![only], &lines), fields(&expected));
    }

    #[test]
    fn what_depends_on_what_is_there_sees_what_was_decided_before() {
        let first = AnswerFields {
            if_absent: fields(&[("x-a", "1"), ("x-b", "1")]),
            if_present: fields(&[("x-a", "p"), ("x-c", "p")]),
            ..AnswerFields::default()
        };
        let second = AnswerFields {
            if_absent: fields(&[("x-b", "2"), ("x-d", "2")]),
            if_present: fields(&[("x-b", "q")]),
            ..AnswerFields::default()
        };

        let answer = answered(vec![first, second], &[("x-a", "0")]);
        let expected = fields(&[("x-a", "p"), ("x-d", "2"), ("x-b", "q")]);
        assert_eq!(answer, expected);
    }
}
