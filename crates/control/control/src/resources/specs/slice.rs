//! `Slice`: addresses that some users reach by IP.

use std::fmt;
use std::str::FromStr;

use hermes_api::Name;
use hermes_config::model::{OneOrMany, SplitDns, UserMatch};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::resources::{Key, Kind};

/// A part of a network that some users reach by IP packets, through a TUN device of theirs: each of their tunnels gets an address of a pool, and
/// its packets leave the overlay at one node.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceSpec {
    /// The node where packets leave the overlay, by a device of its own.
    #[schemars(with = "String")]
    pub at: Name,
    /// Destinations in it.
    #[schemars(with = "OneOrMany<String>")]
    pub prefixes: OneOrMany<IpNet>,
    /// Prefixes of which each tunnel gets an address of each family.
    #[schemars(with = "OneOrMany<String>")]
    pub pool: OneOrMany<IpNet>,
    /// Users who reach it: names, `group:ops`, patterns.
    pub members: OneOrMany<UserMatch>,
    /// Names of the overlay that programs on the users' devices find by DNS, as `dns` of a node's device. Default: none.
    #[serde(default)]
    pub names: Option<SplitDns>,
    /// Whether packets leave the node with its own addresses, so that no one needs a route to `pool`. Default: false.
    #[serde(default)]
    pub nat: bool,
}

/// A slice as a device names it: `home`, or `red.home` of the tenant `red`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceName(pub Key);

/// A text that names no slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no slice: write NAME, or TENANT.NAME")]
pub struct BadSliceName(String);

impl FromStr for SliceName {
    type Err = BadSliceName;

    fn from_str(text: &str) -> Result<Self, BadSliceName> {
        let bad = || BadSliceName(text.chars().take(200).collect());
        let name = |text: &str| text.parse::<Name>().map_err(|_| bad());
        let (tenant, slice) = match text.split_once('.') {
            Some((tenant, slice)) => (Some(name(tenant)?), name(slice)?),
            None => (None, name(text)?),
        };
        let key = Key::new(Kind::Slice, slice);
        Ok(Self(match tenant {
            Some(tenant) => Key { tenant, ..key },
            None => key,
        }))
    }
}

impl fmt::Display for SliceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.short())
    }
}

impl<'de> Deserialize<'de> for SliceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
