//! Which of two states is the newer one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of a state of the overlay.
///
/// Ordered by epoch, then by number. A restored backup begins a new epoch, so that its numbers are newer than all that nodes have
/// seen. Written as `42` in the first epoch, and as `2.42` in later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision {
    /// How often the store was restored, and 1.
    pub epoch: u64,
    /// Changes since the epoch began; 0 is the empty state.
    pub number: u64,
}

/// A text that is no revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a revision is a number such as 42, or an epoch and a number such as 2.42")]
pub struct BadRevision;

impl Revision {
    /// The empty state that an overlay begins with.
    pub const FIRST: Self = Self {
        epoch: 1,
        number: 0,
    };

    /// The revision after this one.
    pub fn next(self) -> Self {
        Self {
            number: self.number + 1,
            ..self
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.epoch {
            1 => write!(out, "{}", self.number),
            epoch => write!(out, "{epoch}.{}", self.number),
        }
    }
}

impl FromStr for Revision {
    type Err = BadRevision;

    fn from_str(text: &str) -> Result<Self, BadRevision> {
        let (epoch, number) = match text.split_once('.') {
            Some((epoch, number)) => (epoch.parse().map_err(|_| BadRevision)?, number),
            None => (1, text),
        };
        let number = number.parse().map_err(|_| BadRevision)?;
        Ok(Self { epoch, number })
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_store_is_newer_than_all_before() {
        let restored = Revision {
            epoch: 2,
            number: 0,
        };
        assert!(
            restored
                > Revision {
                    epoch: 1,
                    number: 900
                }
        );
        assert!(restored.next() > restored);
    }

    #[test]
    fn is_read_as_it_is_written() {
        for text in ["0", "42", "2.0", "7.19"] {
            assert_eq!(text.parse::<Revision>().unwrap().to_string(), text);
        }
        for text in ["", ".", "1.", "-1", "1.2.3", "x"] {
            assert_eq!(text.parse::<Revision>(), Err(BadRevision), "{text}");
        }
    }
}
