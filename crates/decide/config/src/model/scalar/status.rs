//! Ranges of status codes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ScalarError, range};

/// A status code, or a range of them: `204`, `200-299`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusMatch {
    /// The lowest code.
    pub low: u16,
    /// The highest code; `low` if there is but one.
    pub high: u16,
}

impl StatusMatch {
    /// Whether the code lies in the range.
    pub fn matches(&self, status: u16) -> bool {
        (self.low..=self.high).contains(&status)
    }
}

impl FromStr for StatusMatch {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let wrong = || {
            ScalarError::new(format!("`{text}` is not a final status"))
                .remedy("write one from 200 to 599, or 200-299")
        };

        let code = |text: &str| {
            let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse()
                .ok()
                .filter(|code| digits && (200..=599).contains(code))
                .ok_or_else(wrong)
        };

        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let low = code(low)?;
        let high = code(high)?;

        if low > high {
            Err(wrong())
        } else {
            Ok(Self { low, high })
        }
    }
}

impl fmt::Display for StatusMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        range::format(self.low, self.high, out)
    }
}

impl<'de> Deserialize<'de> for StatusMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        range::deserialize(deserializer)
    }
}

impl Serialize for StatusMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        range::serialize(self.low, self.high, serializer)
    }
}

impl JsonSchema for StatusMatch {
    fn schema_name() -> Cow<'static, str> {
        "StatusMatch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "format": "hermes-status-match",
            "minimum": 200,
            "maximum": 599,
            "description": "A status code, or a range of them: 204, 200-299."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_or_ranges() {
        let range: StatusMatch = "200-299".parse().unwrap();
        assert!(range.matches(200) && range.matches(299) && !range.matches(300));
        assert_eq!(
            serde_json::from_str::<StatusMatch>("204")
                .unwrap()
                .to_string(),
            "204"
        );
        for text in ["", "100", "600", "299-200", "2xx", "0200", "+20", "200-"] {
            assert!(text.parse::<StatusMatch>().is_err(), "{text}");
        }
    }
}
