//! The mistakes of a tree, while it is looked through.

use hermes_api::Name;
use hermes_config::{Problem, nearest};

use crate::resources::finding::TOLD;
use crate::resources::{Finding, Findings, Graph, Key, Kind, Resource, Tree};

/// A tree, and the mistakes found in it.
pub(super) struct Report<'t> {
    pub(super) tree: &'t Tree,
    pub(super) graph: Graph<'t>,
    pub(super) findings: Findings,
    /// Mistakes for which the nearest name is still looked for.
    searches: usize,
    /// Mistakes beyond those that are told.
    untold: usize,
}

impl<'t> Report<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        Self {
            tree,
            graph: Graph::new(tree),
            findings: Findings::default(),
            searches: SEARCHES,
            untold: 0,
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
        // To find the place of each takes much longer than to find the mistake.
        if self.findings.0.len() >= TOLD {
            self.untold += 1;
            return;
        }
        let problem = Problem::new(field, reason).remedy(remedy);
        let finding: Finding = self.tree.finding(key, problem);
        self.findings.extend([finding]);
    }

    /// The mistakes, and how many there are beside them.
    ///
    /// # Errors
    /// There are some.
    pub(super) fn end(self) -> Result<(), Findings> {
        self.findings.first(self.untold).or(())
    }

    /// Adds a mistake unless the field names a resource of this kind.
    pub(super) fn refers(&mut self, key: &Key, field: &str, kind: Kind, name: &Name) -> bool {
        let wanted = key.sibling(kind, name);
        if self.tree.resource(&wanted).is_some() {
            return true;
        }
        let remedy = self.instead(name.as_str(), kind, |report| report.known(key, kind));
        let word = kind.word().to_ascii_lowercase();
        self.add(key, field, format!("there is no {word} `{name}`"), remedy);
        false
    }

    /// The remedy for an unknown name of a kind: the nearest one that is known, or some of those that there are.
    pub(super) fn instead<K: AsRef<str>>(
        &mut self,
        name: &str,
        kind: Kind,
        known: impl FnOnce(&Self) -> Vec<K>,
    ) -> String {
        let Some(left) = self.searches.checked_sub(1) else {
            return format!("write a resource of the kind {kind}");
        };
        self.searches = left;
        let known = known(self);
        let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
        instead(name, &known, kind)
    }

    /// Names of a kind that the author of a resource may know: those of its tenant, and the operator's nodes.
    pub(super) fn known(&self, key: &Key, kind: Kind) -> Vec<&'t str> {
        let is_visible = |other: &Key| {
            other.tenant == key.tenant || (kind == Kind::Node && other.is_operators())
        };
        let resources = self.tree.of_kind(kind).map(Resource::key);
        let visible = resources.filter(|other| is_visible(other));
        visible.map(|other| other.name.as_str()).collect()
    }

    /// A resource, and where it is written.
    pub(super) fn whereabouts(&self, key: &Key) -> String {
        match self.tree.origin(key) {
            Some(origin) => format!("{key} ({}:{})", origin.file, origin.line),
            None => key.to_string(),
        }
    }

    /// Adds a mistake unless the field names a proxy that the resource's tenant may use.
    pub(super) fn refers_to_proxy(&mut self, key: &Key, field: &str, name: &Name) -> bool {
        let node_key = self.tree.node_key(name);
        let found = self.graph.node(name);
        if let Some(node) =
            found.filter(|_| node_key.tenant == key.tenant || node_key.is_operators())
        {
            let is_usable = node_key.tenant == key.tenant || node.tenants.contains(&key.tenant);
            if !is_usable {
                let place = self.whereabouts(&node_key);
                let reason = format!("{place} is not for the tenant `{}`", key.tenant);
                let remedy = format!(
                    "the overlay's operator adds `tenants: [{}]` to it",
                    key.tenant
                );
                self.add(key, field, reason, remedy);
            }
            return is_usable;
        }
        if found.is_some() && key.is_operators() {
            let place = self.whereabouts(&node_key);
            self.add(
                key,
                field,
                format!("{place} is a tenant's own"),
                "name a node of the operator",
            );
            return false;
        }
        if found.is_none() && self.tree.node(name).is_some() {
            let reason = format!("`{name}` is a user's device, and others cannot send to it");
            self.add(key, field, reason, "name a node without `user`");
            return false;
        }
        self.refers(key, field, Kind::Node, name)
    }
}

/// Mistakes of a tree for which the nearest name is looked for: each search goes through all names of a kind.
#[doc(alias = "bound")]
const SEARCHES: usize = 20;

/// Names in a remedy: more of them help no one.
#[doc(alias = "bound")]
const SHOWN_NAMES: usize = 10;

fn instead(name: &str, known: &[&str], kind: Kind) -> String {
    if let Some(near) = nearest(name, known.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    match known {
        [] => format!("write a resource of the kind {kind}"),
        known if known.len() > SHOWN_NAMES => format!("there are {} others", known.len()),
        known => format!("there are {}", known.join(", ")),
    }
}
