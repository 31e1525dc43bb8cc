//! The output of an HTTP/3 stream.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hermes_net::memory::Part;
use hermes_proto::fields::Fields;
use hermes_proto::h3::encode_trailers;

use super::datagrams::DatagramSender;
use super::sender::Sender;
use crate::error::{Cause, Reset, StreamError};
use crate::pace::Pace;

/// The sending half.
#[derive(Debug)]
pub struct RequestStreamSender {
    sender: Sender,
    /// Counts the bytes that wait here.
    part: Arc<Part>,
    pace: Pace,
}

impl RequestStreamSender {
    pub(crate) fn new(sender: Sender) -> Self {
        let part = Part::of(&sender.state.shared().account);
        Self {
            sender,
            part,
            pace: Pace::default(),
        }
    }

    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    pub(crate) async fn data(&mut self, data: Bytes, end: bool) -> Result<(), StreamError> {
        if self.sender.has_ended() && !data.is_empty() {
            return Err(StreamError::new(Cause::Invalid(
                "the stream has ended".to_owned(),
            )));
        }

        if !data.is_empty() {
            let length = data.len();
            let _held = self.part.hold(length);
            self.pace.bound(self.sender.data(data)).await??;
            self.pace.moved(length);
        }

        if end { self.finish(None).await } else { Ok(()) }
    }

    /// Sends them within one frame.
    pub(crate) async fn pieces(&mut self, pieces: Vec<Bytes>) -> Result<(), StreamError> {
        let length = pieces.iter().map(Bytes::len).sum();
        if length == 0 {
            return Ok(());
        }
        let _held = self.part.hold(length);
        self.pace
            .bound(self.sender.pieces(length as u64, pieces))
            .await??;
        self.pace.moved(length);
        Ok(())
    }

    /// How much may wait here.
    pub(crate) fn room(&self) -> usize {
        self.part.room()
    }

    /// Waits for that.
    pub(crate) async fn roomy(&mut self) -> Result<usize, StreamError> {
        self.pace.bound(self.part.roomy()).await
    }

    /// Bytes without room wait now, and leave with [`Self::flush`] or the next send.
    pub(crate) fn early(&mut self, data: Bytes) -> Result<(), StreamError> {
        match pin!(self.sender.data(data)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Whether something waits for room.
    pub(crate) fn holds(&self) -> bool {
        self.sender.holds()
    }

    pub(crate) async fn flush(&mut self) -> Result<(), StreamError> {
        self.pace.bound(self.sender.flush()).await?
    }

    pub(crate) async fn finish(&mut self, trailers: Option<Fields>) -> Result<(), StreamError> {
        if let Some(trailers) = trailers.filter(|_| !self.sender.has_ended()) {
            let state = &self.sender.state;
            let tables = &state.shared().tables;
            let section =
                tables.write(state.id(), |section| encode_trailers(&trailers, section))?;
            self.pace.bound(self.sender.section(&section)).await??;
        }
        self.pace.bound(self.sender.finish()).await?
    }

    pub(crate) fn reset(&mut self, reset: Reset) {
        self.sender.reset(reset);
    }

    pub(crate) async fn broken(&mut self) -> Reset {
        self.sender.broken().await
    }

    pub(crate) fn datagrams(&self) -> Option<DatagramSender> {
        let state = &self.sender.state;
        state.datagrams().map(|_| DatagramSender(state.clone()))
    }
}
