//! Address prefixes.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{ScalarError, scalar};

/// Stands for [`IpNet`] in the schema: `10.0.0.0/8`, `2001:db8::/32`.
pub(crate) struct Prefix(pub(crate) IpNet);

scalar!(
    Prefix,
    "hermes-prefix",
    "An address prefix: 10.0.0.0/8, 192.0.2.7/32, 2001:db8::/32."
);

impl FromStr for Prefix {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Ok(prefix) = text.parse() {
            return Ok(Self(prefix));
        }
        let wrong = ScalarError::new(format!("`{text}` is not an address prefix"));
        Err(match text.parse::<IpAddr>() {
            Ok(address) => wrong.remedy(format!("write {}", IpNet::from(address))),
            Err(_) => wrong.remedy("write it like 10.0.0.0/8 or 2001:db8::/32"),
        })
    }
}

/// Stands for a list of [`IpNet`] in the schema: one prefix, or any number of them.
pub(crate) struct Prefixes;

impl JsonSchema for Prefixes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Prefixes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Prefix>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::Prefix;

    #[test]
    fn a_bare_address_is_not_a_prefix_but_the_remedy_names_it() {
        assert!("10.0.0.0/8".parse::<Prefix>().is_ok());
        let error = "10.0.0.1".parse::<Prefix>().err().unwrap();
        assert_eq!(error.remedy.as_deref(), Some("write 10.0.0.1/32"));
    }
}
