//! The part of a document that can be read although its form is not right, so that its meaning can be checked in the same run.
//!
//! Unreadable parts are left out. Many findings in the rest would only follow from their absence: these are recognised by their paths,
//! and by the names that they quote.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value as Json;

use crate::from_json::from_json;
use crate::model::Document;
use crate::path::{Step, child, element, steps};
use crate::{Places, Problem};

/// Parts left out because the rest of the document needs what is missing in them; with more, nothing of it is checked.
const ATTEMPTS: usize = 64;

/// A document without those of its parts whose form is not right.
#[derive(Debug)]
pub struct SoundPart {
    /// The rest of the document.
    pub document: Document,
    /// Where the parts of the whole document are written.
    pub places: Places,
    left_out: LeftOut,
}

/// The parts of a document that are left out, by their paths in the whole document. A document may have a hundred thousand of them, and
/// as many findings: each finding is looked up, not compared with each part.
#[derive(Debug, Default)]
struct LeftOut {
    paths: BTreeSet<String>,
    /// The keys at the ends of the paths.
    keys: HashSet<String>,
    /// The elements of lists around the parts, such as `routes[4]`, and the beginnings of elements that are parts, such as `routes[`.
    lists: HashSet<String>,
    /// For each list and each of its elements that are left out, in their order: the elements before it that are not.
    kept_before: BTreeMap<String, Vec<usize>>,
}

impl SoundPart {
    /// The JSON of a document without the parts that `problems` are about.
    pub(crate) fn of(mut json: Json, problems: &[Problem], places: Places) -> Option<Self> {
        let mut left_out = LeftOut::default();
        for problem in problems {
            left_out.note(problem.path.clone());
        }
        left_out.take_nulls(&mut json, "");

        // A deserializer stops at its first mistake: each turn takes out one part, and tries again.
        for _ in 0..ATTEMPTS {
            match from_json::<Document>(&json) {
                Ok(document) => {
                    return Some(Self {
                        document,
                        places,
                        left_out,
                    });
                }
                Err(misfit) => left_out.take(&mut json, &misfit.path)?,
            }
        }
        None
    }

    /// The path of a finding in the whole document. `None` if the finding may follow from a part that was left out: it is about that part,
    /// about a part around it, or its words, `said`, quote the name of that part.
    pub fn locate(&self, path: &str, said: &str) -> Option<String> {
        let path = self.left_out.original(path);
        let follows = self.left_out.touches(&path) || self.left_out.is_quoted(said);
        (!follows).then_some(path)
    }
}

impl LeftOut {
    /// Takes out all unreadable values, which are null by now.
    fn take_nulls(&mut self, json: &mut Json, path: &str) {
        match json {
            Json::Object(entries) => entries.retain(|key, value| {
                let path = child(path, key);
                if value.is_null() {
                    self.note(path);
                    return false;
                }
                self.take_nulls(value, &path);
                true
            }),
            Json::Array(elements) => {
                let mut kept = 0;
                let mut index = 0;
                elements.retain_mut(|value| {
                    let own = element(path, index);
                    index += 1;
                    if value.is_null() {
                        self.note(own);
                        self.note_element(path, kept);
                        return false;
                    }
                    self.take_nulls(value, &own);
                    kept += 1;
                    true
                });
            }
            _ => {}
        }
    }

    /// Takes out the part at a path of the rest; `None` if nothing would be left.
    fn take(&mut self, json: &mut Json, path: &str) -> Option<()> {
        let mut steps = steps(path);
        let last = steps.pop()?;
        let mut around = json;
        for step in &steps {
            around = match step {
                Step::Key(key) => around.get_mut(key)?,
                Step::Index(index) => around.get_mut(index)?,
            };
        }

        let original = self.original(path);
        match (around, last) {
            (Json::Object(entries), Step::Key(key)) => {
                entries.remove(&key)?;
                self.note(original);
            }
            (Json::Array(elements), Step::Index(index)) if index < elements.len() => {
                elements.remove(index);
                // The index in the whole document, as later findings are counted against it.
                let list = original.rfind('[').map_or("", |end| &original[..end]);
                self.note_element(list, index);
                self.note(original);
            }
            _ => return None,
        }
        Some(())
    }

    /// This path is one of the parts.
    fn note(&mut self, path: String) {
        if let Some(end) = path.rfind(']') {
            self.lists.insert(path[..=end].to_owned());
        }
        match steps(&path).pop() {
            Some(Step::Key(key)) => drop(self.keys.insert(key)),
            Some(Step::Index(_)) => {
                let list = path.rfind('[').map_or("", |end| &path[..=end]);
                self.lists.insert(list.to_owned());
            }
            None => {}
        }
        self.paths.insert(path);
    }

    /// An element of this list is one of the parts, behind so many that are left.
    fn note_element(&mut self, list: &str, kept: usize) {
        let elements = self.kept_before.entry(list.to_owned()).or_default();
        let at = elements.partition_point(|before| *before <= kept);
        for later in &mut elements[at..] {
            *later -= 1;
        }
        elements.insert(at, kept);
    }

    /// The path in the whole document for a path in the rest.
    fn original(&self, path: &str) -> String {
        let mut original = String::new();
        for step in steps(path) {
            original = match step {
                Step::Key(key) => child(&original, &key),
                Step::Index(index) => {
                    let list = self.kept_before.get(&original);
                    let left_out = list.map_or(0, |list| list.partition_point(|at| *at <= index));
                    element(&original, index + left_out)
                }
            };
        }
        original
    }

    /// Whether a part is at this path, around it or within it.
    fn touches(&self, path: &str) -> bool {
        let ends = path.match_indices(['.', '[']).map(|(end, _)| end);
        let mut around = ends.chain([0, path.len()]).map(|end| &path[..end]);
        let is_around = around.any(|around| self.paths.contains(around));
        let begins = |with: String| {
            let next = self.paths.range(with.clone()..).next();
            next.is_some_and(|next| next.starts_with(&with))
        };
        let is_all = path.is_empty() && !self.paths.is_empty();
        is_around || is_all || begins(format!("{path}.")) || begins(format!("{path}["))
    }

    /// Whether the words quote the key at the end of a path, or speak of the element of a list around it, or of its list, whose indices
    /// are others.
    fn is_quoted(&self, said: &str) -> bool {
        let is_letter = |letter: char| letter.is_alphanumeric() || "_-".contains(letter);
        let quoted = said.split('`').skip(1).step_by(2);
        let mut words = quoted.flat_map(|text| text.split(|letter| !is_letter(letter)));
        if words.any(|word| self.keys.contains(word)) {
            return true;
        }

        let mut paths = said.split(|one: char| one.is_whitespace() || "`(),;".contains(one));
        paths.any(|path| {
            let mut ends = path.match_indices(['[', ']']).map(|(end, _)| end);
            ends.any(|end| self.lists.contains(&path[..=end]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_those_of_the_whole_list() {
        let mut left_out = LeftOut::default();
        let mut json = serde_json::json!({ "a": [null, 1, null, { "b": 2 }, 4] });
        left_out.take_nulls(&mut json, "");
        assert_eq!(json, serde_json::json!({ "a": [1, { "b": 2 }, 4] }));
        assert!(left_out.paths.iter().eq(["a[0]", "a[2]"]));
        assert_eq!(left_out.original("a[1].b"), "a[3].b");

        left_out.take(&mut json, "a[1]").unwrap();
        assert!(left_out.paths.contains("a[3]"));
        assert_eq!(
            [0, 1].map(|index| left_out.original(&element("a", index))),
            ["a[1]", "a[4]"]
        );
        assert_eq!(left_out.take(&mut json, ""), None);
    }

    #[test]
    fn findings_follow_by_their_path_or_by_a_name_that_they_quote() {
        let places = Places::nowhere();
        let problem = |path: &str| Problem {
            place: None,
            path: path.to_owned(),
            reason: String::new(),
            remedy: None,
        };
        let problems = [
            problem("routes[4].match.target"),
            problem("upstreams.core"),
            problem("listeners.web.tls.ca_file"),
        ];
        let json = serde_json::json!({ "version": 1 });
        let part = SoundPart::of(json, &problems, places).unwrap();
        for (path, said) in [
            ("routes[0].to", "there is no upstream `core`"),
            ("upstreams.core.endpoints", "empty"),
            ("listeners.web", "no certificate"),
            ("peers", "add `tls.ca_file`"),
            ("routes[5]", "routes[4] takes everything that it would"),
        ] {
            assert_eq!(part.locate(path, said), None, "{path}");
        }
        let other = "there is no upstream `cor`, the core of all";
        assert_eq!(
            part.locate("routes[0].to", other).as_deref(),
            Some("routes[0].to")
        );
    }
}
