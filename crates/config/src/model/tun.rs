//! TUN devices: where IP packets enter the overlay, and where they leave it.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{FilePath, OneOrMany, Prefix};

/// The device whose packets a listener takes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Tun {
    /// Its name.
    Name(String),
    /// With details.
    Details(TunDetails),
}

/// What the device of a listener is to be.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TunDetails {
    /// Its name, up to 15 bytes.
    pub name: String,
    /// Its addresses, one of each family, each with the length of its network; the tunnel is asked for them. Default: those that the
    /// tunnel assigns.
    #[serde(default)]
    #[schemars(with = "Vec<Prefix>")]
    pub addresses: Vec<IpNet>,
    /// What this machine sends through it.
    #[serde(default)]
    #[schemars(with = "Vec<Prefix>")]
    pub routes: Vec<IpNet>,
    /// Its MTU, in bytes. Default: 1500.
    #[serde(default)]
    #[schemars(range(min = 1280, max = 65535))]
    pub mtu: Option<u16>,
}

impl Tun {
    /// The name of the device.
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Details(details) => &details.name,
        }
    }

    /// What else is said of it.
    pub fn details(&self) -> Option<&TunDetails> {
        match self {
            Self::Name(_) => None,
            Self::Details(details) => Some(details),
        }
    }
}

/// The device into which the packets of a route's tunnels go.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminateTun {
    /// The name of the device, up to 15 bytes.
    pub tun: String,
    /// Prefixes of which each tunnel gets an address of each family. The device has the first address of each; the second is the one
    /// from which Hermes writes errors.
    #[schemars(with = "OneOrMany<Prefix>")]
    pub pool: OneOrMany<IpNet>,
    /// What clients are told they can reach. Default: everything, of the families of `pool`.
    #[serde(default)]
    #[schemars(with = "Vec<Prefix>")]
    pub routes: Vec<IpNet>,
    /// The MTU of the device, in bytes. Default: 1500.
    #[serde(default)]
    #[schemars(range(min = 1280, max = 65535))]
    pub mtu: Option<u16>,
    /// Where it is written who has which address, so that each finds it again after a restart. Default: nowhere.
    #[serde(default)]
    pub leases_file: Option<FilePath>,
}
