//! Ports and ranges of ports.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::address::port;
use super::{ScalarError, range};

/// A port, or a range of ports: `443`, `1-1023`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortMatch {
    /// The lowest port.
    pub low: u16,
    /// The highest port; `low` if there is but one.
    pub high: u16,
}

impl PortMatch {
    /// Whether the port lies in the range.
    pub fn matches(&self, port: u16) -> bool {
        (self.low..=self.high).contains(&port)
    }
}

impl FromStr for PortMatch {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let low = port(low)?;
        let high = port(high)?;

        if low > high {
            return Err(ScalarError::new(format!("`{text}` is empty"))
                .remedy(format!("write {high}-{low}")));
        }

        Ok(Self { low, high })
    }
}

impl fmt::Display for PortMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        range::format(self.low, self.high, out)
    }
}

impl<'de> Deserialize<'de> for PortMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        range::deserialize(deserializer)
    }
}

impl Serialize for PortMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        range::serialize(self.low, self.high, serializer)
    }
}

impl JsonSchema for PortMatch {
    fn schema_name() -> Cow<'static, str> {
        "PortMatch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "format": "hermes-port-match",
            "minimum": 1,
            "maximum": 65535,
            "description": "A port, or a range of ports: 443, 1-1023."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::PortMatch;

    #[test]
    fn ports_are_numbers_or_ranges() {
        let range: PortMatch = "1-1023".parse().unwrap();
        assert!(range.matches(1) && range.matches(1023) && !range.matches(1024));
        assert_eq!(
            "443".parse::<PortMatch>().unwrap(),
            PortMatch {
                low: 443,
                high: 443
            }
        );
        assert_eq!(
            serde_json::from_str::<PortMatch>("443")
                .unwrap()
                .to_string(),
            "443"
        );
        for text in ["", "0", "-", "1-", "9-1", "65536", "a", "1-2-3", "+1"] {
            assert!(text.parse::<PortMatch>().is_err(), "{text}");
        }
    }
}
