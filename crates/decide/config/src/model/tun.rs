//! TUN devices: where IP packets enter the overlay, and where they leave it.

use std::borrow::Cow;

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SplitDns;
use super::scalar::{FilePath, OneOrMany, Prefix, Prefixes, SystemUsers, Template, one_or_many};
use super::wireguard::Wireguard;

/// The device of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Tun {
    /// Its name.
    Name(String),
    /// With details.
    Details(Box<TunDetails>),
}

/// The settings of a listener's device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TunDetails {
    /// Its name, up to 15 bytes.
    pub name: String,
    /// Its addresses, one of each family, each with the length of its network; the tunnel is asked for them. Default: those that the
    /// tunnel assigns.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub addresses: Vec<IpNet>,
    /// Destinations that this machine reaches through it; connections of this node bypass it. Where
    /// routes of the machine lead to the same address, the longest prefix decides. The prefixes of
    /// `tunnels` are routed there, too.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub routes: Vec<IpNet>,
    /// Destinations that bypass it although `routes` or `tunnels` have them.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub exclude: Vec<IpNet>,
    /// The local senders that it takes packets from. Default: everyone.
    #[serde(default)]
    pub only: Option<TunSenders>,
    /// The local senders that bypass it. Default: no one.
    #[serde(default)]
    pub except: Option<TunSenders>,
    /// The handling of an address of the tunnel that the device neither has nor asks for. Default:
    /// `refuse` with `addresses`, else `adopt`.
    #[serde(default)]
    pub other_address: Option<OtherTunAddress>,
    /// `true`: there is no device, and no right to make one is needed. The packets of its tunnel are those of connections and datagrams on
    /// routes with `terminate: { ip: LISTENER }`. Default: false.
    #[serde(default)]
    pub stack: bool,
    /// The device is that of another machine, which WireGuard leads to: no right to make one is needed. Default: it is on this machine.
    #[serde(default)]
    pub wireguard: Option<Box<Wireguard>>,
    /// Its MTU, in bytes. Default: 1500; with `wireguard` 1420.
    #[serde(default)]
    #[schemars(range(min = 1280, max = 65535))]
    pub mtu: Option<u16>,
    /// How many queues the device has, each read by a worker; no more than there are. Default: as many as workers.
    #[serde(default)]
    #[schemars(range(min = 1, max = 256))]
    pub queues: Option<u16>,
    /// `true`: packets of TCP or UDP that are to be cut go whole (super-packets), through the
    /// tunnel's stream, to an end that takes them, and so do all packets of TCP. Default: each packet
    /// by itself.
    #[serde(default)]
    pub super_packets: bool,
    /// Answers questions about names of the overlay, and takes the traffic to their addresses.
    /// Default: nothing.
    #[serde(default)]
    pub dns: Option<SplitDns>,
    /// Its tunnels, by name: each takes the packets for its own prefixes, and is an exchange of its own. Default: one, which takes all.
    #[serde(default)]
    pub tunnels: IndexMap<String, SplitTunnel>,
}

/// Senders of packets on this machine. Packets that the kernel sends by itself count as sent by
/// user 0.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TunSenders {
    /// Users of this machine, each by name, by number, or from one number to another, such as `1000-1999`.
    #[serde(default)]
    pub users: OneOrMany<SystemUsers>,
    /// Folders of control groups (cgroup v2), with the groups below them. Connections that their
    /// members opened before the device existed keep their way. A group of `except` bypasses all
    /// devices of this node.
    #[serde(default)]
    pub cgroups: OneOrMany<FilePath>,
}

/// One of several tunnels of a device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitTunnel {
    /// Destinations of its packets. Of all tunnels of the device, the one with the longest prefix
    /// gets a packet.
    #[schemars(with = "OneOrMany<Prefix>")]
    pub prefixes: OneOrMany<IpNet>,
    /// Fields of its request, beside those that the listener sets; its own replace them.
    #[serde(default)]
    pub set: IndexMap<String, Template>,
    /// The user of this traffic. Default: that of the listener.
    #[serde(default)]
    pub user: Option<String>,
}

/// The handling of an address of a tunnel that the device does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherTunAddress {
    /// The device gets it in place of its own.
    Adopt,
    /// The device keeps its own, and packets get that of the tunnel on their way, one for one.
    Nat,
    /// The device keeps its own, and the tunnel is not used for that family; one that is of no use for any is ended, and opened again
    /// after a pause.
    Refuse,
}

impl Tun {
    /// The name of the device.
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Details(details) => &details.name,
        }
    }

    /// Its settings, if there are any.
    pub fn details(&self) -> Option<&TunDetails> {
        match self {
            Self::Name(_) => None,
            Self::Details(details) => Some(&**details),
        }
    }

    /// The machine that has it, if it is not this one.
    pub fn wireguard(&self) -> Option<&Wireguard> {
        self.details()?.wireguard.as_deref()
    }

    /// Whether its tunnels offer super-packets.
    pub fn super_packets(&self) -> bool {
        self.details().is_some_and(|details| details.super_packets)
    }

    /// Whether there is no device, but only traffic that routes send there.
    pub fn is_stack(&self) -> bool {
        self.details().is_some_and(|details| details.stack)
    }

    /// Its answers to questions about names, if it gives any.
    pub fn dns(&self) -> Option<&SplitDns> {
        self.details()?.dns.as_ref()
    }

    /// Whether it keeps tunnels: a device that serves names alone does not need any. A device on
    /// another machine may get any traffic.
    pub fn keeps_tunnels(&self) -> bool {
        self.details().is_none_or(|details| {
            details.dns.is_none()
                || details.wireguard.is_some()
                || !details.routes.is_empty()
                || !details.tunnels.is_empty()
        })
    }

    /// Its tunnels, by name; without any, there is one tunnel, which takes all packets.
    pub fn tunnels(&self) -> impl Iterator<Item = (&str, &SplitTunnel)> {
        let tunnels = self
            .details()
            .into_iter()
            .flat_map(|details| &details.tunnels);
        tunnels.map(|(name, tunnel)| (name.as_str(), tunnel))
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
    /// The destinations that clients are told they can reach. Default: everything, of the families
    /// of `pool`.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub routes: Vec<IpNet>,
    /// The device is that of another machine, which WireGuard leads to: no right to make one is needed. Default: it is on this machine.
    #[serde(default)]
    pub wireguard: Option<Box<Wireguard>>,
    /// The MTU of the device, in bytes. Default: 1500; with `wireguard` 1420.
    #[serde(default)]
    #[schemars(range(min = 1280, max = 65535))]
    pub mtu: Option<u16>,
    /// How many queues the device has, each read by a worker; no more than there are. Default: as many as workers.
    #[serde(default)]
    #[schemars(range(min = 1, max = 256))]
    pub queues: Option<u16>,
    /// `true`: packets of tunnels leave this machine with its own addresses (masquerade), and answers come back, so that no one needs a
    /// route to `pool`. Default: they keep theirs.
    #[serde(default)]
    pub nat: bool,
    /// `true`: packets of one client to the address of another are delivered, if `policy.packets`
    /// allows them. Default: they are refused.
    #[serde(default)]
    pub client_to_client: bool,
    /// `true`: packets of TCP or UDP that are to be cut go whole (super-packets) between this device
    /// and clients that offer this. Default: each packet by itself.
    #[serde(default)]
    pub super_packets: bool,
    /// Where it is written who has which address, so that each finds it again after a restart. Default: nowhere.
    #[serde(default)]
    pub leases_file: Option<FilePath>,
}

/// Ends the packets of a route's tunnels in this process, without the right to make a device: each
/// connection of TCP and each pair of UDP ports becomes an exchange of the tunnel's user, for the
/// address and port of its packets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminateIntercept {
    /// `true`.
    pub intercept: bool,
    /// Prefixes of which each tunnel gets an address of each family.
    #[schemars(with = "OneOrMany<Prefix>")]
    pub pool: OneOrMany<IpNet>,
    /// The destinations that clients are told they can reach. Default: everything, of the families
    /// of `pool`.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub routes: Vec<IpNet>,
    /// The longest packets to clients, in bytes; those of a tunnel that carries less are shorter. Default: 1500.
    #[serde(default)]
    #[schemars(range(min = 1280, max = 65535))]
    pub mtu: Option<u16>,
    /// Pings. Default: answer.
    #[serde(default)]
    pub echo: Option<InterceptedEcho>,
    /// Where it is written who has which address, so that each finds it again after a restart. Default: nowhere.
    #[serde(default)]
    pub leases_file: Option<FilePath>,
}

/// The tunnel of IP packets into which connections and datagrams of a route go.
///
/// It is named by its listener: traffic enters the overlay by a listener, which defines its user
/// and fields, and a route leads it on like that of a device. An upstream would need a second way
/// to configure all that.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminateIp {
    /// The listener, which has `tun: { stack: true, .. }`.
    pub ip: String,
}

/// The handling of echo requests of ICMP, which are not exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InterceptedEcho {
    /// They are answered here for every address: the answer shows that the tunnel works, and
    /// nothing about the host.
    Answer,
    /// The host is asked, by sockets that take no right but that of `net.ipv4.ping_group_range`, and its answer goes back. `egress` says
    /// which hosts.
    Forward,
    /// Their sender is told that they are prohibited.
    Refuse,
}

/// Where a route ends the packets of CONNECT-IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketTermination<'a> {
    /// At a device of this machine.
    Tun(&'a TerminateTun),
    /// In this process.
    Intercept(&'a TerminateIntercept),
}

impl<'a> PacketTermination<'a> {
    /// The name of the device; without a device, a name that no device can have.
    pub fn name(self) -> Cow<'a, str> {
        match self {
            Self::Tun(end) => Cow::Borrowed(&end.tun),
            Self::Intercept(end) => {
                let pool: Vec<String> = end.pool.iter().map(ToString::to_string).collect();
                Cow::Owned(format!("intercept {}", pool.join(" ")))
            }
        }
    }

    /// Prefixes of which each tunnel gets an address.
    pub fn pool(self) -> &'a OneOrMany<IpNet> {
        match self {
            Self::Tun(end) => &end.pool,
            Self::Intercept(end) => &end.pool,
        }
    }

    /// The destinations that clients are told they can reach; empty for everything.
    pub fn routes(self) -> &'a [IpNet] {
        match self {
            Self::Tun(end) => &end.routes,
            Self::Intercept(end) => &end.routes,
        }
    }

    /// The longest packets, in bytes.
    pub fn mtu(self) -> Option<u16> {
        match self {
            Self::Tun(end) => end.mtu,
            Self::Intercept(end) => end.mtu,
        }
    }

    /// The machine that has its device, if it is not this one.
    pub fn wireguard(self) -> Option<&'a Wireguard> {
        match self {
            Self::Tun(end) => end.wireguard.as_deref(),
            Self::Intercept(_) => None,
        }
    }

    /// Where it is written who has which address.
    pub fn leases_file(self) -> Option<&'a FilePath> {
        match self {
            Self::Tun(end) => end.leases_file.as_ref(),
            Self::Intercept(end) => end.leases_file.as_ref(),
        }
    }
}
