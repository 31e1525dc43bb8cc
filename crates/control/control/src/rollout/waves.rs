//! The order in which nodes get a stage.

use std::collections::BTreeMap;

use hermes_api::Name;

use super::Wave;

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

/// The waves of one stage: rank by rank; in a rank first one node of each class, then a quarter of all, then the others.
pub fn waves(nodes: &[RankedNode], order: Order) -> Vec<Wave> {
    let mut ranks: BTreeMap<u32, Vec<&RankedNode>> = BTreeMap::new();
    for node in nodes {
        ranks.entry(node.rank).or_default().push(node);
    }
    let mut ranks: Vec<_> = ranks.into_values().collect();
    if order == Order::SendersFirst {
        ranks.reverse();
    }
    ranks.iter().flat_map(|rank| of_rank(rank)).collect()
}

fn of_rank(rank: &[&RankedNode]) -> Vec<Wave> {
    let mut seen = Vec::new();
    let mut canaries = Vec::new();
    let mut others = Vec::new();
    for node in rank {
        if seen.contains(&&node.class) {
            others.push(node.name.clone());
        } else {
            seen.push(&node.class);
            canaries.push(node.name.clone());
        }
    }

    let quarter = rank.len().div_ceil(4).saturating_sub(canaries.len());
    let rest = others.split_off(quarter.min(others.len()));
    let waves = [canaries, others, rest];
    waves.into_iter().filter(|wave| !wave.is_empty()).collect()
}
