//! TUN devices at the ends of CONNECT-IP (RFC 9484): packets of the kernel go into the tunnel that
//! has their destination, and packets out of a tunnel go to the kernel, after its
//! [filter](hermes_ip::PacketFilter).
//!
//! - [`TunHub`]: a device, the tunnels that it has, and where each destination is. One task reads each queue. The device of a client has
//!   one tunnel, or several that split its packets by destination ([`SplitPrefixes`]).
//! - [`TunTunnel`]: one tunnel's share of it, a [`Device`](super::Device); gone when it is dropped.
//! - [`carry`]: carries a tunnel to its end.
//! - [`NamedHosts`]: names of the overlay behind addresses of a client's device.
//! - [`CapturedNetwork`]: a network that has no other way out, whose flows go to names and to real addresses.
//!
//! Packets are cut, and their checksums completed, where they enter a tunnel; where they leave one, those of a flow are merged again,
//! so that the kernel takes many at once. Between two ends that [agreed](hermes_ip::offload::agreement), they stay whole, and take the
//! stream: `super_packets.rs`.
//!
//! Each worker reads a queue of each device, and a flow stays in one: `device_queues.rs`. What is read at once (`read_batch.rs`) is led to its
//! tunnels under one lock of the table, and enters each under one lock of its own (`entering.rs`).
//! What comes out of a tunnel at once goes to a stack, or to a port of WireGuard, under one lock; so do the datagrams of a run on such a port.

mod assigned_addresses;
mod assignment;
mod captured_network;
mod carry;
mod device_group;
mod device_queues;
mod device_view;
mod device_writer;
mod dispatch;
mod end;
mod entering;
mod flow_charges;
mod flow_error;
mod flow_ledger;
mod flow_policy;
mod flow_refusal;
mod flow_stack;
mod gate;
mod hub;
mod hub_device;
mod inbox;
mod ipv6_proof;
mod leases;
mod named_hosts;
mod node_pools;
mod opened_flows;
mod port_others;
mod port_reader;
mod read_batch;
mod remote_device;
#[cfg(test)]
mod returning_devices;
mod sealed_run;
mod service;
mod shared_addresses;
mod split_table;
mod super_packets;
mod super_queue;
mod surroundings;
mod tcp_flow;
mod translations;
mod tunnel_device;
mod tunnel_gate;
mod tunnel_outcome;
mod tunnel_owner;
mod udp_flow;
mod wanted_addresses;
mod wireguard_ports;

pub use captured_network::{CAPTURED_LIMITS, CapturedNetwork};
pub use carry::{DeviceClient, carry, take};
pub use device_queues::ClaimedQueue;
pub use device_view::{ClientTunnel, DeviceView, Ipv6Proof};
pub use end::TunTunnel;
pub use flow_error::FlowError;
pub use flow_ledger::{FlowLedger, FlowMark, FlowWatcher};
pub use flow_policy::{FlowAnswer, FlowPolicy, FlowQuestion};
pub use flow_stack::{AskedEcho, AskedFlow, FlowCarrier, FlowStack};
pub use gate::{DeniedPacket, GateRules, PacketDenier, PacketGate};
pub use hub::TunHub;
pub use hub_device::StackDeviceSettings;
pub use named_hosts::{DNS_PORT, NameQuestion, NamedHosts, NamedHostsView};
pub use node_pools::NodePools;
pub use remote_device::{RefusedView, RemoteSettings, RemoteView};
pub use service::{TunClient, TunProxy, TunService};
pub use split_table::SplitPrefixes;
pub use surroundings::OwnMachine;
pub use tcp_flow::TcpFlow;
pub use translations::TranslatedAddress;
pub use tunnel_owner::{DEVICE_FIELD, DevicePart, TunnelOwner};
pub use wanted_addresses::OtherAssigned;
pub use wireguard_ports::{WireguardPort, WireguardPorts};
