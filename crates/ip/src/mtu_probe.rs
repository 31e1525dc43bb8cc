//! Finds out whether a tunnel carries the 1,280 bytes that IPv6 needs (RFC 9484, section 7.1).

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::ip::{ICMPV6, MIN_MTU_V6, Packet};

use crate::link_echo::{self, ALL_NODES, ECHO_REPLY, ECHO_REQUEST, link_local};
use crate::role::IpRole;

/// How often it is asked before it is given up: datagrams get lost.
#[doc(alias = "bound")]
pub const PROBE_TRIES: u8 = 5;

/// How long each question may go unanswered: longer than the round trip of any path that is of use.
#[doc(alias = "bound")]
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// Bytes of data in a question: with the headers, 1,280.
const DATA: usize = MIN_MTU_V6 - 40 - 8;

/// What is known of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeState {
    /// Whether it carries 1,280 bytes is not known yet.
    Asking,
    /// It does.
    Proven,
    /// No question came back: it carries no IPv6, and must be torn down where it had to.
    Failed,
}

/// Asks the other end of a tunnel, with packets of 1,280 bytes.
#[derive(Debug, Clone)]
pub struct MtuProbe {
    from: Ipv6Addr,
    /// What tells our questions from others.
    identifier: u16,
    asked: u8,
    next: Option<Instant>,
    state: ProbeState,
}

impl MtuProbe {
    /// Asks from `own`, or as the end of a tunnel that has no address; `identifier` is any number.
    pub fn new(role: IpRole, own: Option<Ipv6Addr>, identifier: u16) -> Self {
        Self {
            from: own.unwrap_or(link_local(role)),
            identifier,
            asked: 0,
            next: None,
            state: ProbeState::Asking,
        }
    }

    /// What is known.
    pub fn state(&self) -> ProbeState {
        self.state
    }

    /// The next question, if it is time for one.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Bytes> {
        if self.state != ProbeState::Asking || self.next.is_some_and(|next| now < next) {
            return None;
        }
        if self.asked == PROBE_TRIES {
            self.state = ProbeState::Failed;
            self.next = None;
            return None;
        }

        self.asked += 1;
        self.next = Some(now + PROBE_WAIT);
        let mut rest = [0; 4 + DATA];
        rest[..2].copy_from_slice(&self.identifier.to_be_bytes());
        rest[3] = self.asked;
        Some(link_echo::write(self.from, ALL_NODES, ECHO_REQUEST, &rest))
    }

    /// When [`poll_packet`](Self::poll_packet) has to be called next; `None` once all is known.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next.filter(|_| self.state == ProbeState::Asking)
    }

    /// Takes a packet from the tunnel; true where it was an answer to us, and goes nowhere else.
    pub fn handle_packet(&mut self, packet: &[u8]) -> bool {
        // Most packets are not as long.
        if packet.len() != MIN_MTU_V6 {
            return false;
        }
        let Ok(packet) = Packet::parse(packet) else {
            return false;
        };
        let payload = packet.payload();
        let is_reply = packet.protocol() == ICMPV6 && payload.first() == Some(&ECHO_REPLY);
        let is_ours = payload.get(4..6) == Some(&self.identifier.to_be_bytes()[..])
            && packet.destination() == self.from;
        if !is_reply || !is_ours {
            return false;
        }

        // A late answer proves it as well as one in time.
        self.state = ProbeState::Proven;
        self.next = None;
        true
    }
}
