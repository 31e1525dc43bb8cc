//! Ports of TCP and UDP.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ScalarError, scalar};

scalar!(
    ProtocolPort,
    "protocol-port",
    "A port of TCP or UDP: `tcp/25`, `udp/443`."
);

/// A protocol of connections or of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowProtocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A port of one protocol: `tcp/25`, `udp/443`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProtocolPort {
    /// The protocol.
    pub protocol: FlowProtocol,
    /// The port.
    pub port: u16,
}

impl FromStr for ProtocolPort {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let parts = text.split_once('/');
        let parsed = parts.and_then(|(protocol, port)| {
            let protocol = match protocol {
                "tcp" => FlowProtocol::Tcp,
                "udp" => FlowProtocol::Udp,
                _ => return None,
            };
            let port = port.parse().ok().filter(|port| *port > 0)?;
            Some(Self { protocol, port })
        });
        parsed.ok_or_else(|| {
            ScalarError::new(format!("`{text}` is not a port of a protocol"))
                .remedy("write `tcp/PORT` or `udp/PORT`")
        })
    }
}

impl fmt::Display for ProtocolPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            FlowProtocol::Tcp => "tcp",
            FlowProtocol::Udp => "udp",
        };
        write!(f, "{protocol}/{}", self.port)
    }
}
