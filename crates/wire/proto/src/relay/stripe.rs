//! Shares of a channel, one for each way of a subscriber that has several.

use std::fmt;
use std::str::FromStr;

/// The most shares of a channel.
#[doc(alias = "bound")]
pub const MAX_SHARES: u8 = 16;

/// One share of a channel's messages, written `K/N`, K from 1 to N: it has the messages whose numbers leave the same as K when they are
/// divided by N.
///
/// # Examples
/// ```
/// use hermes_proto::relay::Stripe;
///
/// let odd: Stripe = "1/2".parse()?;
/// assert!(odd.has(7) && !odd.has(8));
/// assert_eq!(odd.count(2, 7), 3);
/// # Ok::<(), hermes_proto::relay::StripeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    share: u8,
    of: u8,
}

/// A text or two numbers are no share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a share is written K/N, with K from 1 to N and N at most {MAX_SHARES}, such as 1/2")]
pub struct StripeError;

impl Stripe {
    /// The share of this number of so many.
    ///
    /// # Errors
    /// There are none, or more than [`MAX_SHARES`], or fewer than the number.
    pub fn new(share: u8, of: u8) -> Result<Self, StripeError> {
        let is_one = of <= MAX_SHARES && (1..=of).contains(&share);
        is_one.then_some(Self { share, of }).ok_or(StripeError)
    }

    /// Whether it has the message of this number.
    #[must_use]
    pub fn has(self, sequence: u64) -> bool {
        let of = u64::from(self.of);
        sequence % of == u64::from(self.share) % of
    }

    /// Its messages behind the first number, up to the second.
    #[must_use]
    pub fn count(self, after: u64, until: u64) -> u64 {
        self.up_to(until).saturating_sub(self.up_to(after))
    }

    fn up_to(self, last: u64) -> u64 {
        let behind_first = last.checked_sub(u64::from(self.share));
        behind_first.map_or(0, |behind| behind / u64::from(self.of) + 1)
    }
}

impl fmt::Display for Stripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.share, self.of)
    }
}

impl FromStr for Stripe {
    type Err = StripeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (share, of) = text.split_once('/').ok_or(StripeError)?;
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse().map_err(|_| StripeError),
            false => Err(StripeError),
        };
        Self::new(number(share)?, number(of)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_in_one_share() {
        for of in 1..=MAX_SHARES {
            let shares = (1..=of).map(|share| Stripe::new(share, of).unwrap());
            let shares: Vec<_> = shares.collect();
            for sequence in 1..200 {
                let has_it = shares.iter().filter(|share| share.has(sequence));
                assert_eq!(has_it.count(), 1, "{sequence} of {of}");
            }
            for share in shares {
                let counted = (41..=99).filter(|sequence| share.has(*sequence)).count();
                assert_eq!(share.count(40, 99), counted as u64, "{share}");
                assert_eq!(share.count(99, 40), 0);
                assert_eq!(share.to_string().parse(), Ok(share));
            }
        }
    }

    #[test]
    fn other_texts_are_no_shares() {
        for text in [
            "", "1", "0/2", "3/2", "1/0", "1/17", "+1/2", "1/256", "1/2/3", "a/b",
        ] {
            assert_eq!(text.parse::<Stripe>(), Err(StripeError), "{text}");
        }
    }
}
