//! The input of one stream.

use std::collections::VecDeque;
use std::task::Waker;

use hermes_net::memory::ExchangeCharge;
use hermes_proto::fields::Fields;
use hermes_proto::h2::{Failure, Reason};
use hermes_proto::head::ResponseHead;

use super::packed::Packed;
use crate::interim::Interim;
use crate::priority::Signals;

/// The input of a stream that was not taken, and the waker of its reader.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// How many hold the stream.
    pub(crate) handles: u32,
    pub(crate) heads: Heads,
    /// The charge for its fields, until the stream is gone.
    pub(crate) charge: Option<ExchangeCharge>,
    pub(crate) data: Packed,
    /// The peer's half has ended, with trailers or without.
    pub(crate) end: Option<Option<Box<Fields>>>,
    /// Its owner knows the end, or does not ask for it.
    pub(crate) is_read: bool,
    /// Someone reads the content of the response.
    pub(crate) has_reader: bool,
    pub(crate) failure: Option<Failure>,
    /// The signals about its priority.
    pub(crate) signals: Signals,
    pub(crate) reader: Option<Waker>,
    pub(crate) opener: Option<Waker>,
    pub(crate) writer: Option<Waker>,
}

/// Waiting heads of responses, with their size.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// The first one: most streams have no other.
    first: Option<(ResponseHead, bool)>,
    waiting: VecDeque<(ResponseHead, bool)>,
    interim: Interim,
}

impl Heads {
    /// Counts a response that has come, before it is kept: its reader may be slower than its server.
    ///
    /// # Errors
    /// There were too many interim ones before the final one.
    pub(crate) fn count(&mut self, response: &ResponseHead) -> Result<(), Failure> {
        if !response.status.is_informational() || self.interim.count(response) {
            return Ok(());
        }
        Err(Failure::Broken(
            Reason::PROTOCOL_ERROR,
            Interim::TOO_MANY.into(),
        ))
    }

    pub(crate) fn push(&mut self, response: ResponseHead, end: bool) {
        if self.first.is_none() && self.waiting.is_empty() {
            self.first = Some((response, end));
        } else {
            self.waiting.push_back((response, end));
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(ResponseHead, bool)> {
        self.first.take().or_else(|| self.waiting.pop_front())
    }
}

impl Inbox {
    /// RFC 9113, section 8.1: a response that is whole is not discarded because the rest of the request is not needed.
    pub(crate) fn is_whole_and_unread(&self) -> bool {
        let is_unneeded = self.failure == Some(Failure::Reset(Reason::NO_ERROR));
        is_unneeded && self.end.is_some() && self.has_reader && !self.is_read
    }

    /// Wakes all who wait.
    pub(crate) fn wake_all(&mut self) {
        for waker in [&mut self.reader, &mut self.opener, &mut self.writer] {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    /// Wakes one who waits.
    pub(crate) fn wake(waker: &mut Option<Waker>) {
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }
}
