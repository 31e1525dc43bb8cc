//! What has come on one stream.

use std::collections::VecDeque;
use std::task::Waker;

use hermes_proto::fields::Fields;
use hermes_proto::h2::{Failure, Reason};
use hermes_proto::head::ResponseHead;

use super::packed::Packed;
use crate::priority::Signals;

/// What has come on a stream and was not taken, and who waits for more.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// How many hold the stream.
    pub(super) handles: u32,
    pub(super) heads: Heads,
    pub(super) data: Packed,
    /// The peer's half has ended, with trailers or without.
    pub(super) end: Option<Option<Box<Fields>>>,
    /// Its owner knows the end, or does not ask for it.
    pub(super) is_read: bool,
    /// Someone reads the content of the response.
    pub(super) has_reader: bool,
    pub(super) failure: Option<Failure>,
    /// What was said of its priority.
    pub(super) signals: Signals,
    pub(super) reader: Option<Waker>,
    pub(super) opener: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

/// Heads of responses that wait, with what they hold.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// The first one: most streams have no other.
    first: Option<(ResponseHead, bool)>,
    waiting: VecDeque<(ResponseHead, bool)>,
    fields: usize,
}

/// Fields of the interim responses that wait, beyond which no more are kept: their reader refuses far fewer.
const WAITING_FIELDS: usize = 4096;

/// Interim responses that wait, beyond which no more are kept.
const WAITING: usize = 64;

impl Heads {
    pub(super) fn push(&mut self, response: ResponseHead, end: bool) {
        if self.first.is_none() && self.waiting.is_empty() {
            self.fields += response.fields.len();
            self.first = Some((response, end));
        } else if self.waiting.len() < WAITING && self.fields < WAITING_FIELDS {
            self.fields += response.fields.len();
            self.waiting.push_back((response, end));
        }
    }

    pub(super) fn pop(&mut self) -> Option<(ResponseHead, bool)> {
        let first = self.first.take();
        let (response, end) = first.or_else(|| self.waiting.pop_front())?;
        self.fields -= response.fields.len();
        Some((response, end))
    }
}

impl Inbox {
    /// RFC 9113, section 8.1: a response that is whole is not discarded because the rest of the request is not needed.
    pub(super) fn is_whole_and_unread(&self) -> bool {
        let is_unneeded = self.failure == Some(Failure::Reset(Reason::NO_ERROR));
        is_unneeded && self.end.is_some() && self.has_reader && !self.is_read
    }

    /// Wakes all who wait.
    pub(super) fn wake_all(&mut self) {
        for waker in [&mut self.reader, &mut self.opener, &mut self.writer] {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    /// Wakes one who waits.
    pub(super) fn wake(waker: &mut Option<Waker>) {
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }
}
