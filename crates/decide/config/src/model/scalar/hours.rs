//! Hours of the week.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{ScalarError, scalar};

/// Seconds of a day.
const DAY: u32 = 86_400;

/// Seconds of a week.
pub const WEEK: u32 = 7 * DAY;

/// 1 January 1970 was a Thursday; weeks are counted from Monday.
const SINCE_MONDAY: u64 = 3 * DAY as u64;

/// The days, from Monday on.
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// The furthest that clocks are set from UTC, in seconds.
const FURTHEST: i32 = 18 * 3600;

/// Hours of some days: `08:00-18:00`, `mon-fri 08:00-18:00`, `sat,sun 22:00-06:00 +02:00`, `08:00-18:00 Europe/Oslo`.
///
/// They begin on the days that are named; where they end before they begin, they end on the day after. Times are those of UTC, or
/// of the clock that stands at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hours {
    /// Bit 0 is Monday.
    days: u8,
    /// Seconds of the day.
    from: u32,
    /// Seconds of the day; up to and without them.
    to: u32,
    clock: LocalClock,
}

/// A clock that people look at.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LocalClock {
    /// The clock is this many seconds ahead of UTC.
    Ahead(i32),
    /// The clock of a time zone, which was read from the system's database when the hours were
    /// parsed.
    Zone(TimeZone),
}

scalar!(
    Hours,
    "hermes-hours",
    "Hours, of some days if they are given, of UTC, a clock ahead of it or a time zone: 08:00-18:00, mon-fri 08:00-18:00 +02:00, 08:00-18:00 Europe/Oslo."
);

impl Hours {
    /// Whether this moment, in Unix time, is among them.
    pub fn contains(&self, unix: u64) -> bool {
        let second = self.clock.second_of_week(unix);
        self.spans().any(|(begin, length)| {
            let since = (second + WEEK - begin) % WEEK;
            since < length
        })
    }

    /// The seconds of a week at which they begin or end, in UTC; `None` where these differ from week to week, because clocks are changed.
    pub fn changes(&self) -> Option<impl Iterator<Item = u32>> {
        let LocalClock::Ahead(ahead) = self.clock else {
            return None;
        };
        let edges = self.edges();
        Some(edges.map(move |edge| {
            let utc = i64::from(edge) - i64::from(ahead);
            u32::try_from(utc.rem_euclid(i64::from(WEEK))).unwrap_or_default()
        }))
    }

    /// A moment after this one, in Unix time, before which they neither begin nor end: the next edge, or the next change of the clock.
    pub fn next_change(&self, unix: u64) -> u64 {
        let second = self.clock.second_of_week(unix);
        let left = self
            .edges()
            .map(|edge| match (edge + WEEK - second) % WEEK {
                0 => WEEK,
                left => left,
            });
        let next = unix.saturating_add(u64::from(left.min().unwrap_or(WEEK)));

        let changed = self.clock.next_change(unix);
        changed.map_or(next, |changed| changed.min(next))
    }

    /// The seconds of a week at which they begin or end, by their own clock.
    fn edges(&self) -> impl Iterator<Item = u32> {
        self.spans()
            .flat_map(|(begin, length)| [begin, (begin + length) % WEEK])
    }

    /// When they begin, as seconds of a week by their own clock, and how long they last.
    fn spans(&self) -> impl Iterator<Item = (u32, u32)> {
        let days = self.days;
        let from = self.from;
        let length = if from < self.to {
            self.to - from
        } else {
            self.to + DAY - from
        };

        let named = (0..7_u32).filter(move |day| days & (1 << day) != 0);
        named.map(move |day| (day * DAY + from, length))
    }
}

impl LocalClock {
    /// The time on the clock, as a second of the week.
    fn second_of_week(&self, unix: u64) -> u32 {
        let ahead = match self {
            Self::Ahead(ahead) => *ahead,
            Self::Zone(zone) => zone.to_offset(timestamp(unix)).seconds(),
        };
        let local = i64::from(second_of_week(unix)) + i64::from(ahead);
        u32::try_from(local.rem_euclid(i64::from(WEEK))).unwrap_or_default()
    }

    /// When it is put forward or back next.
    fn next_change(&self, unix: u64) -> Option<u64> {
        let Self::Zone(zone) = self else { return None };
        let next = zone.following(timestamp(unix)).next()?;
        u64::try_from(next.timestamp().as_second()).ok()
    }
}

/// A moment as time zones know it, which end in the year 9999.
fn timestamp(unix: u64) -> Timestamp {
    let second = i64::try_from(unix).ok();
    let known = second.and_then(|second| Timestamp::from_second(second).ok());
    known.unwrap_or(Timestamp::MAX)
}

/// The second of its week, which begins on Monday, 0:00 UTC.
pub fn second_of_week(unix: u64) -> u32 {
    let second = unix.saturating_add(SINCE_MONDAY) % u64::from(WEEK);
    u32::try_from(second).unwrap_or_default()
}

impl FromStr for Hours {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let mut parts: Vec<&str> = text.split(' ').collect();
        let clock = match parts.last() {
            Some(last) if last.starts_with(['+', '-']) => {
                let ahead = parse_ahead(last).ok_or_else(|| wrong(text))?;
                parts.pop();
                LocalClock::Ahead(ahead)
            }
            Some(last) if parts.len() > 1 && is_zone(last) => {
                let zone = parse_zone(last)?;
                parts.pop();
                LocalClock::Zone(zone)
            }
            _ => LocalClock::Ahead(0),
        };

        let (days, span) = match parts.as_slice() {
            [span] => (0b111_1111, *span),
            [days, span] => (parse_days(days)?, *span),
            _ => return Err(wrong(text)),
        };

        let (from, to) = span.split_once('-').ok_or_else(|| wrong(text))?;
        let from = parse_time(from).filter(|from| *from < DAY);
        let from = from.ok_or_else(|| wrong(text))?;
        let to = parse_time(to).ok_or_else(|| wrong(text))?;

        if from == to {
            return Err(ScalarError::new(format!("`{text}` is not a time"))
                .remedy("write 00:00-24:00 for the whole day"));
        }

        Ok(Self {
            days,
            from,
            to,
            clock,
        })
    }
}

fn wrong(text: &str) -> ScalarError {
    ScalarError::new(format!("`{text}` is not a range of hours"))
        .remedy("write them like mon-fri 08:00-18:00, with +02:00 for a clock ahead of UTC, or a time zone such as Europe/Oslo")
}

/// `HH:MM` or `HH:MM:SS`, up to 24:00, in seconds.
fn parse_time(text: &str) -> Option<u32> {
    let mut numbers = text.split(':').map(|digits| {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| digits.parse::<u32>().ok()).flatten()
    });

    let hours = numbers.next()??;
    let minutes = numbers.next()?.filter(|minutes| *minutes < 60)?;
    let seconds = match numbers.next() {
        Some(seconds) => seconds.filter(|seconds| *seconds < 60)?,
        None => 0,
    };

    let time = hours * 3600 + minutes * 60 + seconds;
    (numbers.next().is_none() && time <= DAY).then_some(time)
}

/// `+02:00` or `-03:30`, in seconds.
fn parse_ahead(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+')?),
    };
    let time = i32::try_from(parse_time(digits)?).ok()?;
    (time <= FURTHEST).then_some(sign * time)
}

/// Whether a word is meant to name a time zone: it is no time of day.
fn is_zone(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_uppercase())
}

/// A time zone of the system's database, by its name there, such as `Europe/Oslo`.
fn parse_zone(name: &str) -> Result<TimeZone, ScalarError> {
    TimeZone::get(name).map_err(|_| {
        let reason = format!("this machine knows no time zone `{name}`");
        ScalarError::new(reason).remedy(
            "write a name like Europe/Oslo; if /usr/share/zoneinfo is not there, install tzdata",
        )
    })
}

/// `mon`, `mon-fri`, `sat,sun`.
fn parse_days(text: &str) -> Result<u8, ScalarError> {
    let day = |name: &str| {
        DAYS.iter().position(|day| *day == name).ok_or_else(|| {
            ScalarError::new(format!("`{name}` is not a day"))
                .remedy(format!("days are {}", DAYS.join(", ")))
        })
    };

    let mut days = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = day(first)?;
        let last = day(last)?;
        // `sat-mon` goes over the end of the week.
        let count = (last + 7 - first) % 7;
        for ahead in 0..=count {
            days |= 1 << ((first + ahead) % 7);
        }
    }

    Ok(days)
}

impl fmt::Display for Hours {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.days != 0b111_1111 {
            let named = (0..7).filter(|day| self.days & (1 << day) != 0);
            for (number, day) in named.enumerate() {
                let comma = if number == 0 { "" } else { "," };
                write!(out, "{comma}{}", DAYS[day])?;
            }
            out.write_str(" ")?;
        }

        write!(out, "{}-{}", Clock(self.from), Clock(self.to))?;
        match &self.clock {
            LocalClock::Ahead(0) => Ok(()),
            LocalClock::Zone(zone) => write!(out, " {}", zone.iana_name().unwrap_or("UTC")),
            LocalClock::Ahead(ahead) => {
                let ahead = *ahead;
                let sign = if ahead < 0 { '-' } else { '+' };
                write!(out, " {sign}{}", Clock(ahead.unsigned_abs()))
            }
        }
    }
}

/// A time of day, with its seconds where there are any.
struct Clock(u32);

impl fmt::Display for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:02}:{:02}", self.0 / 3600, self.0 / 60 % 60)?;
        match self.0 % 60 {
            0 => Ok(()),
            seconds => write!(out, ":{seconds:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Hours, second_of_week};

    /// Thursday, 1 January 1970, at this hour and minute, some days later.
    fn at(days: u64, hours: u64, minutes: u64) -> u64 {
        days * 86_400 + hours * 3600 + minutes * 60
    }

    fn contains(hours: &str, unix: u64) -> bool {
        hours.parse::<Hours>().unwrap().contains(unix)
    }

    #[test]
    fn hours_begin_with_their_first_second_and_end_before_their_last() {
        let daily = "08:00-18:00";
        assert!(!contains(daily, at(0, 8, 0) - 1) && contains(daily, at(0, 8, 0)));
        assert!(contains(daily, at(0, 18, 0) - 1) && !contains(daily, at(0, 18, 0)));
        assert!(contains("00:00-24:00", 0) && contains("00:00-24:00", at(0, 23, 59)));
        assert!(contains("10:00:30-10:00:31", at(0, 10, 0) + 30));
    }

    #[test]
    fn days_are_those_on_which_hours_begin() {
        let thursday = at(0, 12, 0);
        let saturday = at(2, 12, 0);
        assert!(contains("mon-fri 08:00-18:00", thursday));
        assert!(!contains("mon-fri 08:00-18:00", saturday));
        assert!(contains("sat,sun 08:00-18:00", saturday));
        assert!(contains("fri-mon 08:00-18:00", saturday));
        assert!(
            contains("thu 22:00-06:00", at(1, 5, 59)) && !contains("thu 22:00-06:00", at(1, 6, 0))
        );
        assert!(!contains("thu 22:00-06:00", at(0, 5, 59)));
        // From Sunday into the next week.
        assert!(contains("sun 22:00-06:00", at(4, 1, 0)));
    }

    #[test]
    fn a_clock_may_be_ahead_of_utc() {
        assert!(contains("thu 00:00-01:00 +02:00", at(6, 22, 30)));
        assert!(contains("thu 00:00-01:00 -02:00", at(0, 2, 30)));
        assert!(!contains("thu 00:00-01:00 +02:00", at(0, 0, 30)));
    }

    #[test]
    fn each_change_is_one() {
        let hours: Hours = "thu 22:00-06:00 +01:00".parse().unwrap();
        let changes: Vec<u32> = hours.changes().unwrap().collect();
        assert_eq!(
            changes,
            [second_of_week(at(0, 21, 0)), second_of_week(at(1, 5, 0))]
        );
    }

    #[test]
    fn a_time_zone_changes_its_clock() {
        // Wednesday, 7 January and 1 July 2026, 0:00 UTC.
        let winter = 1_767_744_000;
        let summer = 1_782_864_000;
        let hours = "wed 08:00-09:00 Europe/Oslo";
        assert!(contains(hours, winter + 7 * 3600) && !contains(hours, winter + 8 * 3600));
        assert!(contains(hours, summer + 6 * 3600) && !contains(hours, summer + 7 * 3600));

        let hours: Hours = hours.parse().unwrap();
        assert_eq!(hours.to_string(), "wed 08:00-09:00 Europe/Oslo");
        assert!(hours.changes().is_none());
        assert_eq!(hours.next_change(winter), winter + 7 * 3600);
        assert_eq!(hours.next_change(winter + 7 * 3600), winter + 8 * 3600);
    }

    #[test]
    fn nothing_changes_before_the_next_change() {
        // Sunday, 29 March 2026, when clocks are put forward at 1:00 UTC, and 25 October, when they are put back.
        for sunday in [1_774_742_400, 1_792_886_400_u64] {
            let hours: Hours = "sun 02:30-03:30 Europe/Oslo".parse().unwrap();
            let begin = sunday - 5 * 3600;
            let mut next = begin;
            let mut jumps = 0;
            for now in begin..sunday + 5 * 3600 {
                if now == next {
                    next = hours.next_change(now);
                    jumps += 1;
                    assert!(next > now);
                } else {
                    assert_eq!(hours.contains(now), hours.contains(now - 1), "{now}");
                }
            }
            assert!(jumps < 8, "{jumps}");
        }
    }

    #[test]
    fn a_zone_that_is_not_known_is_refused() {
        for text in [
            "08:00-18:00 Europe/Atlantis",
            "08:00-18:00 X",
            "08:00-18:00 Europe/../../etc/passwd",
        ] {
            let error = text.parse::<Hours>().unwrap_err();
            assert!(error.to_string().contains("time zone"), "{error:?}");
        }
    }

    #[test]
    fn what_are_no_hours_is_refused() {
        for text in [
            "",
            "8-18",
            "08:00",
            "24:00-25:00",
            "08:00-08:00",
            "24:00-06:00",
            "8:00-18:00",
            "08:60-18:00",
            "mo 08:00-18:00",
            "mon fri 08:00-18:00",
            "08:00-18:00 +19:00",
            "mon- 08:00-18:00",
            "08:00:00:00-18:00",
        ] {
            assert!(text.parse::<Hours>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_moment_is_too_late() {
        assert!(contains("00:00-24:00", u64::MAX));
    }
}
