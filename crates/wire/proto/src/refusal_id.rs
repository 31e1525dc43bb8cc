//! The name of a refusal, by which the node that refused can be asked for its reasons.
//!
//! The name is random and reveals nothing: a stranger may see it. It travels as the parameter
//! `refusal` of `Proxy-Status`, an extension of RFC 9209, section 2.1, which other nodes ignore.

use std::fmt;
use std::str::FromStr;

/// Letters of a name, each of which stands for four bits; there are no vowels, so that they form no
/// words.
const LETTERS: &[u8; 16] = b"bcdfghjklmnpqrst";

/// Letters in a name: 48 bits, so that two of the refusals that a node remembers rarely share one.
const LENGTH: usize = 12;

/// The name of a refusal: twelve letters.
///
/// # Examples
/// ```
/// use hermes_proto::refusal_id::RefusalId;
///
/// let id = RefusalId::from_random(0x0123_4567_89ab);
/// assert_eq!(id.to_string(), "bcdfghjklmnp");
/// assert_eq!("bcdfghjklmnp".parse(), Ok(id));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RefusalId([u8; LENGTH]);

impl RefusalId {
    /// Of a random number.
    pub fn from_random(random: u64) -> Self {
        let mut letters = [0; LENGTH];
        for (place, letter) in letters.iter_mut().rev().enumerate() {
            // Four bits are below the number of letters.
            *letter = LETTERS[(random >> (4 * place)) as usize % LETTERS.len()];
        }
        Self(letters)
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        // Its letters are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for RefusalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text is no name of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a refusal is named by {LENGTH} letters out of bcdfghjklmnpqrst")]
pub struct NoRefusalId;

impl FromStr for RefusalId {
    type Err = NoRefusalId;

    fn from_str(text: &str) -> Result<Self, NoRefusalId> {
        let letters: [u8; LENGTH] = text.as_bytes().try_into().map_err(|_| NoRefusalId)?;
        if letters.iter().all(|letter| LETTERS.contains(letter)) {
            Ok(Self(letters))
        } else {
            Err(NoRefusalId)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "bcdfghjklmn",
            "bcdfghjklmnpp",
            "bcdfghjklmna",
            "BCDFGHJKLMNP",
        ] {
            assert_eq!(text.parse::<RefusalId>(), Err(NoRefusalId), "{text}");
        }
    }

    proptest! {
        #[test]
        fn is_read_as_it_is_written(random in any::<u64>()) {
            let id = RefusalId::from_random(random);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
