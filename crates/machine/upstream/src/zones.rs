//! How much of the load stays in the node's own zone: a pure rule.

/// Healthy share of the own zone, in percent, that still carries all of the load. Below it the load spills by proportion, so
/// that the endpoints left at home are not asked for more than 1 / 0.7 of their usual share.
const ENOUGH: u64 = 70;

/// Parts of the load, of [`WHOLE`], that stay at home. `home` and `away` are the healthy weights of both sides, `all_home` the
/// weight of the own zone with its unhealthy endpoints.
pub(crate) fn stays(home: u64, all_home: u64, away: u64) -> u64 {
    match () {
        () if home == 0 => 0,
        () if away == 0 => WHOLE,
        () => (WHOLE * home * 100 / (all_home.max(1) * ENOUGH)).min(WHOLE),
    }
}

/// The whole load.
pub(crate) const WHOLE: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_healthy_zone_keeps_all() {
        assert_eq!(stays(10, 10, 100), WHOLE);
        assert_eq!(stays(7, 10, 100), WHOLE);
    }

    #[test]
    fn less_than_enough_spills_in_proportion() {
        let left: Vec<_> = (0..=7).map(|home| stays(home, 10, 5)).collect();
        assert_eq!(left, [0, 142, 285, 428, 571, 714, 857, 1000]);
    }

    #[test]
    fn there_is_nowhere_to_spill_to() {
        assert_eq!(stays(1, 10, 0), WHOLE);
        assert_eq!(stays(0, 0, 3), 0);
    }
}
