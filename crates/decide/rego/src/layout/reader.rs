//! Reading a time by a layout.

use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::parts::Padding;
use super::{Case, DAYS, Fraction, MONTHS, Part, Zone, split};

/// Digits of a fraction of a second: a time has nanoseconds, and further digits are cut off.
const DIGITS: usize = 9;

/// The largest offset in a name such as `GMT+3`, in hours; Go has the same.
const GMT_HOURS: i32 = 23;

/// The parts of a time, as far as they have been read.
#[derive(Debug, Default)]
struct Found {
    year: i16,
    month: Option<i8>,
    day: Option<i8>,
    day_of_year: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    is_second_half: Option<bool>,
    /// Seconds from UTC.
    offset: Option<i32>,
    zone: Option<String>,
}

/// Parses a text by a layout of Go's `time.Parse`; `None` if it does not fit.
pub(crate) fn read(layout: &str, text: &str) -> Option<Timestamp> {
    let mut found = Found::default();
    let mut layout = layout;
    let mut text = text;
    loop {
        let split = split(layout);
        text = skip(text, split.before)?;
        let Some(part) = split.part else {
            return text.is_empty().then(|| found.time())?;
        };

        text = found.take(part, text)?;
        layout = split.after;
        // Go: a fraction behind the seconds is accepted even if the layout has none.
        if matches!(part, Part::Second { .. }) && !is_fraction(layout) {
            text = found.unasked_fraction(text);
        }
    }
}

/// Whether a layout continues with a fraction.
fn is_fraction(layout: &str) -> bool {
    matches!(split(layout).part, Some(Part::Fraction(_)))
}

/// Skips the literal text of a layout between two parts. A run of spaces stands for any number of spaces.
fn skip<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let mut text = text;
    let mut before = before;
    while let Some(letter) = before.chars().next() {
        if letter != ' ' {
            text = text.strip_prefix(letter)?;
            before = &before[letter.len_utf8()..];
            continue;
        }

        // At the end of the text a missing space is forgiven, as Go does.
        if !text.is_empty() && !text.starts_with(' ') {
            return None;
        }
        text = text.trim_start_matches(' ');
        before = before.trim_start_matches(' ');
    }
    Some(text)
}

impl Found {
    /// Reads a part, and returns the text behind it.
    fn take<'a>(&mut self, part: Part, text: &'a str) -> Option<&'a str> {
        match part {
            Part::LongMonth => self.named_month(text, usize::MAX),
            Part::ShortMonth => self.named_month(text, 3),
            Part::LongWeekday => one_of(&DAYS, usize::MAX, text).map(|(_, rest)| rest),
            Part::ShortWeekday => one_of(&DAYS, 3, text).map(|(_, rest)| rest),
            Part::Month { padded } => {
                let (month, rest) = number(text, padded)?;
                self.month = Some(month).filter(|month| (1..=12).contains(month));
                self.month.map(|_| rest)
            }
            Part::Day(padding) => {
                let (day, rest) = number(padded_by(padding, text), padding == Padding::Zero)?;
                self.day = Some(day);
                Some(rest)
            }
            Part::DayOfYear(padding) => self.numbered_day(padding, text),
            Part::Hour24 => number_below(24, text, false, &mut self.hour),
            Part::Hour12 { padded } => number_below(13, text, padded, &mut self.hour),
            Part::Minute { padded } => number_below(60, text, padded, &mut self.minute),
            Part::Second { padded } => number_below(60, text, padded, &mut self.second),
            Part::LongYear => {
                let (year, rest) = digits(text, 4)?;
                self.year = i16::try_from(year).ok()?;
                Some(rest)
            }
            Part::ShortYear => {
                let (year, rest) = digits(text, 2)?;
                // As in Go, two digits mean a year from 1969 to 2068.
                let century = if year >= 69 { 1900 } else { 2000 };
                self.year = i16::try_from(century + year).ok()?;
                Some(rest)
            }
            Part::HalfOfDay(case) => self.half(case, text),
            Part::Abbreviation => self.named_zone(text),
            Part::Offset(zone) => self.numbered_zone(zone, text),
            Part::Fraction(fraction) => self.fraction(fraction, text),
        }
    }

    fn named_month<'a>(&mut self, text: &'a str, length: usize) -> Option<&'a str> {
        let (index, rest) = one_of(&MONTHS, length, text)?;
        self.month = i8::try_from(index + 1).ok();
        Some(rest)
    }

    fn numbered_day<'a>(&mut self, padding: Padding, text: &'a str) -> Option<&'a str> {
        // Three columns hold one digit at least, so there are two spaces at most.
        let text = (0..2).fold(text, |text, _| padded_by(padding, text));
        let length = text.bytes().take(3).take_while(u8::is_ascii_digit).count();
        let is_whole = length == 3 || (length > 0 && padding != Padding::Zero);
        let (day, rest) = digits(text, length).filter(|_| is_whole)?;
        self.day_of_year = i16::try_from(day).ok();
        Some(rest)
    }

    fn half<'a>(&mut self, case: Case, text: &'a str) -> Option<&'a str> {
        let [first, second] = match case {
            Case::Upper => ["AM", "PM"],
            Case::Lower => ["am", "pm"],
        };
        if let Some(rest) = text.strip_prefix(first) {
            self.is_second_half = Some(false);
            return Some(rest);
        }
        self.is_second_half = Some(true);
        text.strip_prefix(second)
    }

    /// The abbreviation of a time zone. Only UTC has the same offset everywhere.
    fn named_zone<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if let Some(rest) = text.strip_prefix("UTC") {
            self.offset = Some(0);
            return Some(rest);
        }
        let (name, rest) = text.split_at(abbreviation(text)?);
        self.zone = Some(name.to_owned());
        Some(rest)
    }

    fn numbered_zone<'a>(&mut self, zone: Zone, text: &'a str) -> Option<&'a str> {
        if let Some(rest) = text.strip_prefix('Z').filter(|_| zone.has_z) {
            self.offset = Some(0);
            return Some(rest);
        }

        let (sign, rest) = match text.chars().next()? {
            '+' => (1, &text[1..]),
            '-' => (-1, &text[1..]),
            _ => return None,
        };
        let (hours, mut rest) = digits(rest, 2)?;
        let mut parts = [hours, 0, 0];
        let further = [zone.has_minutes, zone.has_seconds];
        for (part, _) in parts[1..]
            .iter_mut()
            .zip(further)
            .filter(|(_, is_there)| *is_there)
        {
            if zone.has_colon {
                rest = rest.strip_prefix(':')?;
            }
            (*part, rest) = digits(rest, 2)?;
        }

        // Go's bounds, which include 24 and 60.
        let [hours, minutes, seconds] = parts;
        let is_valid = hours <= 24 && minutes <= 60 && seconds <= 60;
        self.offset = Some(sign * ((hours * 60 + minutes) * 60 + seconds));
        is_valid.then_some(rest)
    }

    fn fraction<'a>(&mut self, fraction: Fraction, text: &'a str) -> Option<&'a str> {
        if fraction.is_trimmed {
            return Some(self.unasked_fraction(text));
        }
        let rest = text.strip_prefix(['.', ','])?;
        let shown = rest.get(..fraction.digits)?;
        self.nanosecond = nanoseconds(shown)?;
        Some(&rest[fraction.digits..])
    }

    /// A point and any number of digits, if they are there.
    fn unasked_fraction<'a>(&mut self, text: &'a str) -> &'a str {
        let Some(rest) = text.strip_prefix(['.', ',']) else {
            return text;
        };
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        match nanoseconds(&rest[..length]) {
            Some(nanoseconds) => {
                self.nanosecond = nanoseconds;
                &rest[length..]
            }
            None => text,
        }
    }

    fn time(self) -> Option<Timestamp> {
        let hour = match self.is_second_half {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let time = Time::new(hour, self.minute, self.second, self.nanosecond).ok()?;
        let written = self.date()?.to_datetime(time);
        // Read as UTC first: an abbreviation names an offset only at a given time.
        let in_utc = Offset::UTC.to_timestamp(written).ok()?;

        let offset = match (self.offset, &self.zone) {
            (Some(offset), _) => offset,
            (None, Some(name)) => offset_of(name, in_utc),
            (None, None) => 0,
        };
        in_utc
            .checked_sub(SignedDuration::from_secs(offset.into()))
            .ok()
    }

    fn date(&self) -> Option<Date> {
        let Some(number) = self.day_of_year else {
            return Date::new(self.year, self.month.unwrap_or(1), self.day.unwrap_or(1)).ok();
        };
        let first = Date::new(self.year, 1, 1).ok()?;
        let is_there = (1..=first.days_in_year()).contains(&number);
        let date = first.with().day_of_year(number).build().ok()?;

        // A layout may have the day of the year beside month and day: they have to agree.
        let fits = |said: Option<i8>, is: i8| said.is_none_or(|said| said == is);
        let agrees = fits(self.month, date.month()) && fits(self.day, date.day());
        (is_there && agrees).then_some(date)
    }
}

/// The name that a text begins with, in any case, and the text behind it.
fn one_of<'a>(names: &[&str], length: usize, text: &'a str) -> Option<(usize, &'a str)> {
    let shown = |name: &str| name.len().min(length);
    let index = names.iter().position(|name| {
        let name = &name[..shown(name)];
        text.get(..name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name))
    })?;
    Some((index, &text[shown(names[index])..]))
}

/// A text without a space that pads a number.
fn padded_by(padding: Padding, text: &str) -> &str {
    match padding {
        Padding::Space => text.strip_prefix(' ').unwrap_or(text),
        _ => text,
    }
}

/// A number of two digits, or of one unless it has to be padded.
fn number(text: &str, padded: bool) -> Option<(i8, &str)> {
    let length = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (value, rest) = digits(text, length).filter(|_| length == 2 || (length == 1 && !padded))?;
    Some((i8::try_from(value).ok()?, rest))
}

/// This many digits, and the text behind them.
fn digits(text: &str, length: usize) -> Option<(i32, &str)> {
    let shown = text.get(..length)?;
    let is_number = !shown.is_empty() && shown.bytes().all(|byte| byte.is_ascii_digit());
    let value = shown.parse().ok().filter(|_| is_number)?;
    Some((value, &text[length..]))
}

/// Reads a number below `bound` into `into`; returns the text behind it.
fn number_below<'a>(bound: i8, text: &'a str, padded: bool, into: &mut i8) -> Option<&'a str> {
    let (value, rest) = number(text, padded)?;
    *into = value;
    (value < bound).then_some(rest)
}

/// Digits behind the point of a second.
fn nanoseconds(shown: &str) -> Option<i32> {
    if shown.is_empty() || !shown.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = &shown[..shown.len().min(DIGITS)];
    let value: i32 = kept.parse().ok()?;
    let missing = u32::try_from(DIGITS - kept.len()).ok()?;
    Some(value * 10_i32.pow(missing))
}

/// The length of the zone abbreviation at the start of a text: three capitals, or four or five that end with `T`; Go lists the
/// exceptions.
fn abbreviation(text: &str) -> Option<usize> {
    if text.starts_with("ChST") || text.starts_with("MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix("GMT") {
        return Some("GMT".len() + signed_hours(rest).unwrap_or(0));
    }
    // One letter beyond the longest, so that six capitals are not cut down to a name of five.
    let letters = text
        .bytes()
        .take(6)
        .take_while(u8::is_ascii_uppercase)
        .count();
    let ends_with_t = letters > 3 && text.as_bytes().get(letters - 1) == Some(&b'T');
    match letters {
        3 => Some(3),
        4 if ends_with_t || text.starts_with("WITA") => Some(4),
        5 if ends_with_t => Some(5),
        _ => None,
    }
}

/// The length of a sign and hours.
fn signed_hours(text: &str) -> Option<usize> {
    let digits = text.strip_prefix(['+', '-'])?;
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let hours: i32 = digits[..length].parse().ok()?;
    (hours <= GMT_HOURS).then_some(1 + length)
}

/// The offset from UTC of an abbreviation in seconds, if the zone of this machine uses it at that time; zero otherwise, even for
/// `GMT+3`: Go does the same.
fn offset_of(name: &str, at: Timestamp) -> i32 {
    let own = crate::zones::zone("Local").unwrap_or(TimeZone::UTC);
    let info = own.to_offset_info(at);
    if info.abbreviation() == name {
        info.offset().seconds()
    } else {
        0
    }
}
