//! Pairs of UDP ports.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hermes_proto::ip::Packet;

use crate::build::UDP_HEADER;
use crate::flow::Ends;

/// How long nothing may come or go before a pair is forgotten: what RFC 4787, section 4.3 recommends to translators.
#[doc(alias = "bound")]
pub(crate) const UDP_SILENCE: Duration = Duration::from_secs(300);

/// A pair of ports.
#[derive(Debug)]
pub(crate) struct UdpFlow {
    pub(crate) ends: Ends,
    pub(crate) last: Instant,
    /// When it is looked at whether it was silent: not moved by every datagram.
    pub(crate) due: Instant,
}

impl UdpFlow {
    pub(crate) fn new(here: SocketAddr, there: SocketAddr, now: Instant) -> Self {
        Self {
            ends: Ends {
                protocol: hermes_proto::ip::UDP,
                here,
                there,
            },
            last: now,
            due: now + UDP_SILENCE,
        }
    }
}

/// What a packet of UDP carries; none where its header says another length than it has.
pub(crate) fn payload<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    let datagram = packet.payload();
    let said = datagram.get(4..6)?;
    let said = usize::from(u16::from_be_bytes([said[0], said[1]]));
    datagram.get(UDP_HEADER..said)
}
