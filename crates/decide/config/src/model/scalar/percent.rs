//! A share of a whole, always with its sign: `1%`.

use std::fmt;
use std::str::FromStr;

use super::{ScalarError, scalar};

/// A percentage from 0% to 100%, with up to four decimals, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(pub u32);

scalar!(
    Percent,
    "hermes-percent",
    "A share of a whole: 1%, 0.01%, 100%."
);

/// Millionths in one per cent.
const ONE: u32 = 10_000;

/// Decimals of a percentage.
const DECIMALS: usize = 4;

impl Percent {
    /// This share of `whole`, rounded down.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        let share = u128::from(whole) * u128::from(self.0) / u128::from(100 * ONE);
        u64::try_from(share).unwrap_or(whole)
    }
}

impl FromStr for Percent {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let wrong = || {
            ScalarError::new(format!("`{text}` is not a percentage"))
                .remedy("write it like 1% or 0.5%")
        };

        let number = text.strip_suffix('%').ok_or_else(wrong)?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());

        if !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS {
            return Err(wrong());
        }
        let millionths = whole
            .parse()
            .ok()
            .filter(|whole: &u32| *whole <= 100)
            .ok_or_else(wrong)?
            * ONE;

        let fraction: u32 = format!("{decimals:0<DECIMALS$}")
            .parse()
            .map_err(|_| wrong())?;
        Some(Self(millionths + fraction))
            .filter(|share| share.0 <= 100 * ONE)
            .ok_or_else(wrong)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:0DECIMALS$}", self.0 % ONE);
        match decimals.trim_end_matches('0') {
            "" => write!(out, "{}%", self.0 / ONE),
            decimals => write!(out, "{}.{decimals}%", self.0 / ONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Percent;

    #[test]
    fn percentages_round_trip() {
        for (text, millionths) in [
            ("0%", 0),
            ("1%", 10_000),
            ("0.0001%", 1),
            ("12.5%", 125_000),
            ("100%", 1_000_000),
        ] {
            let percent: Percent = text.parse().unwrap();
            assert_eq!(
                (percent.0, percent.to_string().as_str()),
                (millionths, text)
            );
        }
    }

    #[test]
    fn a_share_of_a_whole_is_rounded_down() {
        let of = |text: &str, whole| text.parse::<Percent>().unwrap().of(whole);
        assert_eq!(
            [
                of("50%", 5),
                of("0.1%", 1000),
                of("99.9999%", 10),
                of("100%", u64::MAX)
            ],
            [2, 1, 9, u64::MAX]
        );
    }

    #[test]
    fn odd_percentages_are_refused() {
        for text in [
            "",
            "1",
            "%",
            "-1%",
            "101%",
            "100.1%",
            "1.%",
            ".5%",
            "1.00001%",
            "1 %",
            "+1%",
            "99999999999%",
        ] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
