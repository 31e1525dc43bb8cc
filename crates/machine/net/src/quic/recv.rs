//! The receiving side of a stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::error::ReadError;
use super::readers::{Reader, Readers};

/// The receiving side of a stream. If it is dropped before its end, it tells the peer to stop.
#[derive(Debug)]
pub struct RecvStream {
    reader: Arc<Reader>,
    /// The waker of the reader itself.
    woken: Waker,
}

impl RecvStream {
    pub(super) fn new(stream: quinn::RecvStream, readers: &Arc<Readers>) -> Self {
        let reader = Reader::new(stream, readers);
        Self {
            woken: Waker::from(reader.clone()),
            reader,
        }
    }

    /// The stream's ID (RFC 9000 section 2.1).
    #[must_use]
    pub fn id(&self) -> u64 {
        self.reader.id()
    }

    /// The next bytes, `most` at most; `None` at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the peer reset the stream, the connection ended, or the stream was ended because it stood still.
    pub async fn read(&mut self, most: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| self.poll_read(cx, most)).await
    }

    /// As [`Self::read`].
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.reader.poll_read(cx, &self.woken, most)
    }

    /// Ready once the stream was ended because its bytes were not read, and the other streams of a
    /// link needed the room. To be polled by the side that does not read at the moment.
    pub fn poll_still(&mut self, cx: &mut Context<'_>) -> Poll<ReadError> {
        self.reader.poll_still(cx)
    }

    /// Tells the peer to stop, with `code`. A stream that has ended stays so.
    pub fn stop(&mut self, code: u64) {
        self.reader.stop(code);
    }

    /// True when the stream was opened in early data (0-RTT): someone may have recorded and repeated it.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.reader.is_early()
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.reader.close();
    }
}
