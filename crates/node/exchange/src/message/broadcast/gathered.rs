//! The content that a broadcast is answered with, while its client takes it.

use std::collections::VecDeque;

use bytes::Bytes;
use hermes_admit::buffered::Content;
use hermes_http::{Outgoing, StreamError};
use hermes_net::memory::Charge;
use hermes_proto::fields::Fields;

/// The content of one reply, or of all in one. These are not copied together.
#[derive(Default)]
pub(super) struct GatheredContent {
    pieces: VecDeque<Bytes>,
    trailers: Option<Fields>,
    /// Given back when the client has taken all, or is gone.
    _charges: Vec<Charge>,
}

impl From<Content> for GatheredContent {
    fn from(content: Content) -> Self {
        Self {
            pieces: VecDeque::from([content.data]),
            trailers: content.trailers,
            _charges: content.charge.into_iter().collect(),
        }
    }
}

impl GatheredContent {
    /// That of several replies, in these pieces.
    pub(super) fn of_many(pieces: VecDeque<Bytes>, charges: Vec<Charge>) -> Self {
        Self {
            pieces,
            trailers: None,
            _charges: charges,
        }
    }

    /// How many bytes it has.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    /// They, to be announced; `None` with trailers, which HTTP/1.1 has behind chunks only.
    pub(super) fn length(&self) -> Option<u64> {
        self.trailers.is_none().then(|| self.bytes())
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// As for [`Outgoing::data`].
    pub(super) async fn send(mut self, outgoing: &mut Outgoing) -> Result<(), StreamError> {
        self.pieces.retain(|piece| !piece.is_empty());
        while let Some(piece) = self.pieces.pop_front() {
            let is_end = self.pieces.is_empty() && self.trailers.is_none();
            outgoing.data(piece, is_end).await?;
            if is_end {
                return Ok(());
            }
        }

        outgoing.finish(self.trailers).await
    }
}
