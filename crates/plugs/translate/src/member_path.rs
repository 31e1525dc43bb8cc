//! Paths of members: `users[].name.first`, where `[]` is each element of an array.

use std::fmt;
use std::str::FromStr;

/// Steps of a path.
#[doc(alias = "bound")]
const STEPS: usize = 16;

/// A path from a value to parts of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct MemberPath(Vec<PathStep>);

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PathStep {
    /// To the member of this name.
    Member(String),
    /// To each element.
    Each,
}

impl MemberPath {
    /// To the member of this name alone.
    pub(crate) fn of_name(name: &str) -> Self {
        Self(vec![PathStep::Member(name.to_owned())])
    }

    /// The path up to the last `[]`, and the names behind it.
    pub(crate) fn divided(&self) -> (Self, Vec<String>) {
        let each = self.0.iter().rposition(|step| *step == PathStep::Each);
        let (around, names) = self.0.split_at(each.map_or(0, |index| index + 1));
        let names = names.iter().filter_map(|step| match step {
            PathStep::Member(name) => Some(name.clone()),
            PathStep::Each => None,
        });
        (Self(around.to_vec()), names.collect())
    }

    /// The path from each element of the array that it begins with.
    pub(crate) fn within_element(&self) -> Option<Self> {
        match self.0.as_slice() {
            [PathStep::Each, rest @ ..] => Some(Self(rest.to_vec())),
            _ => None,
        }
    }

    /// Its steps.
    pub(crate) fn steps(&self) -> &[PathStep] {
        &self.0
    }

    /// Its names, if it has no `[]`.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        let (around, names) = self.divided();
        around.0.is_empty().then_some(names)
    }
}

impl FromStr for MemberPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let wrong = || format!("`{text}` is no path");
        for part in text.split('.') {
            let name = part.trim_end_matches("[]");
            let is_first = steps.is_empty();
            if name.is_empty() && !(is_first && part.len() > name.len()) {
                return Err(wrong());
            }
            if name.contains(['[', ']']) {
                return Err(wrong());
            }
            if !name.is_empty() {
                steps.push(PathStep::Member(name.to_owned()));
            }
            let each = (part.len() - name.len()) / 2;
            steps.extend(std::iter::repeat_n(PathStep::Each, each));
        }
        match steps.len() > STEPS {
            true => Err(format!("`{text}` has more than {STEPS} steps")),
            false => Ok(Self(steps)),
        }
    }
}

impl fmt::Display for MemberPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Each => out.write_str("[]")?,
                PathStep::Member(name) if index == 0 => out.write_str(name)?,
                PathStep::Member(name) => write!(out, ".{name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_it_is_read() {
        for text in ["a", "a.b", "[]", "[].a", "users[].name.first", "a[][].b"] {
            let path: MemberPath = text.parse().unwrap();
            assert_eq!(path.to_string(), text);
        }
        for text in ["", ".", "a.", ".a", "a..b", "a[", "a[0]", "a.[].b", "a[]b"] {
            assert!(text.parse::<MemberPath>().is_err(), "{text}");
        }
        assert!("a.".repeat(40).parse::<MemberPath>().is_err());
        let path: MemberPath = "users[].name.first".parse().unwrap();
        let (around, names) = path.divided();
        assert_eq!(around.to_string(), "users[]");
        assert_eq!(names, ["name", "first"]);
    }
}
