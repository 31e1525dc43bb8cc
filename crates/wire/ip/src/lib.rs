//! The IP overlay without input or output: address assignment, the filter of a tunnel's packets,
//! and routing.
//!
//! The parts are the machine of one session of CONNECT-IP ([`IpSession`]), the check of each packet
//! ([`PacketFilter`]), the table that gives every identity its address ([`AddressPool`]), the one
//! that gives addresses to names ([`NameLeases`]), the tables from destinations to tunnels
//! ([`RoutingTable`], [`PrefixTable`]), the memory of verdicts on flows ([`FlowCache`]), of their
//! traffic ([`FlowTable`]), and of the routes of connections ([`TcpPins`]).
//!
//! The crate opens no device, no socket and no file, reads no clock and draws no random number.
//! Packets are not reassembled, and addresses are translated one for one only ([`Translation`]),
//! without ports and never between families.
//!
//! | module | specification |
//! |---|---|
//! | [`IpSession`] | RFC 9484, section 4.7 |
//! | [`PacketFilter`] | RFC 9484, sections 4.8, 7 and 10, RFC 1812, section 5.3 |
//! | [`PacketScope`] | RFC 9484, section 4.6 |
//! | [`MtuProbe`] | RFC 9484, section 7.1 |
//! | [`offload`] | VIRTIO 1.2, section 5.1.6; between two nodes, ours |
//!
//! How they work together at the end of a tunnel, as the loop around them does it:
//!
//! - The request is answered: [`AddressPool::acquire`] gives its identity a [`Lease`],
//!   [`IpSession::assign`] sends the answer that [`Lease::answer`] makes of it,
//!   [`IpSession::advertise`] announces routes, and [`RoutingTable::replace`] routes the addresses
//!   here.
//! - A capsule comes: [`IpSession::handle_capsule`] returns the change. After any change,
//!   [`IpSession::poll_capsule`] has the capsules to send, and [`IpSession::filter`] the rules for
//!   packets from now on; a [`FlowCache`] forgets.
//! - A packet comes out of the tunnel: a super-packet is [checked](offload::OffloadHeader::check) first. Then
//!   [`PacketFilter::check_from_peer`]; the policy, asked once a flow; and [`RoutingTable::next_hop`].
//! - A packet is to go into the tunnel: the policy; [`PacketFilter::clamp_tcp`]; [`PacketFilter::check_to_peer`] with the length of its
//!   longest segment. To a peer that takes no super-packets it goes [cut](offload::segment).
//! - An error or answer in a [`Verdict`] goes back to where the packet came from, and is not judged
//!   again.
//! - The tunnel ends: [`RoutingTable::remove`], and [`AddressPool::release`]. If the tunnel moves
//!   to another owner: [`RoutingTable::hand_over`].
//!
//! Begin reading in [`PacketFilter`]: the conditions for a packet to pass.

pub mod offload;

mod device_addresses;
mod flow_cache;
mod flow_table;
#[cfg(test)]
mod fuzz;
mod intervals;
mod link_echo;
mod mtu;
mod mtu_probe;
mod name_leases;
mod packet_filter;
mod pool;
mod prefix_table;
mod role;
mod routing_table;
mod scope;
mod session;
mod tcp_pins;
mod verdict;

pub use device_addresses::{Adoption, DeviceAddresses, OtherAddress, Translation};
pub use flow_cache::{FlowCache, MAX_FLOWS};
pub use flow_table::{
    CLOSED_LINGER, CROWDED_ONE_IN, EndedFlow, FlowCount, FlowEnd, FlowSampling, FlowTable,
    MAX_FOLLOWED,
};
pub use mtu::{InnerMtu, MtuError};
pub use mtu_probe::{MtuProbe, PROBE_TRIES, ProbeState};
pub use name_leases::{MAX_NAMES, NAME_ASKED, NAME_KEPT, NameLeases, NamesFull};
pub use packet_filter::{PacketFilter, RouterAddresses};
pub use pool::{AddressPool, Lease, LeaseKey, LeaseTextError, MAX_LEASES, PoolError, PoolRange};
pub use prefix_table::{MAX_PREFIXES, PrefixTable, PrefixTableError};
pub use role::IpRole;
pub use routing_table::{MAX_TABLE_ROUTES, NextHop, RouteConflict, RoutingTable};
pub use scope::{PacketScope, ScopeError};
#[cfg(test)]
pub(crate) use session::fuzz_session;
pub use session::{
    Accepts, Ignored, IpSession, MAX_REQUESTS, SessionError, SessionEvent, SessionSettings,
};
pub use tcp_pins::{MAX_PINS, PIN_SILENCE, PinRoutes, TcpPins};
pub use verdict::{Rejection, Verdict};
