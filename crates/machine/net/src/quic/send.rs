//! The sending side of a stream.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn::{StoppedError, VarInt};
use tokio_util::sync::ReusableBoxFuture;

use super::error::{ConnectionError, Stopped, WriteError};
use super::flows::Flows;

/// The code of a stream that was dropped unfinished: H3_REQUEST_CANCELLED (RFC 9114 section 8.1).
const ABANDONED: u64 = 0x10c;

/// The sending side of a stream. If it is dropped before [`Self::finish`], it is reset: an
/// incomplete content never looks complete.
#[derive(Debug)]
pub struct SendStream {
    stream: quinn::SendStream,
    flows: Arc<Flows>,
    /// Once it had to wait for room: that the peer stops reading meanwhile.
    stopped: Option<ReusableBoxFuture<'static, Stopped>>,
    ended: bool,
}

impl SendStream {
    pub(super) fn new(stream: quinn::SendStream, flows: &Arc<Flows>) -> Self {
        Self {
            stream,
            flows: flows.clone(),
            stopped: None,
            ended: false,
        }
    }

    /// The stream's ID (RFC 9000 section 2.1).
    #[must_use]
    pub fn id(&self) -> u64 {
        VarInt::from(self.stream.id()).into_inner()
    }

    /// Writes some of `pieces`, one byte at least, and advances each past its written bytes. Waits
    /// for room. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the peer reads no more, or the connection ended.
    pub async fn write(&mut self, pieces: &mut [Bytes]) -> Result<(), WriteError> {
        if pieces.iter().all(Bytes::is_empty) {
            return Ok(());
        }
        let written = poll_fn(|cx| {
            let written = pin!(self.stream.write_chunks(pieces)).poll(cx);
            match written {
                Poll::Ready(written) => Poll::Ready(written.map_err(WriteError::from)),
                Poll::Pending => self.poll_stopped(cx).map(Err),
            }
        });

        let written = written.await?;
        self.flows.wrote(written.bytes);
        Ok(())
    }

    /// Ready when the peer stops reading a stream that waits for room. quinn does not tell a writer
    /// while the connection has no room at all, nor later if the stream has none.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<WriteError> {
        if self.stopped.is_none() {
            self.stopped = Some(ReusableBoxFuture::new(self.stopped()));
        }
        let Some(Poll::Ready(stopped)) = self.stopped.as_mut().map(|stopped| stopped.poll(cx))
        else {
            return Poll::Pending;
        };

        self.stopped = None;
        Poll::Ready(match stopped {
            Stopped::Code(code) => WriteError::Stopped(code),
            Stopped::Lost(error) => WriteError::Connection(error),
            Stopped::Acked => WriteError::Closed,
        })
    }

    /// Says that nothing more comes.
    ///
    /// # Errors
    /// [`WriteError::Closed`] when the stream has ended before.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        self.ended = true;
        self.stream.finish().map_err(|_| WriteError::Closed)
    }

    /// Abandons the stream with `code`; unacknowledged bytes are not sent again. A stream that has
    /// ended stays so.
    pub fn reset(&mut self, code: u64) {
        self.ended = true;
        // Only a stream that has ended refuses.
        let _ = self.stream.reset(code_of(code));
    }

    /// Resolves when the peer stops reading, or has everything of a finished stream.
    pub fn stopped(&self) -> impl Future<Output = Stopped> + Send + 'static {
        let stopped = self.stream.stopped();
        async move {
            match stopped.await {
                Ok(Some(code)) => Stopped::Code(code.into_inner()),
                Ok(None) => Stopped::Acked,
                Err(StoppedError::ConnectionLost(error)) => Stopped::Lost(error.into()),
                Err(StoppedError::ZeroRttRejected) => Stopped::Lost(ConnectionError::Other(
                    "the server did not take early data".to_owned(),
                )),
            }
        }
    }

    /// Streams of higher priority are sent first; 0 at first.
    pub fn set_priority(&self, priority: i32) {
        // Only a stream that has ended refuses.
        let _ = self.stream.set_priority(priority);
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if !self.ended {
            self.reset(ABANDONED);
        }
    }
}

/// A code as QUIC writes it; those that do not exist become the largest.
pub(super) fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
