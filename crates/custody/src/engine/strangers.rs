//! Those whose keys are not known yet: they get a cookie, which costs no memory, and come back with it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use hermes_proto::custody::{COOKIE, CustodyPacket};

use crate::cookie::Cookies;

/// Answers to strangers that wait to be sent.
#[doc(alias = "bound")]
const STRANGERS: usize = 64;

/// What strangers are told.
pub(super) struct Strangers {
    cookies: Cookies,
    waiting: VecDeque<(SocketAddr, Bytes)>,
}

impl Strangers {
    /// None yet.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            cookies: Cookies::new(now),
            waiting: VecDeque::new(),
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

    /// Says what to say to be heard. It is shorter than what it answers.
    pub(super) fn retry(&mut self, epoch: u32, to: SocketAddr, now: Instant) {
        if self.waiting.len() < STRANGERS {
            let cookie = self.cookies.make(to, now);
            let packet = CustodyPacket::Retry { epoch, cookie };
            self.waiting.push_back((to, packet.encode()));
        }
    }

    /// The next answer.
    pub(super) fn poll_transmit(&mut self) -> Option<(SocketAddr, Bytes)> {
        self.waiting.pop_front()
    }
}
