//! Rates: a number and the time it is for, always both.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, scalar};

/// A number of events in a second, such as `3 per second`; at most 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u16);

scalar!(
    Rate,
    "hermes-rate",
    "A rate: 3 per second, up to 10000 per second."
);

/// Far above any useful rate, far below an overflow in thousandths.
const MAX_RATE: u32 = 10_000;

impl FromStr for Rate {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let number = text
            .strip_suffix(" per second")
            .and_then(digits)
            .filter(|number| *number <= MAX_RATE);
        number
            .and_then(|number| u16::try_from(number).ok())
            .map(Self)
            .ok_or_else(|| {
                let remedy = format!("write it like 3 per second, up to {MAX_RATE} per second");
                ScalarError::new(format!("`{text}` is not a rate")).remedy(remedy)
            })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} per second", self.0)
    }
}

/// A number that is written in digits only.
fn digits(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[test]
    fn rates_round_trip() {
        for text in ["0 per second", "3 per second", "10000 per second"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn odd_rates_are_refused() {
        for text in [
            "",
            "3",
            "3/s",
            "3 per minute",
            " per second",
            "+3 per second",
            "10001 per second",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
