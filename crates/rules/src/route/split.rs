//! The weighted choice among next proxies.

use hermes_config::model::Hops;

/// The upstream that an exchange goes to, chosen by weight from a number that the caller drew uniformly from all `u64`.
///
/// Weights that are all zero (refused by [`lint`](fn@crate::lint)) give the last name; no name at all gives the empty one.
pub fn pick_hop(hops: &Hops, random: u64) -> &str {
    let split = match hops {
        Hops::One(name) => return name,
        Hops::Chain(chain) => return chain.name(),
        Hops::Split(split) => split,
    };
    let total: u64 = split.values().map(|weight| u64::from(*weight)).sum();
    // The high half of a product maps all u64 evenly to 0..total.
    let product = u128::from(random) * u128::from(total);
    let mut point = (product >> 64) as u64;
    for (name, weight) in split {
        let weight = u64::from(*weight);
        if point < weight {
            return name;
        }
        point -= weight;
    }
    split.last().map_or("", |(name, _)| name)
}

/// The upstreams that an exchange may go to.
pub fn hops_of(hops: &Hops) -> impl Iterator<Item = &str> {
    let (one, split) = match hops {
        Hops::One(name) => (Some(name.as_str()), None),
        Hops::Chain(chain) => (Some(chain.name()), None),
        Hops::Split(split) => (None, Some(split)),
    };
    let weighted = split
        .into_iter()
        .flatten()
        .filter(|(_, weight)| **weight > 0);
    one.into_iter()
        .chain(weighted.map(|(name, _)| name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(weights: &[(&str, u32)]) -> Hops {
        Hops::Split(
            weights
                .iter()
                .map(|(name, weight)| ((*name).to_owned(), *weight))
                .collect(),
        )
    }

    #[test]
    fn one_hop_needs_no_number() {
        assert_eq!(pick_hop(&Hops::One("a".into()), 7), "a");
    }

    #[test]
    fn weights_share_the_numbers_evenly() {
        let hops = split(&[("a", 1), ("none", 0), ("b", 3)]);
        let quarter = u64::MAX / 4;
        assert_eq!(pick_hop(&hops, 0), "a");
        assert_eq!(pick_hop(&hops, quarter - 1), "a");
        assert_eq!(pick_hop(&hops, quarter + 1), "b");
        assert_eq!(pick_hop(&hops, u64::MAX), "b");
    }

    #[test]
    fn nothing_to_choose_from_does_not_panic() {
        assert_eq!(pick_hop(&split(&[("a", 0)]), 9), "a");
        assert_eq!(pick_hop(&split(&[]), 9), "");
    }
}
