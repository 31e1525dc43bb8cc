//! The mistakes of a tree, while it is looked through.

use hermes_api::Name;
use hermes_config::{Problem, nearest};

use crate::resources::{Finding, Findings, Graph, Key, Kind, Tree};

/// A tree, and the mistakes found in it.
pub(super) struct Report<'t> {
    pub(super) tree: &'t Tree,
    pub(super) graph: Graph<'t>,
    pub(super) findings: Findings,
}

impl<'t> Report<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        Self {
            tree,
            graph: Graph::new(tree),
            findings: Findings::default(),
        }
    }

    /// Adds the mistake of a field.
    pub(super) fn add(
        &mut self,
        key: &Key,
        field: &str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let problem = Problem::new(field, reason).remedy(remedy);
        let finding: Finding = self.tree.finding(key, problem);
        self.findings.extend([finding]);
    }

    /// Adds a mistake unless the field names a resource of this kind.
    pub(super) fn refers(&mut self, key: &Key, field: &str, kind: Kind, name: &Name) -> bool {
        let wanted = key.sibling(kind, name);
        if self.tree.resource(&wanted).is_some() {
            return true;
        }
        let known: Vec<&str> = self
            .tree
            .of_kind(kind)
            .map(|resource| resource.key().name.as_str())
            .collect();
        let remedy = instead(name.as_str(), &known, kind);
        let word = kind.word().to_ascii_lowercase();
        self.add(key, field, format!("there is no {word} `{name}`"), remedy);
        false
    }

    /// Adds a mistake unless the field names a proxy.
    pub(super) fn refers_to_proxy(&mut self, key: &Key, field: &str, name: &Name) -> bool {
        if self.graph.node(name).is_some() {
            return true;
        }
        if self.tree.node(name).is_some() {
            let reason = format!("`{name}` is a user's device, and others cannot send to it");
            self.add(key, field, reason, "name a node without `user`");
            return false;
        }
        self.refers(key, field, Kind::Node, name)
    }
}

/// Names in a remedy: more of them help no one.
#[doc(alias = "bound")]
const SHOWN_NAMES: usize = 10;

/// The remedy for an unknown name: the nearest one, or some of those that there are.
pub(super) fn instead(name: &str, known: &[&str], kind: Kind) -> String {
    if let Some(near) = nearest(name, known.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    match known {
        [] => format!("write a resource of the kind {kind}"),
        known if known.len() > SHOWN_NAMES => format!("there are {} others", known.len()),
        known => format!("there are {}", known.join(", ")),
    }
}
