//! Durations and sizes: a number and its unit, always both.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, scalar};

/// A duration such as `5s`, `250ms`, `2m`, `1h` or `1m30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub std::time::Duration);

scalar!(
    Duration,
    "hermes-duration",
    "A duration with its unit: 250ms, 5s, 2m, 1h, 1m30s."
);

/// Units of time in milliseconds, the largest first.
const TIME_UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl FromStr for Duration {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let wrong = || {
            ScalarError::new(format!("`{text}` is not a duration"))
                .remedy("write it like 250ms, 5s or 1m30s")
        };

        if is_number(text) {
            return Err(ScalarError::new(format!("`{text}` has no unit"))
                .remedy(format!("write {text}s or {text}ms")));
        }

        let mut rest = text;
        let mut total: u64 = 0;
        let mut bound = u64::MAX;

        while !rest.is_empty() {
            let (number, after) = split_number(rest).ok_or_else(wrong)?;
            let (unit, after) = split_unit(after);
            let (_, millis) = TIME_UNITS
                .into_iter()
                .find(|(name, _)| *name == unit)
                .ok_or_else(wrong)?;

            if millis >= bound {
                return Err(wrong());
            }
            bound = millis;
            let part = number
                .checked_mul(millis)
                .and_then(|part| total.checked_add(part));
            total = part.ok_or_else(|| ScalarError::new(format!("`{text}` is too long")))?;
            rest = after;
        }

        if text.is_empty() {
            Err(wrong())
        } else {
            Ok(Self(std::time::Duration::from_millis(total)))
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return out.write_str("0s");
        }

        for (unit, millis) in TIME_UNITS {
            if rest >= millis {
                write!(out, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }

        Ok(())
    }
}

/// A number of bytes such as `160KiB`, `1MiB` or `9000B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

scalar!(
    ByteSize,
    "hermes-byte-size",
    "A number of bytes with its unit: 9000B, 160KiB, 1MiB (binary) or 64KB, 1MB (decimal)."
);

/// Units of size in bytes; the binary ones first, the largest first.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1000),
];

impl FromStr for ByteSize {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let wrong = || {
            ScalarError::new(format!("`{text}` is not a size"))
                .remedy("write it like 9000B, 160KiB or 1MiB")
        };

        if is_number(text) {
            return Err(ScalarError::new(format!("`{text}` has no unit"))
                .remedy(format!("write {text}B or {text}KiB")));
        }

        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let (_, bytes) = SIZE_UNITS
            .into_iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;

        number
            .checked_mul(bytes)
            .map(Self)
            .ok_or_else(|| ScalarError::new(format!("`{text}` is too large")))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, bytes) in &SIZE_UNITS[..4] {
            if self.0 >= *bytes && self.0.is_multiple_of(*bytes) {
                return write!(out, "{}{unit}", self.0 / bytes);
            }
        }
        write!(out, "{}B", self.0)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Leading digits as a number, and the rest.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, &text[end..]))
}

/// Leading letters, and the rest.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(
        text.find(|letter: char| !letter.is_ascii_alphabetic())
            .unwrap_or(text.len()),
    )
}

#[cfg(test)]
mod tests {
    use super::{ByteSize, Duration};

    #[test]
    fn durations_round_trip() {
        for (text, millis) in [
            ("250ms", 250),
            ("5s", 5000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1m30s", 90_000),
            ("0s", 0),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration.0.as_millis(), millis);
            assert_eq!(duration.to_string(), text);
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_a_remedy() {
        let error = "5".parse::<Duration>().unwrap_err();
        assert_eq!(error.to_string(), "`5` has no unit; write 5s or 5ms");
    }

    #[test]
    fn odd_durations_are_refused() {
        for text in [
            "",
            "s",
            "1.5s",
            "5 s",
            "-5s",
            "1s1m",
            "1s1s",
            "5sec",
            "99999999999999999999s",
            "9999999999999999h",
        ] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_round_trip() {
        for (text, bytes) in [
            ("160KiB", 163_840),
            ("1MiB", 1 << 20),
            ("9000B", 9000),
            ("0B", 0),
            ("2GiB", 2 << 30),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size.0, bytes);
            assert_eq!(size.to_string(), text);
        }
        assert_eq!("64KB".parse::<ByteSize>().unwrap(), ByteSize(64_000));
    }

    #[test]
    fn odd_sizes_are_refused() {
        for text in [
            "",
            "9000",
            "KiB",
            "1kib",
            "1 KiB",
            "1.5MiB",
            "-1B",
            "99999999999GiB",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
