//! From a path in the document to the place where it is written.

use std::fmt;

use crate::Place;
use crate::path::{Step, steps};
use crate::tree::{Node, Value};

/// Where everything in a document is written.
#[derive(Clone)]
pub struct Places {
    /// `None`: it is not written anywhere.
    root: Option<Node>,
}

impl Places {
    pub(crate) fn new(root: impl Into<Option<Node>>) -> Self {
        let root = root.into();
        Self { root }
    }

    /// Of a document that is not written anywhere.
    pub fn nowhere() -> Self {
        Self::new(None)
    }

    /// The place of a path such as `routes[2].match.target`, `listeners.web.http` or `listeners["a.b"]`.
    ///
    /// What is not written has the place of the nearest thing around it that is.
    pub fn locate(&self, path: &str) -> Option<Place> {
        let mut node = self.root.as_ref()?;
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

        Some(place.clone())
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
        self.node(path).is_some()
    }

    fn node(&self, path: &str) -> Option<&Node> {
        let mut node = self.root.as_ref();
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

impl fmt::Debug for Places {
    /// Values are not shown: variables of the environment may be among them.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Places")
            .field("root", &self.root.as_ref().map(|root| &root.place))
            .finish_non_exhaustive()
    }
}
