//! Devices on other machines, which WireGuard leads to.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Document;
use super::data_source::DataSource;
use super::scalar::{Duration, HostPort, OneOrMany, Prefix, WireguardKey};
use crate::child;

/// Where the packets of a device are: on another machine, which has WireGuard and need not have Hermes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wireguard {
    /// The address and UDP port where WireGuard's messages come, such as `0.0.0.0:51820`. Devices with the same key may share one.
    pub listen: HostPort,
    /// File with the private key of this end, as `wg genkey` or `hermes wireguard-key` write it.
    pub private_key_file: DataSource,
    /// The other machine.
    pub peer: WireguardPeer,
}

/// The machine that has the packets of a device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WireguardPeer {
    /// Its public key, as `wg pubkey` writes it.
    pub public_key: WireguardKey,
    /// Its address and UDP port, until it is heard of from elsewhere. Default: learned, once it has begun.
    #[serde(default)]
    pub endpoint: Option<HostPort>,
    /// Sources of its packets, and destinations of packets to it. Default: `addresses` of the
    /// listener's device.
    #[serde(default)]
    #[schemars(with = "OneOrMany<Prefix>")]
    pub allowed: OneOrMany<IpNet>,
    /// The silence after which it is sent an empty message, so that a NAT on the way does not
    /// forget it. Default: no such messages.
    #[serde(default)]
    pub keepalive: Option<Duration>,
    /// File with a key that both ends share beside their own, as `wg genpsk` writes it. Default:
    /// none.
    #[serde(default)]
    pub preshared_key_file: Option<DataSource>,
}

impl Document {
    /// Every device of another machine, with its place. One that several routes name is there once.
    pub fn wireguard(&self) -> Vec<(String, &Wireguard)> {
        let listeners = self.listeners.iter().filter_map(|(name, listener)| {
            let wireguard = listener.tun()?.wireguard()?;
            let path = child("listeners", name);
            Some((format!("{path}.tun.wireguard"), wireguard))
        });
        let routes = self.routes.iter().enumerate();
        let routes = routes.filter_map(|(index, route)| {
            let end = route.terminate.as_ref()?;
            let mut earlier = self.routes[..index].iter();
            let is_known = earlier.any(|route| route.terminate.as_ref() == Some(end));
            let wireguard = end.packets()?.wireguard().filter(|_| !is_known)?;
            Some((format!("routes[{index}].terminate.wireguard"), wireguard))
        });
        listeners.chain(routes).collect()
    }
}

impl Wireguard {
    /// Its secrets, by their keys.
    pub fn secrets(&self) -> impl Iterator<Item = (&'static str, &DataSource)> {
        let preshared = self.peer.preshared_key_file.as_ref();
        let own = ("private_key_file", &self.private_key_file);
        std::iter::once(own).chain(preshared.map(|secret| ("peer.preshared_key_file", secret)))
    }
}
