//! Changes to the query of a request.

use std::borrow::Cow;

use hermes_http::{Kind, RequestHead};
use http::uri::PathAndQuery;

/// Parameters of the query that are set and removed. Names are compared as they are meant: `%61` is `a`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryChanges {
    /// Set, in place of present ones of these names. Characters that cannot stand in a query are percent-encoded.
    pub set: Vec<(String, String)>,
    /// Removed, also if it was set.
    pub remove: Vec<String>,
}

/// Why changes to a query are not obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disobeyed {
    /// The request has none: it is a CONNECT. As in Envoy, it goes on without.
    NoQuery,
    /// A parameter cannot be written.
    Unwritable,
}

impl QueryChanges {
    /// Says whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// The path and query that a request has then; `None` if they stay as they are.
    ///
    /// # Errors
    /// Why they are not obeyed.
    pub fn of(&self, head: &RequestHead) -> Result<Option<PathAndQuery>, Disobeyed> {
        if self.is_empty() {
            return Ok(None);
        }

        // The path of another tunnel is its target, in a URI template.
        let has_query = matches!(head.kind(), Kind::Message | Kind::Upgrade);
        let path = head.path.as_ref().map_or("", PathAndQuery::as_str);
        if !has_query || !path.starts_with('/') {
            return match self.set.is_empty() {
                true => Ok(None),
                false => Err(Disobeyed::NoQuery),
            };
        }

        let changed = self.applied(path);
        let changed = PathAndQuery::try_from(changed);
        changed.map(Some).map_err(|_| Disobeyed::Unwritable)
    }

    fn applied(&self, path: &str) -> String {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let is_removed = |name: &str| self.remove.iter().any(|removed| decoded(removed) == name);
        let is_set = |name: &str| self.set.iter().any(|(set, _)| decoded(set) == name);

        let kept = query.split('&').filter(|pair| !pair.is_empty());
        let kept = kept.filter(|pair| {
            let name = decoded(pair.split('=').next().unwrap_or_default());
            !is_removed(&name) && !is_set(&name)
        });
        let mut pairs: Vec<Cow<'_, str>> = kept.map(Cow::Borrowed).collect();

        for (name, value) in &self.set {
            if !is_removed(&decoded(name)) {
                let pair = format!("{}={}", encoded(name, "=&"), encoded(value, "&"));
                pairs.push(Cow::Owned(pair));
            }
        }

        if pairs.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", pairs.join("&"))
        }
    }
}

/// The meaning of a name in a query.
fn decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, byte_of(after)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte that two hexadecimal digits stand for.
fn byte_of(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// A text as a query has it (RFC 3986, section 3.4), without `reserved`. Encoded characters stay.
fn encoded(text: &str, reserved: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let letter = char::from(*byte);
        let is_encoded = letter == '%' && byte_of(&bytes[at + 1..]).is_some();
        let is_plain = letter.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/?".contains(letter);
        if is_encoded || is_plain && !reserved.contains(letter) {
            encoded.push(letter);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changed(path: &str, set: &[(&str, &str)], remove: &[&str]) -> String {
        let text = |text: &&str| (*text).to_owned();
        let changes = QueryChanges {
            set: set
                .iter()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            remove: remove.iter().map(text).collect(),
        };
        changes.applied(path)
    }

    #[test]
    fn parameters_are_set_in_place_of_others_and_removed() {
        assert_eq!(changed("/a", &[("b", "1")], &[]), "/a?b=1");
        assert_eq!(
            changed("/a?b=0&c=2&b=3&d", &[("b", "1")], &[]),
            "/a?c=2&d&b=1"
        );
        assert_eq!(changed("/a?b=0&c&b", &[], &["b"]), "/a?c");
        assert_eq!(changed("/a?b=0", &[], &["b"]), "/a");
        assert_eq!(changed("/a?c", &[("b", "1")], &["b"]), "/a?c");
        let several = [("b", "1"), ("b", "2")];
        assert_eq!(changed("/a?b=0", &several, &[]), "/a?b=1&b=2");
    }

    #[test]
    fn a_name_that_is_written_otherwise_is_the_same() {
        assert_eq!(changed("/?%61dmin=1&b=2", &[], &["admin"]), "/?b=2");
        assert_eq!(changed("/?a+b=1", &[("a%20b", "2")], &[]), "/?a%20b=2");
        assert_eq!(changed("/?a%zz=1", &[], &["a%zz"]), "/");
    }

    #[test]
    fn a_value_adds_no_parameter_and_no_line() {
        assert_eq!(
            changed("/", &[("a", "1&admin=1#x y\r\n%41%\u{e9}")], &[]),
            "/?a=1%26admin=1%23x%20y%0D%0A%41%25%C3%A9"
        );
        assert_eq!(changed("/", &[("a=b&c", "")], &[]), "/?a%3Db%26c=");
    }

    proptest! {
        #[test]
        fn what_is_removed_is_gone_and_what_is_set_is_there_once(
            query in "[a-c%26=&+]{0,24}", name in "[a-c%26=&+é ]{1,6}", value in ".{0,6}",
        ) {
            let path = format!("/?{query}");
            let names = |path: &str| -> Vec<String> {
                let (_, query) = path.split_once('?').unwrap_or((path, ""));
                let pairs = query.split('&').filter(|pair| !pair.is_empty());
                pairs.map(|pair| decoded(pair.split('=').next().unwrap())).collect()
            };
            let set = changed(&path, &[(&name, &value)], &[]);
            prop_assert!(PathAndQuery::try_from(set.as_str()).is_ok(), "{}", set);
            prop_assert_eq!(names(&set).iter().filter(|found| **found == decoded(&name)).count(), 1);
            let removed = changed(&set, &[], &[&name]);
            prop_assert!(!names(&removed).contains(&decoded(&name)), "{}", removed);
        }
    }
}
