//! Which proxy sends to which.

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::Name;
use hermes_config::model::{HttpVersion, OneOrMany};

use super::specs::{LinkSpec, NodeSpec};
use super::{Key, Kind, Spec, Tree};

/// Proxies, and the links between them.
pub(crate) struct Graph<'t> {
    nodes: BTreeMap<&'t Name, &'t NodeSpec>,
    /// `None`: no link is written, and each node may send to each.
    links: Option<Links<'t>>,
}

/// Links by the node that sends, and by the one that is sent to.
#[derive(Default)]
pub(super) struct Links<'t> {
    pub(super) from: BTreeMap<&'t Name, BTreeMap<&'t Name, WrittenLink<'t>>>,
    pub(super) to: BTreeMap<&'t Name, BTreeSet<&'t Name>>,
}

/// A link that is written.
#[derive(Clone, Copy)]
pub(crate) struct WrittenLink<'t> {
    /// Its resource.
    pub(crate) key: &'t Key,
    /// The versions of its connections, if it says some.
    pub(crate) http: Option<&'t OneOrMany<HttpVersion>>,
}

impl<'t> Graph<'t> {
    /// All proxies of a tree, whosever they are; links that name none of them are passed over.
    pub(crate) fn new(tree: &'t Tree) -> Self {
        Self::made(tree, |_, _| true, |_| true)
    }

    /// The proxies and links that a tenant's exchanges may take: its own, those that the operator shares, and all ingresses.
    pub(crate) fn of(tree: &'t Tree, tenant: &Name) -> Self {
        let is_usable = |key: &Key, node: &NodeSpec| {
            let is_shared = node.ingress || node.tenants.contains(tenant);
            key.tenant == *tenant || (key.is_operators() && is_shared)
        };
        Self::made(tree, is_usable, |link| {
            link.tenant == *tenant || link.is_operators()
        })
    }

    fn made(
        tree: &'t Tree,
        has_node: impl Fn(&Key, &NodeSpec) -> bool,
        has_link: impl Fn(&Key) -> bool,
    ) -> Self {
        let proxies = tree.proxies().filter(|(key, node)| has_node(key, node));
        let nodes: BTreeMap<_, _> = proxies.map(|(key, node)| (&key.name, node)).collect();
        let mut links: Option<Links<'t>> = None;
        let written = tree.of_kind(Kind::Link);
        for resource in written.filter(|resource| has_link(resource.key())) {
            let Spec::Link(LinkSpec { from, to, http }) = resource.spec() else {
                continue;
            };
            let links = links.get_or_insert_default();
            if !nodes.contains_key(from) || !nodes.contains_key(to) || from == to {
                continue;
            }
            let link = WrittenLink {
                key: resource.key(),
                http: http.as_ref(),
            };
            links
                .from
                .entry(from)
                .or_default()
                .entry(to)
                .or_insert(link);
            links.to.entry(to).or_default().insert(from);
        }

        let graph = Self { nodes, links };
        graph.with_attached(tree)
    }

    /// Links to the nodes that attach themselves, beside those that are written.
    fn with_attached(mut self, tree: &'t Tree) -> Self {
        let Some(links) = &mut self.links else {
            return self;
        };
        let proxies = tree.proxies();
        for (key, node) in proxies.filter(|(key, _)| self.nodes.contains_key(&key.name)) {
            for from in node
                .attach
                .iter()
                .filter(|from| self.nodes.contains_key(*from))
            {
                // A link that is written stays as it is: it may say more.
                let link = WrittenLink { key, http: None };
                let receivers = links.from.entry(from).or_default();
                receivers.entry(&key.name).or_insert(link);
                links.to.entry(&key.name).or_default().insert(from);
            }
        }
        self
    }

    /// Whether a node keeps connections to another one, which sends to it by these.
    pub(crate) fn is_attached(&self, node: &Name, to: &Name) -> bool {
        self.node(node).is_some_and(|node| node.attach.contains(to))
    }

    /// The nodes that attach themselves to this one.
    pub(crate) fn attached_to(&self, to: &Name) -> impl Iterator<Item = &'t Name> {
        let attached = self.nodes().filter(|(_, node)| node.attach.contains(to));
        attached.map(|(name, _)| name)
    }

    /// The node of this name.
    pub(crate) fn node(&self, name: &Name) -> Option<&'t NodeSpec> {
        self.nodes.get(name).copied()
    }

    /// All proxies, in the order of their names.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&'t Name, &'t NodeSpec)> {
        self.nodes.iter().map(|(name, node)| (*name, *node))
    }

    /// The link between two nodes, if it is written.
    pub(crate) fn link(&self, from: &Name, to: &Name) -> Option<WrittenLink<'t>> {
        self.links.as_ref()?.from.get(from)?.get(to).copied()
    }

    /// Whether a node sends to another one, if that is on the shortest way.
    pub(super) fn sends(&self, from: &Name, to: &Name) -> bool {
        match &self.links {
            Some(links) => links
                .from
                .get(from)
                .is_some_and(|receivers| receivers.contains_key(to)),
            None => from != to && (self.is_reachable(to) || self.is_attached(to, from)),
        }
    }

    /// The nodes that links lead to from here, and those from where they lead here; `None` where no link is written.
    pub(super) fn written(&self) -> Option<&Links<'t>> {
        self.links.as_ref()
    }

    /// Whether others can connect to a node.
    pub(super) fn is_reachable(&self, name: &Name) -> bool {
        self.node(name)
            .is_some_and(|node| node.listen.is_some() && !node.reach.is_empty())
    }
}
