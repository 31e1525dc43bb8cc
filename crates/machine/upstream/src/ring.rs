//! A ring of points: the same key finds the same endpoint, and an endpoint that goes takes only its own keys along.
//!
//! Each endpoint has points on a circle of 2^64, in number after its weight; a key belongs to the first point at or after its
//! own place. The points come from the endpoint's text, so that order in the file, other endpoints, restarts and other nodes
//! make no difference.

/// Points that an endpoint of average weight has: enough that shares are right within some ten percent.
const POINTS: u64 = 256;

/// The affinity of an exchange: its session, user or source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Affinity(pub(crate) u64);

impl Affinity {
    /// The affinity of this value; equal values have the same one, on every node.
    pub fn of(value: &[u8]) -> Self {
        Self(hash(value, 0))
    }
}

/// The points of all endpoints, in their order on the circle.
#[derive(Debug, Default)]
pub(crate) struct Ring(Vec<(u64, u32)>);

impl Ring {
    /// A ring of endpoints, given as their texts and weights.
    pub(crate) fn new<'a>(endpoints: impl Iterator<Item = (&'a str, u16)> + Clone) -> Self {
        let count = endpoints.clone().count() as u64;
        let total: u64 = endpoints
            .clone()
            .map(|(_, weight)| u64::from(weight))
            .sum::<u64>()
            .max(1);
        let mut points = Vec::new();

        for (index, (text, weight)) in (0_u32..).zip(endpoints) {
            let own = (POINTS * count * u64::from(weight) / total).max(1);
            points.extend((1..=own).map(|number| (hash(text.as_bytes(), number), index)));
        }

        points.sort_unstable();
        Self(points)
    }

    /// The endpoint that the key belongs to, among those that `may` take it.
    pub(crate) fn pick(&self, key: Affinity, may: impl Fn(usize) -> bool) -> Option<usize> {
        let start = self.0.partition_point(|(place, _)| *place < key.0);
        let (before, after) = self.0.split_at(start);
        after
            .iter()
            .chain(before)
            .map(|(_, index)| *index as usize)
            .find(|index| may(*index))
    }
}

/// Whether an endpoint that has only a part of its weight for now takes this key. A key that it takes with a smaller part it
/// takes with every larger one, too, so that each moves once; and on every node alike.
pub(crate) fn admits(key: Affinity, text: &str, part: f64) -> bool {
    let place = hash(text.as_bytes(), key.0);
    // The upper half is precise enough.
    f64::from(u32::try_from(place >> 32).unwrap_or(u32::MAX)) < part * 2_f64.powi(32)
}

/// FNV-1a over the number and the bytes, and the finishing steps of SplitMix64, which spread near values over the circle.
fn hash(bytes: &[u8], number: u64) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(PRIME);
    let mut mixed = bytes
        .iter()
        .fold(number.to_le_bytes().iter().fold(BASIS, fold), fold);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);

    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u32 = 20_000;

    fn texts(count: u16) -> Vec<String> {
        (0..count)
            .map(|number| format!("10.0.0.{number}:80"))
            .collect()
    }

    fn even(texts: &[String]) -> Ring {
        Ring::new(texts.iter().map(|text| (text.as_str(), 1)))
    }

    fn owners(ring: &Ring, may: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..KEYS)
            .map(|key| ring.pick(Affinity::of(&key.to_le_bytes()), &may).unwrap())
            .collect()
    }

    #[test]
    fn equal_endpoints_have_about_equal_shares() {
        for count in [2, 3, 10, 30] {
            let owners = owners(&even(&texts(count)), |_| true);
            let fair = f64::from(KEYS) / f64::from(count);
            for index in 0..usize::from(count) {
                let share = owners.iter().filter(|owner| **owner == index).count() as f64 / fair;
                assert!((0.75..1.3).contains(&share), "{index} of {count}: {share}");
            }
        }
    }

    #[test]
    fn shares_follow_the_weights() {
        let texts = texts(2);
        let ring = Ring::new(texts.iter().map(String::as_str).zip([3, 1]));
        let heavy = owners(&ring, |_| true)
            .iter()
            .filter(|owner| **owner == 0)
            .count() as f64;
        assert!((0.70..0.80).contains(&(heavy / f64::from(KEYS))), "{heavy}");
    }

    #[test]
    fn one_that_goes_moves_its_own_keys_and_no_others() {
        let ring = even(&texts(10));
        for (before, after) in owners(&ring, |_| true)
            .into_iter()
            .zip(owners(&ring, |index| index != 4))
        {
            assert!(if before == 4 {
                after != 4
            } else {
                after == before
            });
        }
    }

    #[test]
    fn one_that_comes_takes_its_share_and_moves_nothing_else() {
        let (before, after) = (
            owners(&even(&texts(9)), |_| true),
            owners(&even(&texts(10)), |_| true),
        );
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after);
        assert!(moved.clone().all(|(_, after)| *after == 9));
        assert!((0.06..0.15).contains(&(moved.count() as f64 / f64::from(KEYS))));
    }

    #[test]
    fn order_in_the_file_makes_no_difference() {
        let (forth, mut back) = (texts(5), texts(5));
        back.reverse();
        let (one, two) = (
            owners(&even(&forth), |_| true),
            owners(&even(&back), |_| true),
        );
        assert!(
            one.into_iter()
                .zip(two)
                .all(|(one, two)| forth[one] == back[two])
        );
    }

    #[test]
    fn one_that_comes_back_takes_its_keys_one_after_the_other() {
        let (ring, texts) = (even(&texts(4)), texts(4));
        let at = |part: f64| -> Vec<usize> {
            let pick = |key: Affinity| {
                ring.pick(key, |index| index != 2 || admits(key, &texts[index], part))
                    .unwrap()
            };
            (0..KEYS)
                .map(|key| pick(Affinity::of(&key.to_le_bytes())))
                .collect()
        };
        let (gone, whole) = (at(0.0), at(1.0));
        assert_eq!(whole, owners(&ring, |_| true));
        let (mut before, all) = (
            gone,
            whole.iter().filter(|owner| **owner == 2).count() as f64,
        );
        for part in [0.1, 0.25, 0.5, 0.75, 1.0] {
            let now = at(part);
            let share = now.iter().filter(|owner| **owner == 2).count() as f64 / all;
            assert!((share - part).abs() < 0.03, "{part}: {share}");
            let moved = before
                .iter()
                .zip(&now)
                .filter(|(before, now)| before != now);
            assert!(
                moved.into_iter().all(|(_, now)| *now == 2),
                "nothing else moves, and nothing moves back"
            );
            before = now;
        }
    }

    #[test]
    fn no_one_is_found_where_no_one_may() {
        assert_eq!(even(&texts(3)).pick(Affinity(7), |_| false), None);
        assert_eq!(Ring::default().pick(Affinity(7), |_| true), None);
    }

    #[test]
    fn places_are_the_same_on_every_node() {
        assert_eq!(Affinity::of(b"alice").0, 4_668_351_146_843_587_382);
    }
}
