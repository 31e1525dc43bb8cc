//! Parts of a stored content (RFC 9110, section 14; RFC 9111, section 3.3).

use std::ops::Range;

use hermes_proto::fields::Fields;

use crate::control::joined;
use crate::freshness::only_date;

/// The part of a content that answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it: no range was asked for, or none that has to be obeyed.
    Whole,
    /// These bytes, at least one: 206.
    Bytes(Range<u64>),
    /// None of it: 416.
    Unsatisfiable,
}

/// The part of a stored content of `length` bytes that a request asks for. Several ranges are answered by the whole, which costs no
/// more than one content, however many they are (RFC 9110, section 14.2).
pub(crate) fn part(request: &Fields, stored: &Fields, length: u64) -> Part {
    let mut values = request.values("range");
    let (Some(value), None) = (values.next(), values.next()) else {
        return Part::Whole;
    };
    if !is_of_same_content(request, stored) {
        return Part::Whole;
    }

    let Some(range) = value.to_str().ok().and_then(asked) else {
        return Part::Whole;
    };
    let bytes = match range {
        RangeSpec::From(first, last) => {
            first..last.map_or(length, |last| last.saturating_add(1).min(length))
        }
        RangeSpec::Last(count) => length.saturating_sub(count)..length,
    };
    if bytes.is_empty() {
        Part::Unsatisfiable
    } else {
        Part::Bytes(bytes)
    }
}

/// The place of a part in its content, as `Content-Range` says it (RFC 9110, section 14.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentRange {
    pub(crate) first: u64,
    last: u64,
    /// The length of the whole.
    pub(crate) of: u64,
}

impl ContentRange {
    /// Reads the field; `None` if it does not say exactly which part it is, and of how much.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let (unit, rest) = value.split_once(' ')?;
        let (range, of) = rest.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let range = Self {
            first: number(first)?,
            last: number(last)?,
            of: number(of)?,
        };
        let is_sound = range.first <= range.last && range.last < range.of;
        (unit.eq_ignore_ascii_case("bytes") && is_sound).then_some(range)
    }

    /// Bytes of the part.
    pub(crate) fn length(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// A range as a client asks for it.
enum RangeSpec {
    /// From this byte on, to that one if there is one.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Last(u64),
}

/// The one range of a field; `None` if it is of another unit, malformed, or one of several.
fn asked(value: &str) -> Option<RangeSpec> {
    let (unit, range) = value.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || range.contains(',') {
        return None;
    }

    let (first, last) = range.trim().split_once('-')?;
    if first.is_empty() {
        return number(last).map(RangeSpec::Last);
    }
    let first = number(first)?;
    if last.is_empty() {
        return Some(RangeSpec::From(first, None));
    }
    let last = number(last).filter(|last| *last >= first)?;
    Some(RangeSpec::From(first, Some(last)))
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

/// RFC 9110, section 13.1.5: `If-Range` needs a strong entity tag, or exactly the date of the content.
fn is_of_same_content(request: &Fields, stored: &Fields) -> bool {
    if !request.contains_key("if-range") {
        return true;
    }
    let asked = joined(request, "if-range");
    if asked.starts_with('"') {
        return asked == joined(stored, "etag");
    }
    let date = only_date(request, "if-range");
    date.is_some() && date == only_date(stored, "last-modified")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn of(range: &str) -> Part {
        let mut request = Fields::new();
        request.append("range", HeaderValue::from_str(range).unwrap());
        part(&request, &Fields::new(), 10)
    }

    #[test]
    fn rfc_9110_section_14_1_2_ranges_are_read() {
        assert_eq!(of("bytes=0-0"), Part::Bytes(0..1));
        assert_eq!(of("bytes=4-"), Part::Bytes(4..10));
        assert_eq!(of("Bytes=4-99"), Part::Bytes(4..10));
        assert_eq!(of("bytes=-3"), Part::Bytes(7..10));
        assert_eq!(of("bytes=-30"), Part::Bytes(0..10));
        for none in ["bytes=10-", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of(none), Part::Unsatisfiable, "{none}");
        }
    }

    #[test]
    fn rfc_9110_section_14_4_the_place_of_a_part_is_read_where_it_is_said() {
        let range = ContentRange {
            first: 2,
            last: 4,
            of: 10,
        };
        assert_eq!(ContentRange::parse("bytes 2-4/10"), Some(range));
        assert_eq!(range.length(), 3);
        for wrong in [
            "bytes 2-4/*",
            "bytes */10",
            "bytes 4-2/10",
            "bytes 2-10/10",
            "lines 2-4/10",
            "bytes=2-4/10",
            "bytes -4/10",
            "bytes 2-4/10, bytes 5-6/10",
            "",
        ] {
            assert_eq!(ContentRange::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn rfc_9110_section_14_2_other_ranges_are_answered_by_the_whole() {
        for other in [
            "bytes=5-4",
            "lines=1-2",
            "bytes=0-1,2-3",
            "bytes",
            "bytes=a-b",
            "bytes=+1-2",
        ] {
            assert_eq!(of(other), Part::Whole, "{other}");
        }
    }

    #[test]
    fn rfc_9110_section_13_1_5_if_range_needs_the_same_content() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let cases = [
            ("\"a\"", "\"a\"", Part::Bytes(0..1)),
            ("\"b\"", "\"a\"", Part::Whole),
            ("W/\"a\"", "W/\"a\"", Part::Whole),
            (date, "\"a\"", Part::Bytes(0..1)),
            ("Mon, 07 Nov 1994 08:49:37 GMT", "\"a\"", Part::Whole),
        ];
        for (asked, tag, expected) in cases {
            let mut request = Fields::new();
            request.append("range", HeaderValue::from_static("bytes=0-0"));
            request.append("if-range", HeaderValue::from_str(asked).unwrap());
            let mut stored = Fields::new();
            stored.append("etag", HeaderValue::from_str(tag).unwrap());
            stored.append("last-modified", HeaderValue::from_static(date));
            assert_eq!(part(&request, &stored, 10), expected, "{asked}");
        }
    }

    proptest! {
        #[test]
        fn any_part_lies_within_the_content(range in "(bytes=)?[0-9,-]{0,24}") {
            if let Part::Bytes(bytes) = of(&range) {
                prop_assert!(bytes.start < bytes.end && bytes.end <= 10);
            }
        }
    }
}
