//! Changes that no order of nodes serves, made by groups of resources.
//!
//! Turns part a change by names. Where the ways of one name change places between two nodes, for different users, that is not enough: then the
//! resources that lead there change in groups, one after the other, each in an order of its own.

use crate::resources::{Key, Kind, Spec, Tree};

/// Kinds of resources that say which way exchanges go, and not whose may pass: whatever of these has changed, no one passes whom the
/// policies of both states refuse.
const MOVES: [Kind; 4] = [Kind::Link, Kind::Name, Kind::Route, Kind::Service];

/// Kinds of resources that say whose exchanges may pass, or where they enter. They change last.
const ADMITS: [Kind; 5] = [
    Kind::Group,
    Kind::Node,
    Kind::Policy,
    Kind::Secret,
    Kind::User,
];

/// Comparisons of two states in search of groups: each compiles an overlay.
#[doc(alias = "bound")]
const TRIES: usize = 48;

/// Whether a change may be parted by its resources.
pub fn is_partible(before: &Tree, after: &Tree) -> bool {
    !movable(before, after).is_empty()
}

/// The trees by which a change goes that has no order as a whole: each has one from the tree before it, and so has `after` from the last
/// of them. Empty where it needs none, or none is found. `has_order` compares two trees.
pub fn way_points(
    before: &Tree,
    after: &Tree,
    has_order: &dyn Fn(&Tree, &Tree) -> bool,
) -> Vec<Tree> {
    let mut search = PointSearch {
        after,
        has_order,
        tries: TRIES,
    };
    let keys = movable(before, after);
    search.points(before, &keys).unwrap_or_default()
}

/// The resources of a change that may change before its others; empty where it cannot be parted.
fn movable(before: &Tree, after: &Tree) -> Vec<Key> {
    let keys = before.differing(after);
    // Which policies an exchange meets would hang on the way that it goes in between.
    if keys.len() < 2 || asks_at_nodes(before) || asks_at_nodes(after) {
        return Vec::new();
    }
    let (moves, others): (Vec<Key>, Vec<Key>) =
        keys.into_iter().partition(|key| MOVES.contains(&key.kind));
    match others.iter().all(|key| ADMITS.contains(&key.kind)) {
        true if others.is_empty() => moves,
        true => moves
            .into_iter()
            .filter(|key| is_for_the_same(key, before, after))
            .collect(),
        false => Vec::new(),
    }
}

/// Whether nodes have policies of their own.
fn asks_at_nodes(tree: &Tree) -> bool {
    tree.of_kind(Kind::Policy)
        .any(|resource| matches!(resource.spec(), Spec::Policy(policy) if !policy.at.is_empty()))
}

/// Whether a resource leads the same exchanges somewhere else than before. Beside other policies, one that leads more exchanges than
/// before could let pass, until these change, whom neither state does.
fn is_for_the_same(key: &Key, before: &Tree, after: &Tree) -> bool {
    let states = [before, after].map(|tree| tree.resource(key).map(|resource| resource.spec()));
    match states {
        [Some(Spec::Name(old)), Some(Spec::Name(new))] => {
            old.name == new.name && old.users == new.users
        }
        [Some(Spec::Route(old)), Some(Spec::Route(new))] => old.matches == new.matches,
        [Some(Spec::Service(_)), Some(Spec::Service(_))] => true,
        _ => false,
    }
}

/// A search for groups of resources that change one after the other.
struct PointSearch<'a> {
    after: &'a Tree,
    has_order: &'a dyn Fn(&Tree, &Tree) -> bool,
    /// Comparisons that are left.
    tries: usize,
}

impl PointSearch<'_> {
    /// The trees between one state and the last; `None` where there are none that have an order.
    fn points(&mut self, before: &Tree, keys: &[Key]) -> Option<Vec<Tree>> {
        if self.has_order(before, self.after) {
            return Some(Vec::new());
        }
        let mut first_steps = Vec::new();
        for (group, rest) in groups(keys) {
            let tree = with(before, self.after, &group);
            if !self.has_order(before, &tree) {
                continue;
            }
            if self.has_order(&tree, self.after) {
                return Some(vec![tree]);
            }
            first_steps.push((tree, rest));
        }
        first_steps.into_iter().find_map(|(tree, rest)| {
            let later = self.points(&tree, &rest)?;
            Some([vec![tree], later].concat())
        })
    }

    fn has_order(&mut self, before: &Tree, after: &Tree) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        (self.has_order)(before, after)
    }
}

/// All of a list, then parts of it, each with its rest: any two elements are on different sides of at least one of them.
fn groups(keys: &[Key]) -> impl Iterator<Item = (Vec<Key>, Vec<Key>)> {
    let all = std::iter::once((keys.to_vec(), Vec::new()));
    let bits = usize::BITS - keys.len().saturating_sub(1).leading_zeros();
    let sides = (0..bits).flat_map(|bit| [(bit, 0), (bit, 1)]);
    let parts = sides.map(move |(bit, side)| {
        let numbered = keys.iter().cloned().enumerate();
        let (group, rest): (Vec<_>, Vec<_>) =
            numbered.partition(|(index, _)| (index >> bit) & 1 == side);
        let keys = |numbered: Vec<(usize, Key)>| numbered.into_iter().map(|(_, key)| key).collect();
        (keys(group), keys(rest))
    });
    all.chain(parts)
}

/// A tree with some resources as in another one.
fn with(tree: &Tree, after: &Tree, keys: &[Key]) -> Tree {
    let mut tree = tree.clone();
    for key in keys {
        match after.resource(key) {
            // One that has no room goes with the last step.
            Some(resource) => drop(tree.insert(resource.clone(), after.origin(key).cloned())),
            None => drop(tree.remove(key)),
        }
    }
    tree
}
