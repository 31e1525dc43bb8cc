//! Protocols above IP.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ScalarError, range};

/// Names of protocols that have one here, with their numbers (IANA, Assigned Internet Protocol Numbers).
const NAMES: [(&str, u8); 7] = [
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("icmpv6", 58),
    ("sctp", 132),
];

/// A protocol above IP, by its name or number: `tcp`, `icmpv6`, `89`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpProtocol(pub u8);

impl FromStr for IpProtocol {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        let number = named.map_or_else(|| text.parse().ok(), |(_, number)| Some(*number));
        number.map(Self).ok_or_else(|| {
            ScalarError::new(format!("`{text}` is not a protocol above IP"))
                .remedy("write tcp, udp, icmp, icmpv6, gre, esp, sctp, or a number from 0 to 255")
        })
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => out.write_str(name),
            None => self.0.fmt(out),
        }
    }
}

impl<'de> Deserialize<'de> for IpProtocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        range::deserialize(deserializer)
    }
}

impl Serialize for IpProtocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for IpProtocol {
    fn schema_name() -> Cow<'static, str> {
        "IpProtocol".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string"],
            "format": "hermes-ip-protocol",
            "minimum": 0,
            "maximum": 255,
            "description": "A protocol above IP, by its name or number: tcp, icmpv6, 89."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::IpProtocol;

    #[test]
    fn a_protocol_has_a_name_or_a_number() {
        let number = |text: &str| text.parse::<IpProtocol>().unwrap().0;
        assert_eq!([number("tcp"), number("17"), number("icmpv6")], [6, 17, 58]);
        assert_eq!(IpProtocol(6).to_string(), "tcp");
        assert_eq!(IpProtocol(89).to_string(), "89");
        for wrong in ["TCP", "256", "-1", ""] {
            assert!(wrong.parse::<IpProtocol>().is_err(), "{wrong:?}");
        }
    }
}
