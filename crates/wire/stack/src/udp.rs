//! Pairs of UDP ports, and their datagrams.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hermes_proto::ip::{Fragment, Packet, UDP};

use crate::build::{self, IPV6, UDP_HEADER};
use crate::flow::{Ends, FlowRefusal};

/// The silence after which a pair is forgotten, unless its holder asks for a longer one: the time that RFC 4787, section 4.3 recommends to
/// translators.
#[doc(alias = "bound")]
pub(crate) const UDP_SILENCE: Duration = Duration::from_secs(300);

/// A pair of ports.
#[derive(Debug)]
pub(crate) struct UdpFlow {
    pub(crate) ends: Ends,
    pub(crate) last: Instant,
    /// The silence after which the pair is forgotten.
    pub(crate) silence: Duration,
    /// When its silence is checked: datagrams note the time, and do not move the timer.
    pub(crate) due: Instant,
    /// The answer to its datagrams, once it was refused.
    pub(crate) refusal: Option<FlowRefusal>,
    /// Whether its last packet was not to be cut on the way.
    pub(crate) keeps_whole: bool,
}

impl UdpFlow {
    pub(crate) fn new(here: SocketAddr, there: SocketAddr, now: Instant) -> Self {
        Self {
            ends: Ends {
                protocol: UDP,
                here,
                there,
            },
            last: now,
            silence: UDP_SILENCE,
            due: now + UDP_SILENCE,
            refusal: None,
            keeps_whole: false,
        }
    }
}

/// A datagram of UDP by itself, without a flow: a question, or its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpDatagram<'a> {
    /// The source.
    pub from: SocketAddr,
    /// The destination.
    pub to: SocketAddr,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> UdpDatagram<'a> {
    /// The datagram in a packet; `None` if it is not a whole and undamaged packet of UDP without
    /// extension headers.
    pub fn parse(packet: &Packet<'a>) -> Option<Self> {
        let has_options = packet.header_length() > IPV6 && !packet.is_ipv4();
        let is_whole = packet.fragment() == Fragment::Whole && !has_options;
        if packet.protocol() != UDP || !is_whole || !build::is_sound(packet) {
            return None;
        }
        let flow = packet.flow();
        Some(Self {
            from: SocketAddr::new(flow.source, flow.source_port),
            to: SocketAddr::new(flow.destination, flow.destination_port),
            payload: payload(packet)?,
        })
    }

    /// The packet that carries it; both ends are of one family.
    pub fn to_packet(&self) -> Vec<u8> {
        build::udp(self.from, self.to, self.payload)
    }
}

/// The payload of a UDP packet; `None` if the length in its header differs from the actual one.
pub(crate) fn payload<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    let datagram = packet.payload();
    let said = datagram.get(4..6)?;
    let said = usize::from(u16::from_be_bytes([said[0], said[1]]));
    datagram.get(UDP_HEADER..said)
}
