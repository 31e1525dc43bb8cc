//! Layouts of times as Go's package `time` has them, by which OPA's `time.format` writes and `time.parse_ns` reads: each part of a time
//! stands where the same part of `Mon Jan 2 15:04:05 2006 -0700` does.

mod parts;
mod reader;
mod writer;

pub(crate) use reader::read;
pub(crate) use writer::write;

use parts::{Case, Fraction, Part, Zone, split};

/// Layouts that have a name in OPA.
const NAMED: &[(&str, &str)] = &[
    ("ANSIC", "Mon Jan _2 15:04:05 2006"),
    ("UnixDate", "Mon Jan _2 15:04:05 MST 2006"),
    ("RubyDate", "Mon Jan 02 15:04:05 -0700 2006"),
    ("RFC822", "02 Jan 06 15:04 MST"),
    ("RFC822Z", "02 Jan 06 15:04 -0700"),
    ("RFC850", "Monday, 02-Jan-06 15:04:05 MST"),
    ("RFC1123", "Mon, 02 Jan 2006 15:04:05 MST"),
    ("RFC1123Z", "Mon, 02 Jan 2006 15:04:05 -0700"),
    ("RFC3339", "2006-01-02T15:04:05Z07:00"),
    ("RFC3339Nano", RFC_3339_NANO),
];

/// The default layout.
pub(crate) const RFC_3339_NANO: &str = "2006-01-02T15:04:05.999999999Z07:00";

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The layout that has this name, or is written so.
pub(crate) fn named(layout: &str) -> &str {
    NAMED
        .iter()
        .find(|(name, _)| *name == layout)
        .map_or(layout, |(_, layout)| layout)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use super::*;

    /// 2026-02-03T04:05:06.007080900Z.
    fn moment() -> Timestamp {
        Timestamp::from_nanosecond(1_770_091_506_007_080_900).unwrap()
    }

    fn in_zone(zone: &str, layout: &str) -> String {
        let zone = TimeZone::get(zone).unwrap();
        write(&moment().to_zoned_datetime(zone), named(layout))
    }

    #[test]
    fn each_named_layout_is_written_as_its_document_has_it() {
        for (layout, written) in [
            ("ANSIC", "Mon Feb  2 20:05:06 2026"),
            ("UnixDate", "Mon Feb  2 20:05:06 PST 2026"),
            ("RubyDate", "Mon Feb 02 20:05:06 -0800 2026"),
            ("RFC822", "02 Feb 26 20:05 PST"),
            ("RFC850", "Monday, 02-Feb-26 20:05:06 PST"),
            ("RFC1123Z", "Mon, 02 Feb 2026 20:05:06 -0800"),
            ("RFC3339", "2026-02-02T20:05:06-08:00"),
            ("RFC3339Nano", "2026-02-02T20:05:06.0070809-08:00"),
        ] {
            assert_eq!(in_zone("America/Los_Angeles", layout), written, "{layout}");
        }
    }

    #[test]
    fn each_part_has_its_forms() {
        for (layout, written) in [
            ("3:4PM 5s", "4:5AM 6s"),
            ("03 pm", "04 am"),
            ("002 __2 _2", "034  34  3"),
            ("1/2/06", "2/3/26"),
            ("05.000,000000", "06.007,007080"),
            ("05.999 05.99", "06.007 06"),
            ("Z07:00 Z0700 Z07 -07:00:00", "Z Z Z +00:00:00"),
            ("_2006 Janet Jan", "_2026 Janet Feb"),
            ("at .0x", "at .0x"),
        ] {
            let read = write(&moment().to_zoned_datetime(TimeZone::UTC), layout);
            assert_eq!(read, written, "{layout}");
        }
    }

    #[test]
    fn times_are_read_by_their_layout() {
        let seconds =
            |layout: &str, text: &str| read(named(layout), text).map(|at| at.as_nanosecond());
        let second = |seconds: i128| Some(seconds * 1_000_000_000);
        for (layout, text, at) in [
            ("2006-01-02", "2026-02-03", second(1_770_076_800)),
            (
                "RFC1123",
                "Tue, 03 Feb 2026 04:05:06 GMT",
                second(1_770_091_506),
            ),
            ("RFC822Z", "03 Feb 26 04:05 +0100", second(1_770_087_900)),
            ("ANSIC", "tue FEB  3 04:05:06 2026", second(1_770_091_506)),
            ("2006 002 15h", "2024 060 23h", second(1_709_247_600)),
            ("3:04PM 2 Jan 2006", "12:30AM 1 January 1970", None),
            ("3:04PM 2 Jan 2006", "12:30AM 1 Jan 1970", second(1_800)),
            ("06", "69", second(-31_536_000)),
            ("06", "68", second(3_092_601_600)),
            ("2006 15:04:05 MST", "1970 00:00:00 GMT-3", second(0)),
            ("2006-01-02", "2026-02-30", None),
            ("2006-01-02", "2026-02-03 ", None),
            ("15:04", "24:60", None),
        ] {
            assert_eq!(seconds(layout, text), at, "{layout}: {text}");
        }
        // A fraction behind seconds is read even if the layout has none.
        assert_eq!(seconds("2006 5", "1970 1.5"), Some(1_500_000_000));
    }
}
