//! TUN devices at the ends of CONNECT-IP (RFC 9484): what the kernel sends goes into the tunnel that has its destination, and what comes
//! out of a tunnel goes to the kernel, after its [filter](hermes_ip::PacketFilter).
//!
//! - [`TunHub`]: a device, the tunnels that it has, and where each destination is. One task reads its queue.
//! - [`TunTunnel`]: one tunnel's share of it, a [`Device`](super::Device); gone when it is dropped.
//! - [`carry`]: carries a tunnel to its end.
//!
//! Packets are cut, and their checksums completed, where they enter a tunnel; where they leave one, those of a flow are merged again,
//! so that the kernel takes many at once.
//!
//! Not built yet: super-packets within the tunnel ([`agreement`](hermes_ip::offload::agreement)), several queues, NAT
//! ([`Translation`](hermes_ip::Translation)), [`Slices`](hermes_ip::Slices), [`TcpPins`](hermes_ip::TcpPins), and rules on packets with a
//! [`FlowCache`](hermes_ip::FlowCache). The device of a listener reaches its exchange through a pipe, which costs a turn of a task.

mod carry;
mod end;
mod gate;
mod hub;
mod inbox;
mod service;

pub use carry::carry;
pub use end::TunTunnel;
pub use gate::PacketGate;
pub use hub::TunHub;
pub use service::{TunClient, TunProxy, TunService};
