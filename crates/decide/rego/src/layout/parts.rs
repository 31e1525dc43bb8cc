//! The parts of a layout.

/// A part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    LongMonth,
    ShortMonth,
    Month { padded: bool },
    LongWeekday,
    ShortWeekday,
    Day(Padding),
    DayOfYear(Padding),
    Hour24,
    Hour12 { padded: bool },
    Minute { padded: bool },
    Second { padded: bool },
    LongYear,
    ShortYear,
    HalfOfDay(Case),
    Abbreviation,
    Offset(Zone),
    Fraction(Fraction),
}

/// The padding before a number of fewer digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    None,
    Zero,
    Space,
}

/// How `AM` and `PM` are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
}

/// The form of an offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Zone {
    /// UTC is `Z`.
    pub(super) has_z: bool,
    pub(super) has_colon: bool,
    pub(super) has_minutes: bool,
    pub(super) has_seconds: bool,
}

/// Digits of a second behind its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fraction {
    pub(super) point: char,
    pub(super) digits: usize,
    /// Zeros at the end, and a point without digits, are left out.
    pub(super) is_trimmed: bool,
}

/// A layout at its first part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split<'a> {
    pub(super) before: &'a str,
    pub(super) part: Option<Part>,
    pub(super) after: &'a str,
}

/// The parts of which the longer ones stand before those that they begin with.
const TEXTS: &[(&str, Part)] = &[
    ("January", Part::LongMonth),
    ("Monday", Part::LongWeekday),
    ("MST", Part::Abbreviation),
    ("002", Part::DayOfYear(Padding::Zero)),
    ("01", Part::Month { padded: true }),
    ("02", Part::Day(Padding::Zero)),
    ("03", Part::Hour12 { padded: true }),
    ("04", Part::Minute { padded: true }),
    ("05", Part::Second { padded: true }),
    ("06", Part::ShortYear),
    ("15", Part::Hour24),
    ("1", Part::Month { padded: false }),
    ("2006", Part::LongYear),
    ("2", Part::Day(Padding::None)),
    ("__2", Part::DayOfYear(Padding::Space)),
    ("3", Part::Hour12 { padded: false }),
    ("4", Part::Minute { padded: false }),
    ("5", Part::Second { padded: false }),
    ("PM", Part::HalfOfDay(Case::Upper)),
    ("pm", Part::HalfOfDay(Case::Lower)),
    ("-070000", offset(false, false, true, true)),
    ("-07:00:00", offset(false, true, true, true)),
    ("-0700", offset(false, false, true, false)),
    ("-07:00", offset(false, true, true, false)),
    ("-07", offset(false, false, false, false)),
    ("Z070000", offset(true, false, true, true)),
    ("Z07:00:00", offset(true, true, true, true)),
    ("Z0700", offset(true, false, true, false)),
    ("Z07:00", offset(true, true, true, false)),
    ("Z07", offset(true, false, false, false)),
];

const fn offset(has_z: bool, has_colon: bool, has_minutes: bool, has_seconds: bool) -> Part {
    Part::Offset(Zone {
        has_z,
        has_colon,
        has_minutes,
        has_seconds,
    })
}

/// The first part of a layout, and the text around it.
pub(super) fn split(layout: &str) -> Split<'_> {
    for (at, _) in layout.char_indices() {
        let rest = &layout[at..];
        if let Some((part, length)) = part_at(rest) {
            return Split {
                before: &layout[..at],
                part: Some(part),
                after: &rest[length..],
            };
        }
        // The year of `_2006` is no padded day.
        if let Some(after) = rest.strip_prefix("_2006") {
            return Split {
                before: &layout[..=at],
                part: Some(Part::LongYear),
                after,
            };
        }
    }

    Split {
        before: layout,
        part: None,
        after: "",
    }
}

/// The part that a text begins with, and its length.
fn part_at(text: &str) -> Option<(Part, usize)> {
    if let Some((name, part)) = TEXTS.iter().find(|(name, _)| text.starts_with(name)) {
        return Some((*part, name.len()));
    }
    // `Jan` and `Mon` within a longer word do not count.
    let is_word = |text: &str| text.starts_with(|letter: char| letter.is_ascii_lowercase());
    for (name, part) in [("Jan", Part::ShortMonth), ("Mon", Part::ShortWeekday)] {
        if text.strip_prefix(name).is_some_and(|after| !is_word(after)) {
            return Some((part, name.len()));
        }
    }
    if text.starts_with("_2") && !text.starts_with("_2006") {
        return Some((Part::Day(Padding::Space), 2));
    }
    fraction_at(text)
}

/// A point with zeros or nines, behind which no further digit stands.
fn fraction_at(text: &str) -> Option<(Part, usize)> {
    let point = text.chars().next().filter(|point| ".,".contains(*point))?;
    let digit = text
        .as_bytes()
        .get(1)
        .copied()
        .filter(|digit| matches!(digit, b'0' | b'9'))?;
    let digits = text
        .bytes()
        .skip(1)
        .take_while(|byte| *byte == digit)
        .count();
    let is_followed = text
        .as_bytes()
        .get(1 + digits)
        .is_some_and(u8::is_ascii_digit);

    let fraction = Fraction {
        point,
        digits,
        is_trimmed: digit == b'9',
    };
    (!is_followed).then_some((Part::Fraction(fraction), 1 + digits))
}
