//! From a path in the document to the place where it is written.

use std::collections::BTreeMap;
use std::fmt;

use crate::path::{Step, child, element, steps};
use crate::tree::{Node, Value};
use crate::{Place, Problem};

/// Where everything in a document is written.
#[derive(Clone)]
pub struct Places(SourceMap);

#[derive(Clone)]
enum SourceMap {
    /// The document was not written anywhere.
    Nowhere,
    /// The document was read.
    Read(Box<Node>),
    /// The document was made from something else: by path, spelt as [`child`] and [`element`] do.
    Mapped(BTreeMap<String, Place>),
}

impl Places {
    pub(crate) fn new(root: Node) -> Self {
        Self(SourceMap::Read(Box::new(root)))
    }

    /// Of a document that is not written anywhere.
    pub fn nowhere() -> Self {
        Self(SourceMap::Nowhere)
    }

    /// Of a document that was compiled from something else, by paths such as `routes[2].match.target`; the place of the empty path
    /// stands for all else.
    pub fn mapped(places: BTreeMap<String, Place>) -> Self {
        let spelt = |path: &String| prefixes(path).pop().unwrap_or_default();
        let places = places.into_iter();
        let places = places.map(|(path, place)| (spelt(&path), place));
        Self(SourceMap::Mapped(places.collect()))
    }

    /// The place of a path such as `routes[2].match.target`, `listeners.web.http` or `listeners["a.b"]`.
    ///
    /// A value that was not written has the place of the nearest enclosing one that was.
    pub fn locate(&self, path: &str) -> Option<Place> {
        match &self.0 {
            SourceMap::Nowhere => None,
            SourceMap::Read(root) => Some(locate(root, path).clone()),
            SourceMap::Mapped(places) => {
                let around = prefixes(path).into_iter().rev();
                let mut found = around.filter_map(|path| places.get(&path));
                found.next().cloned()
            }
        }
    }

    /// The problem, at the place where its path is written: that of a default, if it was written out from one.
    pub fn placed(&self, problem: Problem) -> Problem {
        let path = self.origin_of(&problem.path);
        Problem {
            place: self.locate(&path),
            path,
            ..problem
        }
    }

    /// The text with variables at this path, and what they were expanded to.
    pub(crate) fn variables(&self, path: &str) -> Option<(&str, &str)> {
        let node = self.node(path)?;
        match (&node.variables, &node.value) {
            (Some(written), Value::Text(expanded)) => Some((written, expanded)),
            _ => None,
        }
    }

    /// Whether something is written at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        match &self.0 {
            SourceMap::Mapped(places) => {
                let spelt = prefixes(path).pop();
                spelt.is_some_and(|path| places.contains_key(&path))
            }
            SourceMap::Nowhere | SourceMap::Read(_) => self.node(path).is_some(),
        }
    }

    fn node(&self, path: &str) -> Option<&Node> {
        let SourceMap::Read(root) = &self.0 else {
            return None;
        };
        let mut node: Option<&Node> = Some(root);
        for step in steps(path) {
            node = match (node.map(|node| &node.value), step) {
                (Some(Value::Map(_)), Step::Key(key)) => {
                    node.and_then(|node| Some(&node.entry(&key)?.node))
                }
                (Some(Value::List(nodes)), Step::Index(index)) => nodes.get(index),
                _ => None,
            };
        }

        node
    }
}

fn locate<'a>(root: &'a Node, path: &str) -> &'a Place {
    let mut node = root;
    let mut place = &node.place;
    for step in steps(path) {
        match (&node.value, step) {
            (Value::Map(_), Step::Key(key)) => {
                let Some(entry) = node.entry(&key) else { break };
                (node, place) = (&entry.node, entry.shown());
            }
            (Value::List(nodes), Step::Index(index)) => {
                let Some(item) = nodes.get(index) else { break };
                (node, place) = (item, &item.place);
            }
            _ => break,
        }
    }

    place
}

/// The empty path, and those of all parts that this path leads through, itself the last.
pub fn prefixes(path: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for step in steps(path) {
        let around = found.last().map_or("", String::as_str);
        let next = match step {
            Step::Key(key) => child(around, &key),
            Step::Index(index) => element(around, index),
        };
        found.push(next);
    }

    found
}

impl fmt::Debug for Places {
    /// Values are not shown: variables of the environment may be among them.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = match &self.0 {
            SourceMap::Read(root) => Some(&root.place),
            SourceMap::Mapped(places) => places.get(""),
            SourceMap::Nowhere => None,
        };
        out.debug_struct("Places")
            .field("root", &root)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_was_compiled_has_the_place_of_what_it_was_made_of() {
        let place = |line| Place::new(Path::new("overlay.yaml"), line, 1);
        let places = Places::mapped(BTreeMap::from([
            ("routes[0]".to_owned(), place(3)),
            ("routes[0].match.target".to_owned(), place(5)),
            ("listeners[\"a.b\"].http".to_owned(), place(9)),
        ]));
        for (path, line) in [
            ("routes[0].match.target", Some(5)),
            ("routes[0].match.target[1]", Some(5)),
            ("routes[0].match.port", Some(3)),
            ("routes[0]", Some(3)),
            ("routes[1].to", None),
            ("listeners[\"a.b\"].http", Some(9)),
            ("listeners", None),
        ] {
            let found = places.locate(path).map(|place| place.line);
            assert_eq!(found, line, "{path}");
        }
        let whole = Places::mapped(BTreeMap::from([(String::new(), place(1))]));
        assert_eq!(whole.locate("routes[7].to"), Some(place(1)));
    }
}
