//! The order of nodes from receivers to senders.

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::Name;

/// Ranks such that each node has a greater one than those that it sends to. Where nodes send to each other in a circle, one of them
/// has to come first: the one that sends to the fewest others.
pub(super) fn ranks<'t>(
    nodes: impl Iterator<Item = &'t Name>,
    senders: &BTreeMap<&'t Name, BTreeSet<&'t Name>>,
) -> BTreeMap<&'t Name, u32> {
    let mut receivers: BTreeMap<&'t Name, BTreeSet<&'t Name>> =
        nodes.map(|node| (node, BTreeSet::new())).collect();
    for (receiver, senders) in senders {
        for sender in senders {
            receivers.entry(sender).or_default().insert(receiver);
        }
    }

    let mut ranks = BTreeMap::new();
    let mut rank = 0;
    while !receivers.is_empty() {
        let mut next: Vec<&'t Name> = receivers
            .iter()
            .filter(|(_, to)| to.is_empty())
            .map(|(node, _)| *node)
            .collect();
        // Nodes that send to each other: one of them has to go first.
        if next.is_empty() {
            let fewest = receivers.iter().min_by_key(|(_, to)| to.len());
            next.extend(fewest.map(|(node, _)| *node));
        }

        for node in next {
            receivers.remove(node);
            ranks.insert(node, rank);
            for sender in senders.get(node).into_iter().flatten() {
                if let Some(to) = receivers.get_mut(sender) {
                    to.remove(node);
                }
            }
        }
        rank += 1;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_come_before_senders_and_circles_end() {
        let names: Vec<Name> = ["a", "b", "c", "d"]
            .map(|name| name.parse().unwrap())
            .into();
        let [a, b, c, d] = [&names[0], &names[1], &names[2], &names[3]];
        let chain = BTreeMap::from([(c, BTreeSet::from([b])), (b, BTreeSet::from([a, d]))]);
        let found = ranks(names.iter(), &chain);
        assert_eq!(found, BTreeMap::from([(a, 2), (b, 1), (c, 0), (d, 2)]));

        let circle = BTreeMap::from([
            (a, BTreeSet::from([b])),
            (b, BTreeSet::from([a])),
            (c, BTreeSet::from([b])),
        ]);
        let found = ranks(names.iter(), &circle);
        assert_eq!(found, BTreeMap::from([(a, 1), (b, 2), (c, 0), (d, 0)]));
    }
}
