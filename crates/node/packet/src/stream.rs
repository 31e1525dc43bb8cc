//! A stream of capsules that is read, and where that ends for now.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use hermes_http::{Frame, Incoming, StreamError};

/// The stream alone.
pub(crate) struct CapsuleStream {
    incoming: Incoming,
    /// Bytes read beyond the capsule at which the direction was stopped.
    pub(crate) rest: Bytes,
    /// Where the read part ends.
    pub(crate) reached: Reached,
}

/// Where the read part of a stream of capsules ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Between two capsules.
    Between,
    /// Within one, of which nothing was passed on.
    Held,
    /// Within a capsule, with its first piece passed on to another stream.
    Passed,
}

impl Reached {
    /// For bytes that are passed on as they come.
    pub(crate) fn passing(is_between: bool) -> Self {
        if is_between {
            Self::Between
        } else {
            Self::Passed
        }
    }
}

impl CapsuleStream {
    pub(crate) fn new(incoming: Incoming) -> Self {
        Self {
            incoming,
            rest: Bytes::new(),
            reached: Reached::Between,
        }
    }

    /// The available input, without waiting.
    pub(crate) async fn ready(&mut self) -> Option<Option<Result<Bytes, StreamError>>> {
        poll_fn(|cx| match pin!(self.next()).poll(cx) {
            Poll::Ready(data) => Poll::Ready(Some(data)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, StreamError>> {
        if !self.rest.is_empty() {
            return Some(Ok(std::mem::take(&mut self.rest)));
        }
        loop {
            match self.incoming.frame().await? {
                Ok(Frame::Data(data)) => return Some(Ok(data)),
                Ok(Frame::Trailers(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
