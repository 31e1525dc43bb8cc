//! The order in which nodes get a stage.

use std::collections::BTreeMap;

use hermes_api::Name;

/// The number of a state of the overlay within a change; 0 is the state before it.
pub type Stage = usize;

/// A node that a change concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedNode {
    /// The node.
    pub name: Name,
    /// Hops between it and the ends of the overlay: services have 0, and devices the most.
    pub rank: u32,
    /// Nodes of one class get alike documents.
    pub class: String,
}

/// Which end of the overlay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Something is added: those who receive exchanges know it before those who send them.
    ReceiversFirst,
    /// Something is removed: those who send exchanges forget it before those who receive them.
    SendersFirst,
}

/// Nodes that get a stage together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wave {
    /// The nodes.
    pub nodes: Vec<Name>,
    /// They try it for the others.
    pub is_canary: bool,
}

impl Wave {
    /// All of them at once.
    pub fn of(nodes: impl IntoIterator<Item = Name>) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            is_canary: false,
        }
    }
}

/// The waves of one stage: rank by rank; in a rank first `canaries` nodes of each class, then a quarter of all, then the others.
pub fn waves(nodes: &[RankedNode], order: Order, canaries: usize) -> Vec<Wave> {
    let mut ranks: BTreeMap<u32, Vec<&RankedNode>> = BTreeMap::new();
    for node in nodes {
        ranks.entry(node.rank).or_default().push(node);
    }
    let mut ranks: Vec<_> = ranks.into_values().collect();
    if order == Order::SendersFirst {
        ranks.reverse();
    }
    ranks
        .iter()
        .flat_map(|rank| of_rank(rank, canaries))
        .collect()
}

fn of_rank(rank: &[&RankedNode], canaries: usize) -> Vec<Wave> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut first = Vec::new();
    let mut others = Vec::new();
    for node in rank {
        let of_class = seen.entry(&node.class).or_default();
        *of_class += 1;
        match *of_class <= canaries.max(1) {
            true => first.push(node.name.clone()),
            false => others.push(node.name.clone()),
        }
    }

    let quarter = rank.len().div_ceil(4).saturating_sub(first.len());
    let rest = others.split_off(quarter.min(others.len()));
    let canary = Wave {
        nodes: first,
        is_canary: true,
    };
    let waves = [canary, Wave::of(others), Wave::of(rest)];
    waves
        .into_iter()
        .filter(|wave| !wave.nodes.is_empty())
        .collect()
}
