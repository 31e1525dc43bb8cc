//! Strangers, with whom this node shares no keys yet: they get a cookie, which costs no memory, and come back with it. Then their handshake
//! is read, within a budget.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;
use hermes_noise::{HandshakeBudget, PublicKey};
use hermes_proto::custody::{COOKIE, CustodyPacket};

use crate::cookie::Cookies;

/// Answers to strangers that wait to be sent.
#[doc(alias = "bound")]
const STRANGERS: usize = 64;

/// Bytes of a RETRY: a shorter datagram is not answered.
const RETRY: usize = 1 + 4 + COOKIE;

/// Cookies and answers for strangers.
pub(super) struct Strangers {
    cookies: Cookies,
    budget: HandshakeBudget,
    waiting: VecDeque<(SocketAddr, Bytes)>,
    answers: VecDeque<(SocketAddr, Bytes)>,
    refused: RefusedDatagrams,
    /// The last one that has shown a key that is no neighbour's.
    pub(super) unknown: Option<(SocketAddr, PublicKey)>,
}

/// Datagrams of which nothing is known but that they do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusedDatagrams {
    /// No message of custody.
    pub malformed: u64,
    /// Handshakes without a cookie, and messages under keys that are not known: they were asked to show that they receive at their address.
    pub strangers: u64,
    /// Handshakes with keys that are no neighbour's, and those that cannot be read.
    pub unknown_keys: u64,
    /// Handshakes that were too many.
    pub too_many: u64,
}

/// A datagram that is answered by a RETRY.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unknown {
    /// The epoch that it names.
    pub(super) epoch: u32,
    /// Its bytes.
    pub(super) length: usize,
}

impl Strangers {
    /// No strangers yet.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            cookies: Cookies::new(now),
            budget: HandshakeBudget::new(now),
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            refused: RefusedDatagrams::default(),
            unknown: None,
        }
    }

    /// Whether this cookie was made for this address.
    pub(super) fn is_good(
        &mut self,
        from: SocketAddr,
        cookie: &[u8; COOKIE],
        now: Instant,
    ) -> bool {
        self.cookies.is_good(from, cookie, now)
    }

    /// Whether the handshake of one with a cookie is read: `is_neighbour`, if a neighbour was heard at this address last.
    pub(super) fn admits(&mut self, from: IpAddr, is_neighbour: bool, now: Instant) -> bool {
        let is_admitted = self.budget.admits(from, is_neighbour, now);
        self.refused.too_many += u64::from(!is_admitted);
        is_admitted
    }

    /// The datagrams that were refused.
    pub(super) fn refused(&mut self) -> &mut RefusedDatagrams {
        &mut self.refused
    }

    /// Answers with a cookie. A RETRY is no longer than the datagram before it: a forged address is sent no more than its forger sends.
    pub(super) fn retry(&mut self, unknown: Unknown, to: SocketAddr, now: Instant) {
        self.refused.strangers += 1;
        if self.waiting.len() < STRANGERS && unknown.length >= RETRY {
            let cookie = self.cookies.make(to, now);
            let epoch = unknown.epoch;
            let packet = CustodyPacket::Retry { epoch, cookie };
            self.waiting.push_back((to, packet.encode()));
        }
    }

    /// Answers a handshake.
    pub(super) fn answer(&mut self, answer: Bytes, to: SocketAddr) {
        if self.answers.len() < STRANGERS {
            self.answers.push_back((to, answer));
        }
    }

    /// The next answer to a handshake.
    pub(super) fn poll_answer(&mut self) -> Option<(SocketAddr, Bytes)> {
        self.answers.pop_front()
    }

    /// The next answer to a stranger.
    pub(super) fn poll_retry(&mut self) -> Option<(SocketAddr, Bytes)> {
        self.waiting.pop_front()
    }
}
