//! Builtins on time. Times are nanoseconds of Unix time, in UTC, or such a time with a zone: `[nanoseconds, "Europe/Oslo"]`. The zone
//! of this machine is `Local`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ZonedDateTime};
use regorus::Value;

use crate::zones::zone;
use crate::{budget, layout};

const SECOND: i64 = 1_000_000_000;

/// Bytes of a layout: named layouts are shorter than 40, and a formatted time can be five times as
/// long.
#[doc(alias = "bound")]
const LAYOUT: usize = 4096;

/// Seconds of Unix time that all policies of this process are to take for the present; 0: the clock's.
static SUPPOSED: AtomicU64 = AtomicU64::new(0);

/// Has all policies of this process take `at`, in Unix time, for the present; `None`: the clock's again. For tools that rehearse one exchange
/// after another, never in a node.
pub fn suppose_time(at: Option<u64>) {
    SUPPOSED.store(at.unwrap_or(0), Ordering::Relaxed);
}

/// The present, as `time.now_ns` has it outside of an evaluation: for the time of a request that is put into an input.
#[must_use]
pub fn present() -> SystemTime {
    match SUPPOSED.load(Ordering::Relaxed) {
        0 => SystemTime::now(),
        at => UNIX_EPOCH + Duration::from_secs(at),
    }
}

/// Nanoseconds now: one time for all of an evaluation.
pub(crate) fn now(_: &[Value]) -> Option<Value> {
    let supposed = SUPPOSED.load(Ordering::Relaxed);
    if supposed > 0 {
        return i64::try_from(supposed)
            .ok()?
            .checked_mul(SECOND)
            .map(Value::from);
    }
    let since = budget::began().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().map(Value::from)
}

/// A time as it is in its zone.
fn zoned(operand: Option<&Value>) -> Option<ZonedDateTime> {
    let given = operand?;
    let (nanoseconds, zone) = match given.as_array() {
        Err(_) => (given.as_i64().ok()?, TimeZone::UTC),
        Ok(parts) => {
            let name = match parts.get(1) {
                Some(name) => zone(&name.as_string().ok()?.clone())?,
                None => TimeZone::UTC,
            };
            (parts.first()?.as_i64().ok()?, name)
        }
    };
    let at = Timestamp::from_nanosecond(i128::from(nanoseconds)).ok()?;
    Some(at.to_zoned_datetime(zone))
}

fn list<T: Into<i64>, const N: usize>(parts: [T; N]) -> Value {
    let values: Vec<Value> = parts.map(|part| Value::from(part.into())).into();
    Value::from(values)
}

/// Hour, minute and second.
pub(crate) fn clock(operands: &[Value]) -> Option<Value> {
    let at = zoned(operands.first())?;
    Some(list([at.hour(), at.minute(), at.second()]))
}

/// Year, month and day.
pub(crate) fn date(operands: &[Value]) -> Option<Value> {
    let at = zoned(operands.first())?;
    Some(list([
        at.year(),
        i16::from(at.month()),
        i16::from(at.day()),
    ]))
}

pub(crate) fn weekday(operands: &[Value]) -> Option<Value> {
    const NAMES: [&str; 7] = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let day = zoned(operands.first())?.weekday().to_monday_zero_offset();
    NAMES
        .get(usize::try_from(day).ok()?)
        .copied()
        .map(Value::from)
}

/// A time so many years, months and days later. A day that its month has not is one of the next: 31 October and a month are 1 December.
pub(crate) fn add_date(operands: &[Value]) -> Option<Value> {
    let at = zoned(operands.first())?;
    let number = |index: usize| operands.get(index)?.as_i64().ok();
    let years = number(1)?.checked_add(at.year().into())?;
    let months = years
        .checked_mul(12)?
        .checked_add(number(2)?)?
        .checked_add(i64::from(at.month()) - 1)?;
    let days = number(3)?.checked_add(i64::from(at.day()) - 1)?;

    let year = i16::try_from(months.div_euclid(12)).ok()?;
    let month = i8::try_from(months.rem_euclid(12) + 1).ok()?;
    let first = Date::new(year, month, 1).ok()?;
    let day = first.checked_add(Span::new().try_days(days).ok()?).ok()?;
    let moved = day
        .to_datetime(at.time())
        .to_zoned_datetime(at.time_zone().clone());
    nanoseconds(moved.ok()?.timestamp())
}

/// Years, months, days, hours, minutes and seconds between two times, in the zone of the first.
pub(crate) fn diff(operands: &[Value]) -> Option<Value> {
    let first = zoned(operands.first())?;
    let second = zoned(operands.get(1))?.with_time_zone(first.time_zone().clone());
    let (from, to) = match first <= second {
        true => (first, second),
        false => (second, first),
    };
    let days_of_month = i64::from(from.date().days_in_month());
    let parts = |at: &ZonedDateTime| {
        [
            i64::from(at.year()),
            i64::from(at.month()),
            i64::from(at.day()),
            i64::from(at.hour()),
            i64::from(at.minute()),
            i64::from(at.second()),
        ]
    };

    let mut between = parts(&to);
    for (part, earlier) in between.iter_mut().zip(parts(&from)) {
        *part -= earlier;
    }
    // A part below zero borrows from the larger one before it.
    for (index, size) in [(5, 60), (4, 60), (3, 24), (2, days_of_month), (1, 12)] {
        if between[index] < 0 {
            between[index] += size;
            between[index - 1] -= 1;
        }
    }
    Some(list(between))
}

/// A time as RFC 3339 writes it.
pub(crate) fn parse_rfc3339(operands: &[Value]) -> Option<Value> {
    let text = operands.first()?.as_string().ok()?;
    if !is_rfc3339(text.as_bytes()) {
        return None;
    }
    nanoseconds(text.parse().ok()?)
}

/// A time as text: `format(time)`, or with a zone and a layout, `format([time, "Europe/Oslo", "RFC1123"])`.
pub(crate) fn format(operands: &[Value]) -> Option<Value> {
    let at = zoned(operands.first())?;
    let given = operands.first()?.as_array().ok();
    let given = match given.and_then(|parts| parts.get(2)) {
        Some(layout) => layout.as_string().ok()?.clone(),
        None => "".into(),
    };
    if given.len() > LAYOUT {
        return None;
    }
    let layout = match layout::named(&given) {
        "" => layout::RFC_3339_NANO,
        layout => layout,
    };
    Some(layout::write(&at, layout).into())
}

/// The time that a text says by a layout.
pub(crate) fn parse(operands: &[Value]) -> Option<Value> {
    let layout = operands.first()?.as_string().ok()?;
    let text = operands.get(1)?.as_string().ok()?;
    if layout.len() > LAYOUT {
        return None;
    }
    nanoseconds(layout::read(layout::named(layout), text)?)
}

/// Whether a text has the letters of RFC 3339 where they belong; the parser takes other forms, too.
fn is_rfc3339(text: &[u8]) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    if text.len() <= FORM.len() || !text.is_ascii() {
        return false;
    }
    let (moment, rest) = text.split_at(FORM.len());
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    };
    let zone = match rest.iter().position(|byte| b"Z+-".contains(byte)) {
        Some(at) => &rest[at..],
        None => return false,
    };
    let has_zone = zone == b"Z" || (zone.len() == 6 && zone[3] == b':');
    moment.iter().zip(FORM).all(fits) && &moment[17..] < b"60".as_slice() && has_zone
}

/// A duration such as `1h30m` or `-1.5s`.
pub(crate) fn parse_duration(operands: &[Value]) -> Option<Value> {
    let text = operands.first()?.as_string().ok()?;
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i128;
    while !rest.is_empty() && rest != "0" {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let end = rest.find(|letter| !is_number(letter))?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(is_number).unwrap_or(after.len());
        sum = sum.checked_add(scaled(number, unit(&after[..unit_end])?)?)?;
        rest = &after[unit_end..];
        if rest == "0" {
            // Alone it needs no unit, behind others it does.
            return None;
        }
    }
    i64::try_from(sign * sum).ok().map(Value::from)
}

/// Nanoseconds of a unit.
fn unit(name: &str) -> Option<i128> {
    Some(match name {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A decimal number of units.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |text: &str| match text {
        "" => Some(0),
        text => text.parse::<u64>().ok().map(i128::from),
    };
    // Further digits are below a nanosecond, of every unit.
    let fraction = &fraction[..fraction.len().min(15)];
    let parts = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(digits(whole)? * unit + digits(fraction)? * unit / parts)
}

fn nanoseconds(at: Timestamp) -> Option<Value> {
    i64::try_from(at.as_nanosecond()).ok().map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Builtin = fn(&[Value]) -> Option<Value>;

    fn called(builtin: Builtin, operands: &str) -> Option<String> {
        let operands = Value::from_json_str(operands).unwrap();
        let operands: Vec<Value> = operands.as_array().unwrap().iter().cloned().collect();
        builtin(&operands).map(|value| value.to_string())
    }

    fn gives(builtin: Builtin, operands: &str, value: &str) {
        assert_eq!(
            called(builtin, operands).as_deref(),
            Some(value),
            "{operands}"
        );
    }

    #[test]
    fn times_are_taken_apart_in_utc() {
        gives(clock, "[0]", "[0,0,0]");
        gives(weekday, "[0]", "\"Thursday\"");
        // 2000-02-29T23:59:59Z.
        gives(clock, "[951868799000000000]", "[23,59,59]");
        gives(weekday, "[951868799000000000]", "\"Tuesday\"");
        gives(date, "[951868799000000000]", "[2000,2,29]");
        gives(clock, "[-1]", "[23,59,59]");
        gives(weekday, "[-1]", "\"Wednesday\"");
    }

    #[test]
    fn times_are_taken_apart_in_their_zone() {
        // 2026-03-29T00:59:59Z, a second before summer begins in Oslo, and that second.
        gives(
            clock,
            "[[1774745999000000000, \"Europe/Oslo\"]]",
            "[1,59,59]",
        );
        gives(clock, "[[1774746000000000000, \"Europe/Oslo\"]]", "[3,0,0]");
        gives(
            date,
            "[[1774745999000000000, \"America/Los_Angeles\"]]",
            "[2026,3,28]",
        );
        gives(
            weekday,
            "[[1774745999000000000, \"America/Los_Angeles\"]]",
            "\"Saturday\"",
        );
        gives(clock, "[[0, \"\"]]", "[0,0,0]");
        for operands in [
            "[[0, \"Nowhere/City\"]]",
            "[[0, \"../../../etc/passwd\"]]",
            "[[0, 1]]",
            "[[]]",
            "[\"now\"]",
        ] {
            assert_eq!(called(clock, operands), None, "{operands}");
        }
    }

    #[test]
    fn a_day_that_its_month_has_not_is_one_of_the_next() {
        // 2026-10-31T12:00:00Z.
        let at = 1_793_448_000_000_000_000_i64;
        let then = |years: i32, months: i32, days: i32| {
            let moved = add_date(&[at, years.into(), months.into(), days.into()].map(Value::from));
            date(&[moved.unwrap()]).unwrap().to_string()
        };
        assert_eq!(then(0, 1, 0), "[2026,12,1]");
        assert_eq!(then(1, -9, 0), "[2027,1,31]");
        assert_eq!(then(0, 0, -31), "[2026,9,30]");
        assert_eq!(called(add_date, "[0, 2262, 1, 1]"), None);
        assert_eq!(called(add_date, "[0, 9223372036854775807, 1, 1]"), None);
    }

    #[test]
    fn differences_borrow_from_the_month_of_the_earlier_time() {
        // 2020-02-02 and 2020-03-01, either way round.
        gives(
            diff,
            "[1580601600000000000, 1583020800000000000]",
            "[0,0,28,0,0,0]",
        );
        gives(
            diff,
            "[1583020800000000000, 1580601600000000000]",
            "[0,0,28,0,0,0]",
        );
        gives(diff, "[61000000000, 0]", "[0,0,0,0,1,1]");
        gives(
            diff,
            "[[60000000000, \"UTC\"], [0, \"Asia/Shanghai\"]]",
            "[0,0,0,0,1,0]",
        );
    }

    #[test]
    fn times_are_written_by_layouts_and_read_again() {
        gives(format, "[1500000000]", "\"1970-01-01T00:00:01.5Z\"");
        gives(
            format,
            "[[0, \"Europe/Oslo\", \"RFC1123\"]]",
            "\"Thu, 01 Jan 1970 01:00:00 CET\"",
        );
        gives(
            parse,
            "[\"RFC3339\", \"1970-01-01T00:00:01.5Z\"]",
            "1500000000",
        );
        gives(parse, "[\"2006-01-02\", \"1970-01-02\"]", "86400000000000");
        assert_eq!(called(parse, "[\"15:04\", \"12:30\"]"), None, "the year 0");

        let long = "5".repeat(LAYOUT + 1);
        assert_eq!(called(format, &format!("[[0, \"\", \"{long}\"]]")), None);
        assert_eq!(called(parse, &format!("[\"{long}\", \"0\"]")), None);
    }

    #[test]
    fn the_zone_of_this_machine_has_a_name() {
        let own = TimeZone::try_system().unwrap_or(TimeZone::UTC);
        let at = Timestamp::UNIX_EPOCH.to_zoned_datetime(own);
        let expected = list([at.hour(), at.minute(), at.second()]).to_string();
        gives(clock, "[[0, \"Local\"]]", &expected);
    }

    #[test]
    fn times_and_durations_are_read() {
        gives(parse_rfc3339, "[\"1970-01-01T00:00:01.5Z\"]", "1500000000");
        gives(parse_rfc3339, "[\"1970-01-01T01:00:00+01:00\"]", "0");
        for none in [
            "1970-01-01T00:00:00",
            "1970-01-01 00:00:00Z",
            "1970-01-01T00:00Z",
            "1970-01-01T00:00:60Z",
            "2262-04-11T23:47:16.854775808-00:00",
        ] {
            assert_eq!(
                called(parse_rfc3339, &format!("[\"{none}\"]")),
                None,
                "{none}"
            );
        }

        gives(parse_duration, "[\"1h30m\"]", "5400000000000");
        gives(parse_duration, "[\"-1.5s\"]", "-1500000000");
        gives(parse_duration, "[\"100ms\"]", "100000000");
        gives(parse_duration, "[\"0\"]", "0");
        for none in ["", "-", "1", "s", ".s", "1x", "1s0", "9999999h"] {
            assert_eq!(
                called(parse_duration, &format!("[\"{none}\"]")),
                None,
                "{none}"
            );
        }
    }
}
