//! The shortest ways to the nodes of a service.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hermes_api::Name;

use super::Graph;

/// Goals of ways, each with its weight.
pub(crate) type Goals<'t> = BTreeMap<&'t Name, u32>;

/// Finds ways, those to the same goals once: many services have the same nodes.
pub(crate) struct WayFinder<'g, 't> {
    graph: &'g Graph<'t>,
    known: BTreeMap<Goals<'t>, Arc<Ways<'t>>>,
}

/// Shortest ways from every node to the nearest of some goals.
pub(crate) struct Ways<'t> {
    goals: Goals<'t>,
    distances: Distances<'t>,
}

/// Steps to the nearest goal.
enum Distances<'t> {
    /// By links that are written.
    Written(BTreeMap<&'t Name, usize>),
    /// Each node sends to each.
    Mesh {
        /// A goal can be connected to, and is one step from everywhere.
        is_reachable: bool,
        /// Nodes that goals attach themselves to: one step from there, and two from everywhere else.
        hubs: BTreeSet<&'t Name>,
    },
}

/// A node to send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextHop<'t> {
    pub(crate) node: &'t Name,
    /// Its share relative to the others.
    pub(crate) share: u32,
}

impl<'g, 't> WayFinder<'g, 't> {
    pub(crate) fn new(graph: &'g Graph<'t>) -> Self {
        Self {
            graph,
            known: BTreeMap::new(),
        }
    }

    /// The shortest ways to these goals; goals that are no proxies are passed over.
    pub(crate) fn ways(&mut self, mut goals: Goals<'t>) -> Arc<Ways<'t>> {
        // Devices cannot be sent to, and unknown nodes are told by the checks.
        goals.retain(|goal, _| self.graph.node(goal).is_some());
        let found = self.known.entry(goals);
        let graph = self.graph;
        found
            .or_insert_with_key(|goals| Arc::new(Ways::new(graph, goals.clone())))
            .clone()
    }
}

impl<'t> Ways<'t> {
    fn new(graph: &Graph<'t>, goals: Goals<'t>) -> Self {
        let distances = match graph.written() {
            Some(links) => Distances::Written(distances(&goals, &links.to)),
            None => Distances::Mesh {
                is_reachable: goals.keys().any(|goal| graph.is_reachable(goal)),
                hubs: goals
                    .keys()
                    .filter_map(|goal| graph.node(goal))
                    .flat_map(|goal| &goal.attach)
                    .filter(|hub| graph.is_reachable(hub))
                    .collect(),
            },
        };
        Self { goals, distances }
    }

    /// Whether a node is a goal.
    pub(crate) fn is_goal(&self, node: &Name) -> bool {
        self.goals.contains_key(node)
    }

    /// Whether a way leads from a node to a goal.
    pub(crate) fn leads_from(&self, node: &Name) -> bool {
        self.distance(node).is_some()
    }

    fn distance(&self, node: &Name) -> Option<usize> {
        match &self.distances {
            _ if self.is_goal(node) => Some(0),
            Distances::Written(distances) => distances.get(node).copied(),
            Distances::Mesh { is_reachable, hubs } => {
                if *is_reachable || hubs.contains(node) {
                    return Some(1);
                }
                (!hubs.is_empty()).then_some(2)
            }
        }
    }

    /// The nodes that a node sends to, with shares by the goals behind them; none where it is a goal, or no way leads on.
    pub(crate) fn hops(&self, graph: &Graph<'t>, node: &Name) -> Vec<NextHop<'t>> {
        let mut known = BTreeMap::new();
        let next = self.nearer(graph, node).into_iter();
        next.map(|next| {
            let behind = self.behind(graph, next, &mut known);
            let weights = behind.iter().filter_map(|goal| self.goals.get(goal));
            NextHop {
                node: next,
                share: weights.fold(0, |sum: u32, weight| sum.saturating_add(*weight)),
            }
        })
        .collect()
    }

    /// The nodes that a node may send to and that are nearer to a goal. So no way comes back to a node.
    fn nearer(&self, graph: &Graph<'t>, node: &Name) -> Vec<&'t Name> {
        let Some(steps) = self.distance(node).and_then(|steps| steps.checked_sub(1)) else {
            return Vec::new();
        };
        match graph.written() {
            // Without links only goals and the nodes that they attach to are on a way.
            None => {
                let hubs = match &self.distances {
                    Distances::Mesh { hubs, .. } if steps > 0 => Some(hubs),
                    _ => None,
                };
                let goals = self.goals.keys().filter(|_| steps == 0);
                let next = goals.chain(hubs.into_iter().flatten());
                next.copied()
                    .filter(|next| graph.sends(node, next))
                    .collect()
            }
            Some(links) => {
                let receivers = links.from.get(node).into_iter().flat_map(BTreeMap::keys);
                receivers
                    .copied()
                    .filter(|next| self.distance(next) == Some(steps))
                    .collect()
            }
        }
    }

    /// The goals that the ways from a node end at. What is known is kept: ways branch and meet again.
    fn behind(
        &self,
        graph: &Graph<'t>,
        node: &'t Name,
        known: &mut BTreeMap<&'t Name, BTreeSet<&'t Name>>,
    ) -> BTreeSet<&'t Name> {
        if self.is_goal(node) {
            return BTreeSet::from([node]);
        }
        if let Some(found) = known.get(node) {
            return found.clone();
        }
        let mut found = BTreeSet::new();
        for next in self.nearer(graph, node) {
            found.extend(self.behind(graph, next, known));
        }
        // Without this the number of ways would count, which grows exponentially with their length.
        known.insert(node, found.clone());
        found
    }

    /// All nodes on the ways from these, the goals among them.
    pub(crate) fn passed(
        &self,
        graph: &Graph<'t>,
        entries: impl IntoIterator<Item = &'t Name>,
    ) -> BTreeSet<&'t Name> {
        let entries = entries.into_iter();
        let mut waiting: Vec<&'t Name> = entries.filter(|node| self.leads_from(node)).collect();
        let mut passed = BTreeSet::new();
        while let Some(node) = waiting.pop() {
            if passed.insert(node) {
                waiting.extend(self.nearer(graph, node));
            }
        }
        passed
    }
}

/// Steps to the nearest goal, found backwards from the goals.
fn distances<'t>(
    goals: &Goals<'t>,
    senders: &BTreeMap<&'t Name, BTreeSet<&'t Name>>,
) -> BTreeMap<&'t Name, usize> {
    let mut distances: BTreeMap<&'t Name, usize> = goals.keys().map(|goal| (*goal, 0)).collect();
    let mut waiting: VecDeque<(&'t Name, usize)> = goals.keys().map(|goal| (*goal, 0)).collect();
    // Breadth first: a node is found on its shortest way, and once.
    while let Some((name, steps)) = waiting.pop_front() {
        for sender in senders.get(name).into_iter().flatten() {
            if !distances.contains_key(sender) {
                distances.insert(sender, steps + 1);
                waiting.push_back((sender, steps + 1));
            }
        }
    }
    distances
}
