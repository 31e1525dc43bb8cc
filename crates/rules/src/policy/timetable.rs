//! When rules with hours begin and cease to hold.

use hermes_config::model::scalar::{Hours, WEEK, second_of_week};

/// The seconds of a week, in UTC, at which some rule begins or ceases to hold; in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Timetable(Vec<u32>);

impl Timetable {
    pub(super) fn new<'a>(hours: impl Iterator<Item = &'a Hours>) -> Self {
        let mut changes: Vec<u32> = hours.flat_map(Hours::changes).collect();
        changes.sort_unstable();
        changes.dedup();
        Self(changes)
    }

    /// The next such moment after `now`, in Unix time; `None` where no rule has hours.
    pub(super) fn next(&self, now: u64) -> Option<u64> {
        let first = self.0.first()?;
        let second = second_of_week(now);
        let later = self.0.partition_point(|change| *change <= second);
        let left = match self.0.get(later) {
            Some(change) => change - second,
            None => first + WEEK - second,
        };

        Some(now.saturating_add(u64::from(left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_change_is_found_over_the_end_of_the_week() {
        let hours: [Hours; 2] =
            ["mon 08:00-18:00", "sun 20:00-23:00"].map(|text| text.parse().unwrap());
        let timetable = Timetable::new(hours.iter());
        // Monday, 5 January 1970.
        let monday = 4 * 86_400;
        let after = |hour: u64| monday + hour * 3600;

        assert_eq!(timetable.next(after(0)), Some(after(8)));
        assert_eq!(timetable.next(after(8) - 1), Some(after(8)));
        assert_eq!(timetable.next(after(8)), Some(after(18)));
        assert_eq!(timetable.next(after(18)), Some(after(6 * 24 + 20)));
        assert_eq!(timetable.next(after(6 * 24 + 23)), Some(after(7 * 24 + 8)));
        assert_eq!(Timetable::default().next(0), None);
    }
}
