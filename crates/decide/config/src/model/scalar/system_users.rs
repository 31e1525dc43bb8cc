//! Users of this machine.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ScalarError;

/// The last number that a user can have: the next one means "no user".
const LAST: u32 = u32::MAX - 1;

/// Users of this machine: `alice`, `1000`, `1000-1999`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SystemUsers {
    /// The one of this name.
    Name(String),
    /// From one number to another.
    Numbers(u32, u32),
}

impl FromStr for SystemUsers {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        if let (Ok(first), Ok(last)) = (first.parse(), last.parse()) {
            return numbers(first, last);
        }

        // The characters allowed in names of users: see useradd(8).
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._$@".contains(&byte);
        match text.is_empty() || !text.bytes().all(is_sound) {
            true => Err(
                ScalarError::new(format!("`{text}` is not a user of a machine"))
                    .remedy("write a name, a number, or two numbers as 1000-1999"),
            ),
            false => Ok(Self::Name(text.to_owned())),
        }
    }
}

fn numbers(first: u32, last: u32) -> Result<SystemUsers, ScalarError> {
    if first > last {
        return Err(ScalarError::new(format!("`{first}-{last}` is empty"))
            .remedy(format!("write {last}-{first}")));
    }
    if last > LAST {
        return Err(ScalarError::new(format!("no user has the number {last}"))
            .remedy(format!("write at most {LAST}")));
    }
    Ok(SystemUsers::Numbers(first, last))
}

impl fmt::Display for SystemUsers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(out),
            Self::Numbers(first, last) if first == last => first.fmt(out),
            Self::Numbers(first, last) => write!(out, "{first}-{last}"),
        }
    }
}

impl<'de> Deserialize<'de> for SystemUsers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form<'text> {
            Number(u32),
            Text(Cow<'text, str>),
        }

        let text = match Form::deserialize(deserializer)? {
            Form::Number(number) => number.to_string(),
            Form::Text(text) => text.into_owned(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for SystemUsers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Numbers(first, last) if first == last => serializer.serialize_u32(*first),
            other => serializer.collect_str(other),
        }
    }
}

impl JsonSchema for SystemUsers {
    fn schema_name() -> Cow<'static, str> {
        "SystemUsers".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "format": "hermes-system-users",
            "minimum": 0,
            "maximum": LAST,
            "description": "Users of this machine: alice, 1000, 1000-1999."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SystemUsers, String> {
        text.parse().map_err(|error: ScalarError| error.to_string())
    }

    #[test]
    fn users_are_names_numbers_and_ranges() {
        assert_eq!(read("0"), Ok(SystemUsers::Numbers(0, 0)));
        assert_eq!(read("1000-1999"), Ok(SystemUsers::Numbers(1000, 1999)));
        for name in ["alice", "www-data", "a-1", "svc.backup@corp"] {
            assert_eq!(read(name), Ok(SystemUsers::Name(name.to_owned())));
        }
    }

    #[test]
    fn what_is_no_user_is_refused() {
        assert!(read("9-1").unwrap_err().contains("write 1-9"));
        assert!(read("4294967295").unwrap_err().contains("4294967294"));
        assert!(read("").is_err() && read("a b").is_err());
    }
}
