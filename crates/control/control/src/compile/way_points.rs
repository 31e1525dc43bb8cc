//! Changes that no order of nodes serves, made resource by resource.
//!
//! Turns part a change by names. Where the ways of one name change places between two nodes, for different users, that is not enough: then the
//! resources that lead there change one after the other, each in an order of its own.

use crate::resources::{Key, Kind, Tree};

/// Kinds of resources that say which way exchanges go, and not whose may pass: whatever of these has changed, no one passes whom the
/// policies of both states refuse.
const MOVES: [Kind; 4] = [Kind::Link, Kind::Name, Kind::Route, Kind::Service];

/// Resources of a change that is parted: each order of them may have to be looked at.
#[doc(alias = "bound")]
const MOST: usize = 6;

/// Whether a change may be parted by its resources.
pub fn is_partible(before: &Tree, after: &Tree) -> bool {
    let keys = before.differing(after);
    (2..=MOST).contains(&keys.len()) && keys.iter().all(|key| MOVES.contains(&key.kind))
}

/// The trees by which a change goes that has no order as a whole: each has one from the tree before it, and so has `after` from the last
/// of them. Empty where it needs none, or none is found. `has_order` compares two trees.
pub fn way_points(
    before: &Tree,
    after: &Tree,
    has_order: &dyn Fn(&Tree, &Tree) -> bool,
) -> Vec<Tree> {
    if !is_partible(before, after) {
        return Vec::new();
    }
    let mut rest = before.differing(after);
    let mut points: Vec<Tree> = Vec::new();
    let mut earlier = before.clone();
    while !has_order(&earlier, after) {
        let steps = rest.iter().map(|key| with(&earlier, after, key));
        let found = steps
            .enumerate()
            .find(|(_, tree)| has_order(&earlier, tree));
        let Some((index, tree)) = found else {
            return Vec::new();
        };
        rest.remove(index);
        points.push(tree.clone());
        earlier = tree;
    }
    points
}

/// A tree with one resource as in another one.
fn with(tree: &Tree, after: &Tree, key: &Key) -> Tree {
    let mut tree = tree.clone();
    match after.resource(key) {
        // One that has no room goes with the last step.
        Some(resource) => drop(tree.insert(resource.clone(), after.origin(key).cloned())),
        None => drop(tree.remove(key)),
    }
    tree
}
