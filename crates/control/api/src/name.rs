//! Names of nodes, users and tenants.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name that stands in certificates, file names and documents alike: a DNS label in lower case (RFC 1123, 2.1), of at most 63
/// letters, digits and hyphens. Nothing else means the same name, so names are compared byte by byte. Copies share one text: each
/// member stands in several tables.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// A text that is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name: 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"
)]
pub struct BadName(String);

/// Bytes of the longest name.
#[doc(alias = "bound")]
const LONGEST: usize = 63;

impl Name {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let is_inner =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let has_hyphen_at_an_end = text.starts_with('-') || text.ends_with('-');
        let is_name = (1..=LONGEST).contains(&text.len())
            && text.bytes().all(is_inner)
            && !has_hyphen_at_an_end;
        if !is_name {
            return Err(BadName(text.chars().take(LONGEST + 1).collect()));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_texts_that_other_places_would_read_otherwise() {
        for text in [
            "",
            "-a",
            "a-",
            "A",
            "a.b",
            "a/b",
            "..",
            "a b",
            "ü",
            &"a".repeat(64),
        ] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
        for text in ["a", "hub", "alice-laptop-2", &"a".repeat(63)] {
            assert_eq!(text.parse::<Name>().unwrap().as_str(), text);
        }
    }
}
