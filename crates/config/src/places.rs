//! From a path in the document to the place where it is written.

use std::fmt;

use crate::Place;
use crate::path::{Step, steps};
use crate::tree::{Node, Value};

/// Where everything in a document is written.
#[derive(Clone)]
pub struct Places {
    root: Node,
}

impl Places {
    pub(crate) fn new(root: Node) -> Self {
        Self { root }
    }

    /// The place of a path such as `routes[2].match.target`, `listeners.web.http` or `listeners["a.b"]`.
    ///
    /// What is not written has the place of the nearest thing around it that is.
    pub fn locate(&self, path: &str) -> Option<Place> {
        let mut node = &self.root;
        let mut place = &self.root.place;
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
        Some(place.clone())
    }

    /// Whether something is written at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let mut node = Some(&self.root);
        for step in steps(path) {
            node = match (node.map(|node| &node.value), step) {
                (Some(Value::Map(_)), Step::Key(key)) => {
                    node.and_then(|node| Some(&node.entry(&key)?.node))
                }
                (Some(Value::List(nodes)), Step::Index(index)) => nodes.get(index),
                _ => None,
            };
        }
        node.is_some()
    }
}

impl fmt::Debug for Places {
    /// Values are not shown: variables of the environment may be among them.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Places")
            .field("root", &self.root.place)
            .finish_non_exhaustive()
    }
}
