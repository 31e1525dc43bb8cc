//! Paths into a document: `routes[2].match.target`, `listeners["a.b"].http`.

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The entry of a map.
    Key(String),
    /// The element of a list.
    Index(usize),
}

impl Step {
    /// The key; empty for an element.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Key(key) => key,
            Self::Index(_) => "",
        }
    }
}

/// The path of the entry `key` of the map at `path`; keys that would be misread are quoted.
pub fn child(path: &str, key: &str) -> String {
    let misread = |letter: char| {
        matches!(letter, '.' | '[' | ']' | '"' | '\\')
            || letter.is_whitespace()
            || letter.is_control()
    };

    if key.is_empty() || key.contains(misread) {
        return format!("{path}[{}]", serde_json::Value::from(key));
    }
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The path of an element of the list at `path`.
pub fn element(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// The steps of a path; stops at the first that cannot be read.
pub(crate) fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while let Some((step, after)) = step(rest) {
        steps.push(step);
        rest = after;
    }
    steps
}

fn step(path: &str) -> Option<(Step, &str)> {
    if let Some(inner) = path.strip_prefix('[') {
        return if inner.starts_with('"') {
            quoted(inner)
        } else {
            index(inner)
        };
    }

    let name = path.strip_prefix('.').unwrap_or(path);
    let end = name.find(['.', '[']).unwrap_or(name.len());
    (end > 0).then(|| (Step::Key(name[..end].to_owned()), &name[end..]))
}

fn index(inner: &str) -> Option<(Step, &str)> {
    let (digits, rest) = inner.split_once(']')?;
    Some((Step::Index(digits.parse().ok()?), rest))
}

fn quoted(inner: &str) -> Option<(Step, &str)> {
    let mut stream = serde_json::Deserializer::from_str(inner).into_iter::<String>();
    let key = stream.next()?.ok()?;
    let rest = inner.get(stream.byte_offset()..)?.strip_prefix(']')?;
    Some((Step::Key(key), rest))
}

#[cfg(test)]
mod tests {
    use super::{Step, child, element, steps};

    #[test]
    fn paths_are_read_as_they_are_written() {
        for key in ["web", "a.b", "a[0]", "a\"b", "", "x y", "$schema", "\u{fc}"] {
            let path = child(&element(&child("", "routes"), 2), key);
            assert_eq!(
                steps(&path),
                [
                    Step::Key("routes".into()),
                    Step::Index(2),
                    Step::Key(key.into())
                ],
                "{path}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_key_is_read_as_it_is_written(outer in ".{0,6}", index in 0_usize..99, inner in ".{0,6}") {
            let path = child(&element(&child("", &outer), index), &inner);
            proptest::prop_assert_eq!(steps(&path), [Step::Key(outer), Step::Index(index), Step::Key(inner)]);
        }
    }

    #[test]
    fn a_key_with_dots_is_quoted() {
        assert_eq!(child("listeners", "a.b"), "listeners[\"a.b\"]");
    }

    #[test]
    fn a_broken_path_is_read_as_far_as_possible() {
        assert_eq!(steps("a[x].b"), [Step::Key("a".into())]);
        assert_eq!(steps("a..b"), [Step::Key("a".into())]);
        assert_eq!(steps("[\"a"), []);
    }
}
