//! How soon a download can be over at the earliest, whatever the protocol.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a link is up.
pub const SLOT: Duration = Duration::from_secs(1);

/// Rounds of random orders that are drawn; then they repeat.
const ROUNDS: usize = 200;

/// Milliseconds of a step in which bytes flow.
const STEP: u64 = 1;

/// In which order links are up.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// From the client's link on.
    Cyclic,
    /// From the origin's link on.
    Reverse,
    /// Each slot is drawn by itself.
    Random,
    /// All in each round, in an order that is drawn for it.
    Permutation,
    /// The link after one is the same, or one beside it, as is drawn. Nothing was tuned for it.
    Walk,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Cyclic,
        Self::Reverse,
        Self::Random,
        Self::Permutation,
        Self::Walk,
    ];

    /// Which link is up in each slot.
    pub fn turns(self, links: usize, seed: u64) -> Arc<[usize]> {
        let mut rng = fastrand::Rng::with_seed(seed);
        match self {
            Self::Cyclic => (0..links).collect(),
            Self::Reverse => (0..links).rev().collect(),
            Self::Random => (0..ROUNDS * links).map(|_| rng.usize(..links)).collect(),
            Self::Permutation => {
                let round = |_| {
                    let mut order: Vec<_> = (0..links).collect();
                    rng.shuffle(&mut order);
                    order
                };
                (0..ROUNDS).flat_map(round).collect()
            }
            Self::Walk => {
                let mut link = rng.usize(..links);
                let step = |_| {
                    let least = link.saturating_sub(1);
                    link = rng.usize(least..links.min(link + 2));
                    link
                };
                (0..ROUNDS * links).map(step).collect()
            }
        }
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cyclic => "cyclic",
            Self::Reverse => "reverse",
            Self::Random => "random",
            Self::Permutation => "permutation",
            Self::Walk => "walk",
        })
    }
}

/// A chain of links, of which one is up at a time.
#[derive(Debug, Clone, Copy)]
pub struct LinkChain<'a> {
    /// The link that is up in each slot, from the start of the links on; then again from the first slot.
    pub turns: &'a [usize],
    /// The number of links.
    pub links: usize,
    /// Bytes a second over the link that is up.
    pub rate: f64,
}

/// The least time of a download that begins so long after the links did. Round trips before the content and the request cross each link while
/// it is up, which takes no time. Then bytes flow back at the rate of the links, and each node passes its bytes on at once. Headers cost nothing.
pub fn bound(chain: LinkChain<'_>, size: usize, round_trips: usize, begin: Duration) -> Duration {
    let LinkChain { turns, links, rate } = chain;
    let slot = SLOT.as_millis() as u64;
    let up = |now: u64| turns[(now / slot) as usize % turns.len()];
    let begin = begin.as_millis() as u64;
    let mut now = begin;
    let mut pass = |link: usize| {
        while up(now) != link {
            now += STEP;
        }
    };
    for _ in 0..round_trips {
        (0..links).for_each(&mut pass);
        (0..links).rev().for_each(&mut pass);
    }
    (0..links).for_each(&mut pass);

    let size = size as f64;
    let flow = rate * STEP as f64 / 1000.0;
    // Bytes at each node, the client first and the origin last.
    let mut has = vec![0.0; links];
    has.push(size);
    while has[0] < size {
        let link = up(now);
        has[link] = f64::min(has[link] + flow, has[link + 1]);
        now += STEP;
    }

    Duration::from_millis(now - begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_links_in_turn_take_what_a_pencil_says() {
        let turns = Order::Cyclic.turns(3, 0);
        let chain = LinkChain {
            turns: &turns,
            links: 3,
            rate: 1.25e6,
        };
        let takes = |size, begin| bound(chain, size, 0, begin).as_secs_f64();
        // The request arrives after 2 s; 4.19 s of bytes need five slots of each link, the last of which for 0.19 s.
        assert!((takes(5 << 20, Duration::ZERO) - 18.2).abs() < 0.01);
        assert!((takes(1 << 20, Duration::ZERO) - 6.84).abs() < 0.01);
        let later = takes(1 << 20, Duration::from_secs(1));
        assert!((later - 8.84).abs() < 0.01, "{later}");
        let secure = bound(chain, 1 << 20, 1, Duration::ZERO).as_secs_f64();
        assert!((secure - 12.84).abs() < 0.01, "{secure}");
    }

    #[test]
    fn a_walk_reaches_all_links_in_steps_of_one() {
        for seed in 0..20 {
            let turns = Order::Walk.turns(3, seed);
            let steps = turns.windows(2);
            assert!(steps.clone().all(|two| two[0].abs_diff(two[1]) <= 1));
            assert!((0..3).all(|link| turns.contains(&link)), "seed {seed}");
        }
    }

    #[test]
    fn in_permutations_each_link_has_its_slot_in_each_round() {
        for seed in 0..20 {
            for round in Order::Permutation.turns(3, seed).chunks(3) {
                let mut links = round.to_vec();
                links.sort_unstable();
                assert_eq!(links, [0, 1, 2]);
            }
        }
    }
}
