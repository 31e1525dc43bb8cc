//! The PROXY protocol: naming the client of a connection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The handling of PROXY headers by a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyProtocol {
    /// Every connection begins with one, of version 1 or 2, and comes from one of `proxy_protocol_from`.
    Accept,
}

/// Version of the PROXY header that connections to an upstream begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum ProxyProtocolVersion {
    /// Text.
    V1,
    /// Binary.
    V2,
}

impl TryFrom<u8> for ProxyProtocolVersion {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            1 => Ok(Self::V1),
            2 => Ok(Self::V2),
            other => Err(format!(
                "version {other} of the PROXY protocol is not 1 or 2"
            )),
        }
    }
}

impl From<ProxyProtocolVersion> for u8 {
    fn from(version: ProxyProtocolVersion) -> Self {
        match version {
            ProxyProtocolVersion::V1 => 1,
            ProxyProtocolVersion::V2 => 2,
        }
    }
}

impl JsonSchema for ProxyProtocolVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProxyProtocolVersion".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "integer",
            "enum": [1, 2],
            "description": "A version of the PROXY protocol: 1 (text) or 2 (binary).",
        })
    }
}
