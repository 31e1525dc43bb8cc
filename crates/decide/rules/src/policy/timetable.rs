//! When rules with hours begin and cease to hold.

use hermes_config::model::scalar::{Hours, WEEK, second_of_week};

/// When some rule begins or ceases to hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Timetable {
    /// The seconds of a week, in UTC, at which it does in each week; in order.
    weekly: Vec<u32>,
    /// Hours of time zones with daylight saving time.
    zoned: Vec<Hours>,
}

impl Timetable {
    pub(super) fn new<'a>(hours: impl Iterator<Item = &'a Hours>) -> Self {
        let mut weekly: Vec<u32> = Vec::new();
        let mut zoned: Vec<Hours> = Vec::new();
        for hours in hours {
            match hours.changes() {
                Some(changes) => weekly.extend(changes),
                None if zoned.contains(hours) => {}
                None => zoned.push(hours.clone()),
            }
        }

        weekly.sort_unstable();
        weekly.dedup();
        Self { weekly, zoned }
    }

    /// The next such moment after `now`, in Unix time; `None` where no rule has hours.
    pub(super) fn next(&self, now: u64) -> Option<u64> {
        let zoned = self.zoned.iter().map(|hours| hours.next_change(now));
        self.next_weekly(now).into_iter().chain(zoned).min()
    }

    fn next_weekly(&self, now: u64) -> Option<u64> {
        let first = self.weekly.first()?;
        let second = second_of_week(now);
        let later = self.weekly.partition_point(|change| *change <= second);
        let left = match self.weekly.get(later) {
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

    #[test]
    fn hours_of_a_time_zone_change_beside_those_of_utc() {
        let hours: [Hours; 2] =
            ["08:00-18:00", "08:00-18:00 Europe/Oslo"].map(|text| text.parse().unwrap());
        let timetable = Timetable::new(hours.iter());
        // 1 July 2026, 0:00 UTC: it is 2:00 in Oslo.
        let summer = 1_782_864_000;
        assert_eq!(timetable.next(summer), Some(summer + 6 * 3600));
        assert_eq!(timetable.next(summer + 6 * 3600), Some(summer + 8 * 3600));
    }
}
