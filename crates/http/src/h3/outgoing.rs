//! What leaves on an HTTP/3 stream.

use bytes::{Bytes, BytesMut};
use hermes_proto::h3::encode_trailers;
use http::HeaderMap;

use super::datagrams::DatagramSender;
use super::sender::Sender;
use crate::error::{Cause, Reset, StreamError};
use crate::pace::Pace;

/// The sending half.
#[derive(Debug)]
pub struct Outgoing {
    sender: Sender,
    pace: Pace,
}

impl Outgoing {
    pub(super) fn new(sender: Sender) -> Self {
        Self { sender, pace: Pace::default() }
    }

    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    pub(crate) async fn data(&mut self, data: Bytes, end: bool) -> Result<(), StreamError> {
        if self.sender.has_ended() && !data.is_empty() {
            return Err(StreamError::new(Cause::Invalid("the stream has ended".to_owned())));
        }
        if !data.is_empty() {
            let length = data.len();
            self.pace.bound(self.sender.data(data)).await??;
            self.pace.moved(length);
        }
        if end { self.finish(None).await } else { Ok(()) }
    }

    pub(crate) async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), StreamError> {
        if let Some(trailers) = trailers.filter(|_| !self.sender.has_ended()) {
            let mut section = BytesMut::new();
            encode_trailers(&trailers, &mut section)?;
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
