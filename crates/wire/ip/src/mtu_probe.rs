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

/// How long a tunnel that is too narrow is left alone before it is asked again: a path may have lost all questions by bad luck.
#[doc(alias = "bound")]
const PROBE_AGAIN: Duration = Duration::from_secs(2);

/// How long an end that answered nothing is left alone: the path may have been broken, and some ends answer no echoes at all.
#[doc(alias = "bound")]
const PROBE_RARELY: Duration = Duration::from_secs(10);

/// Bytes before the data of a question.
const HEADERS: usize = 40 + 8;

/// Bytes of a long probe, the minimum MTU of IPv6, and of a short one, which fits any link.
const LONG: usize = MIN_MTU_V6;
const SHORT: usize = HEADERS + 8;

/// The result of probing a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeState {
    /// Whether it carries 1,280 bytes is not known yet.
    Asking,
    /// It carries 1,280 bytes.
    Proven,
    /// It carries less, and so no IPv6: the other end answers short probes and no long one.
    TooNarrow,
    /// The other end answers nothing.
    Unanswered,
}

/// Asks the other end of a tunnel, with packets of 1,280 bytes, and with short ones, which tell an end that does not answer from a path
/// that carries too little.
#[derive(Debug, Clone)]
pub struct MtuProbe {
    from: Ipv6Addr,
    /// Tells our probes from other echo requests.
    identifier: u16,
    asked: u8,
    next: Option<Instant>,
    state: ProbeState,
    /// The short question that belongs to the long one that was asked last.
    has_short: bool,
    /// A short question was answered.
    is_heard: bool,
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
            has_short: false,
            is_heard: false,
        }
    }

    /// The result so far.
    pub fn state(&self) -> ProbeState {
        self.state
    }

    /// The next question, if it is time for one.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Bytes> {
        if std::mem::take(&mut self.has_short) {
            return Some(self.question(SHORT));
        }
        if !self.asks() || self.next.is_some_and(|next| now < next) {
            return None;
        }
        // The path may widen, or come back: it is asked on, at leisure.
        if self.state != ProbeState::Asking {
            self.next = Some(now + self.pause());
            self.has_short = self.state == ProbeState::Unanswered;
            return Some(self.question(LONG));
        }
        if self.asked == PROBE_TRIES {
            self.state = match self.is_heard {
                true => ProbeState::TooNarrow,
                false => ProbeState::Unanswered,
            };
            self.next = Some(now + self.pause());
            return None;
        }

        self.asked += 1;
        self.next = Some(now + PROBE_WAIT);
        // Beside each long one a short one: without its answer, silence would look like a narrow path.
        self.has_short = true;
        Some(self.question(LONG))
    }

    /// When [`poll_packet`](Self::poll_packet) has to be called next; `None` once it is proven.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next.filter(|_| self.asks())
    }

    fn asks(&self) -> bool {
        self.state != ProbeState::Proven
    }

    /// The time between questions once as many were asked as are at first.
    fn pause(&self) -> Duration {
        match self.state {
            ProbeState::Unanswered => PROBE_RARELY,
            _ => PROBE_AGAIN,
        }
    }

    /// A question of so many bytes.
    fn question(&self, bytes: usize) -> Bytes {
        let mut rest = [0; 4 + LONG - HEADERS];
        rest[..2].copy_from_slice(&self.identifier.to_be_bytes());
        // The sequence number tells tries apart in a capture.
        rest[3] = self.asked;
        let rest = &rest[..4 + bytes - HEADERS];
        link_echo::write(self.from, ALL_NODES, ECHO_REQUEST, rest)
    }

    /// Takes a packet from the tunnel; true where it was an answer to us, and goes nowhere else.
    pub fn handle_packet(&mut self, packet: &[u8]) -> bool {
        // Most packets have another length.
        let is_long = packet.len() == LONG;
        if !is_long && packet.len() != SHORT {
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
        if is_long {
            self.state = ProbeState::Proven;
            self.next = None;
        } else if self.state == ProbeState::Unanswered {
            // It is there again: whether the path is narrow is asked anew.
            self.state = ProbeState::Asking;
            self.asked = 0;
            self.next = None;
            return true;
        }
        self.is_heard = true;
        true
    }
}
