//! Writing a time by a layout.

use std::fmt::Write as _;

use jiff::ZonedDateTime;

use super::parts::Padding;
use super::{Case, DAYS, Fraction, MONTHS, Part, Zone, split};

/// Formats a time by a layout of Go's `time.Format`.
pub(crate) fn write(at: &ZonedDateTime, layout: &str) -> String {
    let mut written = String::with_capacity(layout.len());
    let mut rest = layout;
    loop {
        let split = split(rest);
        written.push_str(split.before);
        let Some(part) = split.part else {
            return written;
        };
        write_part(at, part, &mut written);
        rest = split.after;
    }
}

fn write_part(at: &ZonedDateTime, part: Part, into: &mut String) {
    match part {
        Part::LongMonth => into.push_str(month(at)),
        Part::ShortMonth => into.push_str(&month(at)[..3]),
        Part::LongWeekday => into.push_str(weekday(at)),
        Part::ShortWeekday => into.push_str(&weekday(at)[..3]),
        Part::Month { padded } => number(at.month(), 2, zero(padded), into),
        Part::Day(padding) => number(at.day(), 2, padding, into),
        Part::DayOfYear(padding) => number(at.day_of_year(), 3, padding, into),
        Part::Hour24 => number(at.hour(), 2, Padding::Zero, into),
        Part::Hour12 { padded } => number(hour_of_twelve(at), 2, zero(padded), into),
        Part::Minute { padded } => number(at.minute(), 2, zero(padded), into),
        Part::Second { padded } => number(at.second(), 2, zero(padded), into),
        Part::LongYear => number(at.year(), 4, Padding::Zero, into),
        Part::ShortYear => number(at.year() % 100, 2, Padding::Zero, into),
        Part::HalfOfDay(case) => into.push_str(half(at.hour() >= 12, case)),
        Part::Abbreviation => {
            let info = at.time_zone().to_offset_info(at.timestamp());
            into.push_str(info.abbreviation());
        }
        Part::Offset(zone) => offset(at.offset().seconds(), zone, into),
        Part::Fraction(fraction) => write_fraction(at.subsec_nanosecond(), fraction, into),
    }
}

fn month(at: &ZonedDateTime) -> &'static str {
    name(&MONTHS, at.month() - 1)
}

fn weekday(at: &ZonedDateTime) -> &'static str {
    name(&DAYS, at.weekday().to_monday_zero_offset())
}

/// The name at an index that comes from a valid date.
fn name(names: &[&'static str], index: i8) -> &'static str {
    let index = usize::try_from(index).ok();
    index
        .and_then(|index| names.get(index).copied())
        .unwrap_or("???")
}

/// The hour on a clock of twelve, where midnight and noon are 12.
fn hour_of_twelve(at: &ZonedDateTime) -> i8 {
    (at.hour() + 11) % 12 + 1
}

fn zero(padded: bool) -> Padding {
    if padded { Padding::Zero } else { Padding::None }
}

fn number(value: impl Into<i64>, width: usize, padding: Padding, into: &mut String) {
    let value = value.into();
    // Writing to a `String` cannot fail.
    let _ = match padding {
        Padding::None => write!(into, "{value}"),
        Padding::Zero => write!(into, "{value:0width$}"),
        Padding::Space => write!(into, "{value:width$}"),
    };
}

fn half(is_second: bool, case: Case) -> &'static str {
    match (is_second, case) {
        (false, Case::Upper) => "AM",
        (true, Case::Upper) => "PM",
        (false, Case::Lower) => "am",
        (true, Case::Lower) => "pm",
    }
}

fn offset(seconds: i32, zone: Zone, into: &mut String) {
    if zone.has_z && seconds == 0 {
        return into.push('Z');
    }
    into.push(if seconds < 0 { '-' } else { '+' });
    let seconds = seconds.abs();
    let colon = if zone.has_colon { ":" } else { "" };
    number(seconds / 3600, 2, Padding::Zero, into);
    if zone.has_minutes {
        into.push_str(colon);
        number(seconds / 60 % 60, 2, Padding::Zero, into);
    }
    if zone.has_seconds {
        into.push_str(colon);
        number(seconds % 60, 2, Padding::Zero, into);
    }
}

fn write_fraction(nanoseconds: i32, fraction: Fraction, into: &mut String) {
    let all = format!("{nanoseconds:09}");
    let shown = &all[..fraction.digits.min(all.len())];
    if !fraction.is_trimmed {
        into.push(fraction.point);
        into.push_str(shown);
        // A time has nanoseconds: a layout with more digits gets zeros.
        into.extend(std::iter::repeat_n('0', fraction.digits - shown.len()));
        return;
    }

    let shown = shown.trim_end_matches('0');
    if !shown.is_empty() {
        into.push(fraction.point);
        into.push_str(shown);
    }
}
