//! TCP and UDP in user space: packets become flows of bytes and of datagrams, and flows become packets.
//!
//! The machine is [`Stack`]. It ends connections in user space, so that a flow of IP packets can be
//! an exchange like any other, instead of passing all rules but those on packets: packets of a TUN
//! are ended here, and each connection and each pair of UDP ports has routes, policy and records of
//! its own. The other way round, a node that may make no TUN opens connections and sends datagrams
//! from an address that a tunnel of CONNECT-IP gave it.
//!
//! It opens no device and no socket, reads no clock and draws no random number. Answers to clients are cut where they are longer than the MTU.
//! Nothing is reassembled: fragments are counted and lost, as are IPv6 packets with extension headers, since a proxy of UDP may not send
//! datagrams in fragments either (RFC 9298, section 3.1). Routing is left to the caller. TCP itself is smoltcp's, one small interface for each connection, so that
//! the cost of a packet does not depend on the number of connections.
//!
//! How the loop around it works:
//!
//! - A packet comes: [`Stack::handle_packet`]. Then, and after every other call, call
//!   [`Stack::poll_transmit`] for the packets to write and [`Stack::poll_event`] for the events,
//!   until both return `None`.
//! - [`StackEvent::TcpAsked`]: the client's first segment waits until [`Stack::accept`] or [`Stack::refuse`], so that a client is connected
//!   only when its target is, and is refused as its target refuses: by a reset, by an error of ICMP, or by silence. [`Stack::refuse`] is
//!   for [`StackEvent::UdpAsked`], too.
//! - [`StackEvent::Progress`]: there is something for [`Stack::receive`], or room for [`Stack::send`].
//! - [`StackEvent::EchoAsked`]: [`Stack::answer_echo`], [`Stack::fail_echo`] or [`Stack::refuse_echo`], if an answer comes.
//! - [`StackEvent::Unreachable`]: a router, or the host itself, says that a flow leads nowhere.
//! - [`Stack::poll_timeout`] says when [`Stack::handle_timeout`] is due.
//! - [`Stack::release`] when a flow is of no more use.
//!
//! Specifications: RFC 9293 (TCP, by smoltcp), RFC 768 (UDP), RFC 792 and RFC 4443 (echo, errors), RFC 5927 (which errors are believed), RFC 1122, section 3.2.1.3 (addresses that are
//! never a source or a destination).
//!
//! Begin reading in [`Stack`].

mod build;
mod counts;
mod echo;
mod errors;
mod flow;
mod fragments;
mod outgoing;
mod stack;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
mod wire;

pub use counts::StackCounts;
pub use echo::{EchoHandling, EchoId, FailedEcho};
pub use flow::{FlowId, FlowRefusal, Received, StackEvent};
pub use stack::{Checksums, OpenError, Stack, StackLimits, StackSettings};
pub use udp::UdpDatagram;

/// Connections at once, those that end included, unless the settings say otherwise: with both buffers of each, up to 32 MiB.
#[doc(alias = "bound")]
pub const MAX_TCP: usize = 256;

/// Connections at once that clients have asked for and that are not open yet, unless the settings say otherwise: more requests are lost,
/// and come again.
#[doc(alias = "bound")]
pub const MAX_HALF_OPEN: usize = 64;

/// Pairs of UDP ports at once, unless the settings say otherwise.
#[doc(alias = "bound")]
pub const MAX_UDP: usize = 1024;

/// Echo requests at once that wait for an answer from elsewhere.
#[doc(alias = "bound")]
pub const MAX_ECHOES: usize = 256;

/// Packets that wait to be written. Above it connections wait, and datagrams are lost.
#[doc(alias = "bound")]
pub const MAX_OUTGOING: usize = 1024;

/// Events that wait to be taken, of those that are not about a connection: above it datagrams are lost.
#[doc(alias = "bound")]
pub const MAX_EVENTS: usize = 1024;
