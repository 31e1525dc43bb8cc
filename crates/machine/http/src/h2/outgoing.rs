//! The output of an HTTP/2 stream.

use std::future::{Future, poll_fn};
use std::sync::Arc;

use bytes::Bytes;
use hermes_net::memory::Part;
use hermes_proto::fields::Fields;
use hermes_proto::h2::SendError;

use super::handle::StreamHandle;
use super::piece::Piece;
use crate::error::{Cause, Reset, StreamError};
use crate::pace::Pace;

/// The sending half.
#[derive(Debug)]
pub struct StreamSender {
    stream: StreamHandle,
    /// Counts the bytes that wait here and in the connection.
    part: Arc<Part>,
    ended: bool,
    pace: Pace,
}

impl StreamSender {
    pub(crate) fn new(stream: StreamHandle) -> Self {
        Self {
            part: Part::of(stream.arrivals().account()),
            stream,
            ended: false,
            pace: Pace::default(),
        }
    }

    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Holds the bytes from the call on.
    pub(crate) fn data(
        &mut self,
        mut data: Bytes,
        end: bool,
    ) -> impl Future<Output = Result<(), StreamError>> {
        let mut held = self.part.hold(data.len());

        // Not an `async fn`: its future would have room for its arguments twice, and those of idle tunnels are kept.
        async move {
            if self.ended && !data.is_empty() {
                return Err(StreamError::new(Cause::Invalid(
                    "the stream has ended".to_owned(),
                )));
            }

            while !data.is_empty() {
                let room = self
                    .pace
                    .bound(poll_fn(|cx| self.stream.poll_capacity(cx)))
                    .await??;
                let piece = data.split_to(room.min(data.len()));
                let length = piece.len();
                let piece = Piece::new(piece, held.split(length));
                self.ended = end && data.is_empty();
                self.pace.moved(length);
                let end = self.ended;
                self.stream
                    .tell(|machine, stream| machine.send(stream, piece, end))
                    .map_err(|error| self.failed(error))?;
            }

            if end { self.finish(None) } else { Ok(()) }
        }
    }

    /// Hands bytes on that may wait for room in the connection itself.
    pub(crate) fn early(&mut self, data: Bytes) -> Result<(), StreamError> {
        let held = self.part.hold(data.len());
        let piece = Piece::new(data, held);
        self.stream
            .tell(|machine, stream| machine.send(stream, piece, false))
            .map_err(|error| self.failed(error))
    }

    /// How much more may wait here.
    pub(crate) fn room(&self) -> usize {
        self.part.room()
    }

    /// Waits for room: the peer does not take the bytes handed over before.
    pub(crate) async fn roomy(&mut self) -> Result<usize, StreamError> {
        self.pace.bound(self.part.roomy()).await
    }

    pub(crate) fn finish(&mut self, trailers: Option<Fields>) -> Result<(), StreamError> {
        if !std::mem::replace(&mut self.ended, true) {
            self.stream
                .tell(|machine, stream| machine.finish(stream, trailers.as_ref()))
                .map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// A send on a stream that is gone fails for the reason why it is gone.
    fn failed(&self, error: SendError) -> StreamError {
        match error {
            SendError::Gone => self.stream.gone(),
            SendError::Unsendable(why) => StreamError::new(Cause::Invalid(why.to_string())),
        }
    }

    pub(crate) fn reset(&mut self, reset: Reset) {
        self.ended = true;
        self.stream.reset(reset.reason());
    }

    pub(crate) async fn broken(&mut self) -> Reset {
        poll_fn(|cx| self.stream.poll_broken(cx)).await.reset()
    }
}
