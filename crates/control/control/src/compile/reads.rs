//! Which resources a document depends on.

use std::collections::BTreeSet;

use crate::resources::{Key, Kind, Resource, Spec};

/// The resources that a document was made of. A change of others leaves it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    /// Single resources, whether they are there or not.
    pub keys: BTreeSet<Key>,
    /// Kinds of which every resource counts. Of nodes, those that are no user's device.
    pub kinds: BTreeSet<Kind>,
}

impl Reads {
    /// Whether the document may differ after a change of one resource: from `before` to `after`, of which one may be missing.
    pub fn concern(&self, before: Option<&Resource>, after: Option<&Resource>) -> bool {
        let either = before.into_iter().chain(after);
        either
            .into_iter()
            .any(|resource| self.keys.contains(resource.key()) || self.counts(resource))
    }

    /// Whether the document may differ after a change of these resources, of which nothing but the names is known.
    pub fn any_of(&self, changed: &BTreeSet<Key>) -> bool {
        changed
            .iter()
            .any(|key| self.keys.contains(key) || self.kinds.contains(&key.kind))
    }

    fn counts(&self, resource: &Resource) -> bool {
        let is_device = matches!(resource.spec(), Spec::Node(node) if node.is_device());
        !is_device && self.kinds.contains(&resource.key().kind)
    }
}
