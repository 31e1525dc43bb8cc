//! Which proxy sends to which, and the shortest ways between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
struct Links<'t> {
    from: BTreeMap<&'t Name, BTreeMap<&'t Name, WrittenLink<'t>>>,
    to: BTreeMap<&'t Name, BTreeSet<&'t Name>>,
}

/// A link that is written.
#[derive(Clone, Copy)]
pub(crate) struct WrittenLink<'t> {
    /// Its resource.
    pub(crate) key: &'t Key,
    /// The versions of its connections, if it says some.
    pub(crate) http: Option<&'t OneOrMany<HttpVersion>>,
}

/// Shortest ways from every node to the nearest of some goals.
pub(crate) struct Ways<'t> {
    /// Steps to the nearest goal.
    distance: BTreeMap<&'t Name, usize>,
    /// The nodes that each node sends to, the goals behind them, and so their share.
    hops: BTreeMap<&'t Name, Vec<NextHop<'t>>>,
}

/// A node to send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextHop<'t> {
    pub(crate) node: &'t Name,
    /// Its share relative to the others.
    pub(crate) share: u32,
}

impl<'t> Graph<'t> {
    /// The proxies of a tree; links that name none of them are passed over.
    pub(crate) fn new(tree: &'t Tree) -> Self {
        let nodes: BTreeMap<_, _> = tree
            .proxies()
            .map(|(key, node)| (&key.name, node))
            .collect();
        let mut links: Option<Links<'t>> = None;
        for resource in tree.of_kind(Kind::Link) {
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
        Self { nodes, links }
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

    /// The shortest ways to these goals, each with its weight.
    pub(crate) fn ways(&self, goals: &BTreeMap<&'t Name, u32>) -> Ways<'t> {
        let distance = self.distances(goals);
        let mut by_distance: Vec<(usize, &'t Name)> = distance
            .iter()
            .map(|(name, steps)| (*steps, *name))
            .collect();
        by_distance.sort_unstable();

        // Nearer nodes first: the goals behind a node are those behind its next hops.
        let mut behind: BTreeMap<&Name, BTreeSet<&'t Name>> = BTreeMap::new();
        let mut hops = BTreeMap::new();
        for (steps, name) in by_distance {
            if steps == 0 {
                behind.insert(name, BTreeSet::from([name]));
                continue;
            }
            let nearer = |node: &&'t Name| distance.get(*node) == Some(&(steps - 1));
            let next: Vec<&'t Name> = self
                .receivers(name, goals)
                .into_iter()
                .filter(nearer)
                .collect();
            let share = |node: &'t Name| {
                let weights = behind.get(node).into_iter().flatten();
                let weights = weights.filter_map(|goal| goals.get(goal));
                weights.fold(0_u32, |sum, weight| sum.saturating_add(*weight))
            };
            let found: Vec<_> = next
                .iter()
                .map(|node| NextHop {
                    node,
                    share: share(node),
                })
                .collect();
            let all = next.iter().filter_map(|node| behind.get(*node)).flatten();
            let all: BTreeSet<&'t Name> = all.copied().collect();
            behind.insert(name, all);
            hops.insert(name, found);
        }
        Ways { distance, hops }
    }

    /// The nodes that a node may send to. Without links only goals matter, which are one step away from everywhere.
    fn receivers(&self, from: &Name, goals: &BTreeMap<&'t Name, u32>) -> Vec<&'t Name> {
        match &self.links {
            None => goals.keys().copied().filter(|goal| *goal != from).collect(),
            Some(links) => links
                .from
                .get(from)
                .into_iter()
                .flat_map(|to| to.keys().copied())
                .collect(),
        }
    }

    fn distances(&self, goals: &BTreeMap<&'t Name, u32>) -> BTreeMap<&'t Name, usize> {
        let goals = goals.keys().filter(|goal| self.nodes.contains_key(*goal));
        let mut distance: BTreeMap<&'t Name, usize> = goals.map(|goal| (*goal, 0)).collect();
        let Some(links) = &self.links else {
            let is_reached = distance.keys().any(|goal| self.is_reachable(goal));
            if is_reached {
                for name in self.nodes.keys() {
                    distance.entry(name).or_insert(1);
                }
            }
            return distance;
        };

        let mut waiting: VecDeque<&'t Name> = distance.keys().copied().collect();
        while let Some(name) = waiting.pop_front() {
            let steps = distance.get(name).map_or(0, |steps| steps + 1);
            for sender in links.to.get(name).into_iter().flatten() {
                if !distance.contains_key(sender) {
                    distance.insert(sender, steps);
                    waiting.push_back(sender);
                }
            }
        }
        distance
    }

    /// Whether others can connect to a node.
    fn is_reachable(&self, name: &Name) -> bool {
        self.node(name)
            .is_some_and(|node| node.listen.is_some() && !node.reach.is_empty())
    }
}

impl<'t> Ways<'t> {
    /// Whether a node is a goal.
    pub(crate) fn is_goal(&self, node: &Name) -> bool {
        self.distance.get(node) == Some(&0)
    }

    /// Whether a way leads from a node to a goal.
    pub(crate) fn leads_from(&self, node: &Name) -> bool {
        self.distance.contains_key(node)
    }

    /// The nodes that a node sends to; none where it is a goal, or no way leads on.
    pub(crate) fn hops(&self, node: &Name) -> &[NextHop<'t>] {
        self.hops.get(node).map_or(&[], Vec::as_slice)
    }

    /// All nodes on the ways from these, the goals among them.
    pub(crate) fn passed(&self, entries: impl IntoIterator<Item = &'t Name>) -> BTreeSet<&'t Name> {
        let mut passed = BTreeSet::new();
        let mut waiting: Vec<&'t Name> = entries
            .into_iter()
            .filter(|node| self.leads_from(node))
            .collect();
        while let Some(node) = waiting.pop() {
            if passed.insert(node) {
                waiting.extend(self.hops(node).iter().map(|hop| hop.node));
            }
        }
        passed
    }
}
