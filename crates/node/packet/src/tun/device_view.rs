//! A device as `hermes status` shows it.

use serde::Serialize;

use super::remote_device::RemoteView;
use super::translations::TranslatedAddress;

/// What is to be seen of a device.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceView {
    /// Its name.
    pub name: String,
    /// Its addresses, with the lengths of their networks.
    pub addresses: Vec<String>,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// How many tunnels it has.
    pub tunnels: usize,
    /// How many packets came out of each of its queues.
    pub queues: Vec<u64>,
    /// How many of them send super-packets.
    pub super_packets: usize,
    /// How many flows of their packets are open, where they are followed.
    pub flows: usize,
    /// The longest packets that all of its tunnels carry, in bytes, by what is known of their paths; none without a tunnel.
    pub carries: Option<usize>,
    /// Whether all tunnels of a listener's device carry the 1,280 bytes that IPv6 needs; none without an address of IPv6.
    pub ipv6: Option<Ipv6Proof>,
    /// Whether what comes from it leaves this machine with the addresses of the machine.
    pub masquerades: bool,
    /// Its addresses that are others in a tunnel.
    pub translated: Vec<TranslatedAddress>,
    /// The other machine that has it, if this one has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wireguard: Option<RemoteView>,
    /// The tunnels of clients that end there; of very many, some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientTunnel>,
}

/// What is to be seen of a client's tunnel.
#[derive(Debug, Clone, Serialize)]
pub struct ClientTunnel {
    /// Whose it is: the user, or where it comes from.
    pub user: String,
    /// The addresses that it has.
    pub addresses: Vec<String>,
    /// The longest packets that its path carries, in bytes, by what is known of that.
    pub carries: usize,
    /// Connections that are open where its packets end in this process.
    pub connections: Option<usize>,
    /// Pairs of UDP ports there.
    pub sessions: Option<usize>,
}

/// What is known of a tunnel and IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ipv6Proof {
    /// Its other end answers short packets, and none of 1,280 bytes: IPv6 is refused.
    Refused,
    /// Its other end answers no packets, short or long: one of others, which need not.
    Unproven,
    /// It is being asked.
    Asking,
    /// It has answered one.
    Proven,
}
