//! A device on another machine, reached through WireGuard.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use hermes_ip::InnerMtu;
use hermes_net::tun::TunSettings;
use hermes_wireguard::{PeerId, PeerSettings, PrivateKey};
use ipnet::IpNet;
use serde::Serialize;

use super::sealed_run::SealedRun;
use super::wireguard_ports::{PeerDevice, WireguardPort, WireguardPorts};

/// How to reach a device on another machine.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// The address and UDP port of this end.
    pub listen: SocketAddr,
    /// The key of this end.
    pub key: PrivateKey,
    /// The other machine.
    pub peer: PeerSettings,
}

/// A device on another machine.
#[derive(Debug)]
pub(super) struct RemoteDevice {
    name: String,
    port: Arc<WireguardPort>,
    peer: PeerId,
    /// The longest packets.
    mtu: InnerMtu,
    /// Its addresses, which only the other machine can change.
    addresses: Vec<IpNet>,
}

/// The status of the other machine.
#[derive(Debug, Clone, Serialize)]
pub struct RemoteView {
    /// The address at which its messages arrive.
    pub listen: SocketAddr,
    /// The key of this end, which it must know.
    pub public_key: String,
    /// Its key.
    pub peer: String,
    /// Its endpoint, if known.
    pub endpoint: Option<SocketAddr>,
    /// The time of its last handshake.
    pub last_handshake: Option<String>,
    /// Packets received from it.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent to it.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Refused datagrams.
    pub refused: RefusedView,
}

/// Refused datagrams, of a peer and of the whole port.
#[derive(Debug, Clone, Serialize)]
pub struct RefusedView {
    /// Messages of the peer: played again, forged, or under old keys.
    pub messages: u64,
    /// Packets of the peer with a source that is not its own.
    pub sources: u64,
    /// Packets to the peer that were lost because it does not answer, or has no known endpoint.
    pub lost: u64,
    /// On the port: datagrams that are no messages of WireGuard, or belong to no session.
    pub unknown: u64,
    /// On the port: handshakes of strangers.
    pub strangers: u64,
    /// On the port: handshakes above the rate, and those that were told to prove their address first.
    pub too_many: u64,
}

impl RemoteDevice {
    /// Adds the other machine to its port, for a device with the name and the addresses of `settings`.
    ///
    /// # Errors
    /// There is no such port, or the machine is a peer of another device; in words.
    pub(super) fn open(
        ports: &WireguardPorts,
        settings: &TunSettings,
        remote: RemoteSettings,
    ) -> Result<Self, String> {
        let RemoteSettings { listen, key, peer } = remote;
        let mtu = InnerMtu::new(peer.mtu).map_err(|error| error.to_string())?;
        let port = ports.open(listen, &key)?;
        let peer = port.add_peer(peer)?;
        Ok(Self {
            name: settings.name.clone(),
            port,
            peer,
            mtu,
            addresses: settings.addresses.clone(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn mtu(&self) -> InnerMtu {
        self.mtu
    }

    pub(super) fn addresses(&self) -> Vec<IpNet> {
        self.addresses.clone()
    }

    /// Delivers the packets of the other machine to this hub.
    pub(super) fn lead(&self, hub: Weak<dyn PeerDevice>) {
        self.port.lead(self.peer, hub);
    }

    /// Forgets the other machine, which is sent no more packets.
    pub(super) fn close(&self) {
        self.port.remove_peer(self.peer);
    }

    /// Sends packets, which `packets` gives to its argument.
    pub(super) fn send_all(
        &self,
        run: &mut SealedRun,
        packets: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) {
        self.port.send_all(self.peer, run, packets);
    }

    /// Sends one packet.
    pub(super) fn send_one(&self, packet: &[u8]) {
        self.send_all(&mut SealedRun::default(), |send| send(packet));
    }

    /// Its status; `None` once it is closed.
    pub(super) fn view(&self) -> Option<RemoteView> {
        let (peer, port) = self.port.view(self.peer)?;
        let since = peer.last_handshake;
        let at = since.and_then(|since| SystemTime::now().checked_sub(since));
        let counters = peer.counters;
        Some(RemoteView {
            listen: self.port.address(),
            public_key: self.port.public_key().to_string(),
            peer: peer.public_key.to_string(),
            endpoint: peer.endpoint,
            last_handshake: at.map(|at| humantime::format_rfc3339_seconds(at).to_string()),
            received_packets: counters.received_packets,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            sent_bytes: counters.sent_bytes,
            refused: RefusedView {
                messages: counters.refused,
                sources: counters.forged,
                lost: counters.lost,
                unknown: port.malformed + port.unknown_sessions,
                strangers: port.bad_macs + port.strangers,
                too_many: port.cookies + port.too_many,
            },
        })
    }
}

impl Drop for RemoteDevice {
    fn drop(&mut self) {
        self.close();
    }
}
