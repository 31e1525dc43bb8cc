//! Echo requests that are forwarded, and wait for an answer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::ip::IcmpError;

use crate::MAX_ECHOES;

/// How long an answer is waited for: longer than the usual time-outs of `ping`.
#[doc(alias = "bound")]
const ECHO_WAIT: Duration = Duration::from_secs(10);

/// The handling of echo requests (RFC 792; RFC 4443, section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoHandling {
    /// They are answered here, for every host.
    Answer,
    /// They are [asked elsewhere](crate::StackEvent::EchoAsked), and answered when there is an answer.
    Ask,
    /// They are [handed on](crate::StackEvent::Other) as packets.
    HandOn,
}

/// An echo that was asked elsewhere, and did not get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedEcho {
    /// Its number on the wire.
    pub number: u16,
    /// The host that it was for.
    pub target: IpAddr,
    /// Why.
    pub error: IcmpError,
    /// The source of the error: a router, or the host. Of the family of the target.
    pub from: IpAddr,
}

/// An echo that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EchoId(u64);

impl EchoId {
    /// Its number on the wire, the sequence number of a request: of all that wait, no two have the same.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0 as u16
    }
}

/// The requests that wait, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct EchoTable {
    waiting: BTreeMap<EchoId, Waiting>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    request: Bytes,
    target: IpAddr,
    began: Instant,
}

impl EchoTable {
    /// Enters a request, in place of those that have waited for too long. Where that does not make room, the oldest is given up: its answer
    /// is the least likely to come. Returns how many were given up for that.
    pub(crate) fn begin(&mut self, request: Bytes, target: IpAddr, now: Instant) -> (EchoId, u64) {
        let mut lost = 0;
        while let Some(oldest) = self.waiting.first_entry() {
            let is_over = now.saturating_duration_since(oldest.get().began) > ECHO_WAIT;
            // A number comes again after 65,536 others.
            let returns = oldest.key().0 + u64::from(u16::MAX) < self.next;
            let is_in_the_way = self.waiting.len() >= MAX_ECHOES;
            if !is_over && !returns && !is_in_the_way {
                break;
            }
            lost += u64::from(!is_over);
            self.waiting.pop_first();
        }

        let echo = EchoId(self.next);
        self.next += 1;
        self.waiting.insert(
            echo,
            Waiting {
                request,
                target,
                began: now,
            },
        );
        (echo, lost)
    }

    /// The request with this number that `target` was asked and that still waits.
    pub(crate) fn end(&mut self, number: u16, target: IpAddr, now: Instant) -> Option<Bytes> {
        let newest = self.next.checked_sub(1)?;
        // The wire carries the low 16 bits of an ID: the newest ID with these bits is meant, as older ones were given up.
        let back = u64::from((newest as u16).wrapping_sub(number));
        let echo = EchoId(newest.checked_sub(back)?);
        let waiting = self.waiting.get(&echo)?;
        if waiting.target != target {
            return None;
        }
        let is_over = now.saturating_duration_since(waiting.began) > ECHO_WAIT;
        let waiting = self.waiting.remove(&echo)?;
        (!is_over).then_some(waiting.request)
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
