//! What leaves on an HTTP/2 stream.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::SendStream;
use hermes_net::memory::{Account, Part};
use http::HeaderMap;

use super::explain;
use super::piece::Piece;
use crate::error::{Cause, EVICTED, Reset, StreamError};
use crate::pace::Pace;

/// The sending half.
#[derive(Debug)]
pub struct Outgoing {
    stream: SendStream<Piece>,
    /// Counts what waits here and in the connection.
    part: Arc<Part>,
    account: Arc<Account>,
    ended: bool,
    pace: Pace,
}

impl Outgoing {
    pub(crate) fn new(stream: SendStream<Piece>, account: &Arc<Account>) -> Self {
        Self {
            stream,
            part: Part::of(account),
            account: account.clone(),
            ended: false,
            pace: Pace::default(),
        }
    }

    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    pub(crate) async fn data(&mut self, mut data: Bytes, end: bool) -> Result<(), StreamError> {
        if self.ended && !data.is_empty() {
            return Err(StreamError::new(Cause::Invalid(
                "the stream has ended".to_owned(),
            )));
        }
        let mut held = self.part.hold(data.len());
        while !data.is_empty() {
            let room = self.capacity(data.len()).await?;
            let piece = data.split_to(room.min(data.len()));
            let length = piece.len();
            let piece = Piece::new(piece, held.split(length));
            self.ended = end && data.is_empty();
            self.pace.moved(length);
            self.stream
                .send_data(piece, self.ended)
                .map_err(|error| self.failed(error))?;
        }
        if end { self.finish(None).await } else { Ok(()) }
    }

    /// Hands on what may wait for room in the connection itself.
    pub(crate) fn early(&mut self, data: Bytes) -> Result<(), StreamError> {
        let held = self.part.hold(data.len());
        self.stream
            .send_data(Piece::new(data, held), false)
            .map_err(|error| self.failed(error))
    }

    /// How much more may wait here.
    pub(crate) fn room(&self) -> usize {
        self.part.room()
    }

    /// Waits for that: the peer does not take what was handed over before.
    pub(crate) async fn roomy(&mut self) -> Result<usize, StreamError> {
        self.pace.bound(self.part.roomy()).await
    }

    /// Waits for the peer to give room for some of `wanted` bytes.
    async fn capacity(&mut self, wanted: usize) -> Result<usize, StreamError> {
        self.stream.reserve_capacity(wanted);
        loop {
            let room = self.stream.capacity();
            if room > 0 {
                return Ok(room);
            }
            match self
                .pace
                .bound(poll_fn(|cx| self.stream.poll_capacity(cx)))
                .await?
            {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(explain(&self.account, error)),
                None => {
                    let error = StreamError::new(Cause::Reset(self.broken().await));
                    return Err(explain(&self.account, error));
                }
            }
        }
    }

    pub(crate) async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), StreamError> {
        if !std::mem::replace(&mut self.ended, true) {
            let sent = match trailers {
                Some(trailers) => self.stream.send_trailers(trailers),
                None => self.stream.send_data(Piece::empty(), true),
            };
            sent.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// What could not be sent on a stream that is gone failed for the reason why it is gone.
    fn failed(&mut self, error: ::h2::Error) -> StreamError {
        let error = match self
            .stream
            .poll_reset(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(reason)) => StreamError::new(Cause::Reset(reason.into())),
            Poll::Ready(Err(gone)) => gone.into(),
            Poll::Pending => error.into(),
        };
        explain(&self.account, error)
    }

    pub(crate) fn reset(&mut self, reset: Reset) {
        self.ended = true;
        self.stream.send_reset(reset.reason());
    }

    pub(crate) async fn broken(&mut self) -> Reset {
        let reset = poll_fn(|cx| self.stream.poll_reset(cx)).await;
        match reset {
            _ if self.account.is_ended() => Reset::Silent(EVICTED),
            Ok(reason) => reason.into(),
            Err(_) => Reset::Connect,
        }
    }
}
