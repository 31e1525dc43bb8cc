//! The receiving side of a stream.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn::VarInt;

use super::error::ReadError;
use super::flows::Flows;
use super::send::code_of;

/// The receiving side of a stream. Dropped before its end, the peer is told to stop.
#[derive(Debug)]
pub struct RecvStream {
    stream: quinn::RecvStream,
    flows: Arc<Flows>,
    /// There was something to read the last time.
    fed: bool,
}

impl RecvStream {
    pub(super) fn new(stream: quinn::RecvStream, flows: &Arc<Flows>) -> Self {
        Self { stream, flows: flows.clone(), fed: false }
    }

    /// The stream's ID (RFC 9000 section 2.1).
    #[must_use]
    pub fn id(&self) -> u64 {
        VarInt::from(self.stream.id()).into_inner()
    }

    /// The next bytes, `most` at most; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the peer reset the stream, or the connection ended.
    pub async fn read(&mut self, most: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| self.poll_read(cx, most)).await
    }

    /// As [`Self::read`].
    pub fn poll_read(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        // The waker is kept by the connection, not by the future.
        let polled = pin!(self.stream.read_chunk(most, true)).poll(cx);
        let came = match &polled {
            Poll::Ready(Ok(Some(chunk))) => Some(chunk.bytes.len()),
            _ => None,
        };
        self.flows.read(&mut self.fed, came);
        polled.map(|chunk| Ok(chunk?.map(|chunk| chunk.bytes)))
    }

    /// Tells the peer to stop, with `code`. A stream that has ended stays so.
    pub fn stop(&mut self, code: u64) {
        // Only a stream that has ended refuses.
        let _ = self.stream.stop(code_of(code));
    }

    /// True when the stream was opened in early data (0-RTT): somebody may have recorded and repeated it.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.stream.is_0rtt()
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.flows.read(&mut self.fed, None);
    }
}
