//! What arrives on an HTTP/2 stream.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use hermes_net::memory::Arrivals;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;

use super::convert::check_values;
use super::explain;
use super::packed::Packed;
use crate::Frame;
use crate::error::{Cause, StreamError};
use crate::pace::Pace;

/// The receiving half.
#[derive(Debug)]
pub struct Incoming {
    stream: RecvStream,
    length: Option<u64>,
    taken: usize,
    done: bool,
    /// What was taken from the stream before it was asked for.
    packed: Packed,
    /// The stream has no more data, or this error.
    over: Option<Result<(), h2::Error>>,
    /// Counts what has come and whose room was not given back.
    arrivals: Arc<Arrivals>,
    pace: Pace,
}

impl Incoming {
    pub(crate) fn new(
        mut stream: RecvStream,
        fields: &HeaderMap,
        arrivals: &Arc<Arrivals>,
    ) -> Self {
        let announced = fields
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let done = stream.is_end_stream();
        if !done {
            arrivals.open(
                stream.stream_id().as_u32(),
                stream.flow_control().used_capacity(),
            );
        }
        Self {
            stream,
            length: if done { Some(0) } else { announced },
            taken: 0,
            done,
            packed: Packed::default(),
            over: None,
            arrivals: arrivals.clone(),
            pace: Pace::default(),
        }
    }

    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, StreamError>>> {
        let polled = match self.poll_next(cx) {
            Poll::Ready(polled) => polled,
            Poll::Pending => {
                let slow = ready!(self.pace.poll_slow(cx));
                self.done = true;
                Some(Err(slow))
            }
        };
        if let Some(Ok(Frame::Data(data))) = &polled {
            self.pace.moved(data.len());
        }
        Poll::Ready(polled)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        self.give_back();
        if let Some(data) = self.packed.pop() {
            return Poll::Ready(Some(self.take(data)));
        }
        match self.over.take() {
            Some(Err(error)) => return Poll::Ready(self.fail(error)),
            Some(Ok(())) if !self.done => {
                self.over = Some(Ok(()));
                return self.poll_trailers(cx);
            }
            _ => {}
        }
        while !self.done {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) if data.is_empty() => {}
                Some(Ok(data)) => return Poll::Ready(Some(self.take(data))),
                Some(Err(error)) => return Poll::Ready(self.fail(error)),
                None => return self.poll_trailers(cx),
            }
        }
        Poll::Ready(None)
    }

    /// Takes what has come, and keeps it packed. Its room is not given back, so this ends with the stream's window.
    pub(crate) fn pack(&mut self, cx: &mut Context<'_>) {
        while !self.done && self.over.is_none() {
            match self.stream.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => self.packed.push(data),
                Poll::Ready(Some(Err(error))) => self.over = Some(Err(error)),
                Poll::Ready(None) => self.over = Some(Ok(())),
                Poll::Pending => return,
            }
        }
    }

    /// Puts back what was taken last.
    pub(crate) fn unread(&mut self, data: Bytes) {
        self.taken = self.taken.saturating_sub(data.len());
        self.packed.unread(data);
    }

    fn take(&mut self, data: Bytes) -> Result<Frame, StreamError> {
        self.taken = data.len();
        Ok(Frame::Data(data))
    }

    /// Returns the window of the last frame, now that its bytes went on.
    fn give_back(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken > 0 {
            // Fails only when the stream is gone, which the next poll reports.
            let _ = self.stream.flow_control().release_capacity(taken);
            self.arrivals.went(self.stream.stream_id().as_u32(), taken);
        }
    }

    fn poll_trailers(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        let trailers = ready!(self.stream.poll_trailers(cx));
        self.done = true;
        Poll::Ready(match trailers {
            Ok(trailers) => trailers.map(|trailers| match check_values(&trailers) {
                Ok(()) => Ok(Frame::Trailers(trailers)),
                Err(reason) => Err(StreamError::new(Cause::Protocol(reason))),
            }),
            Err(error) => self.fail(error),
        })
    }

    fn fail(&mut self, error: h2::Error) -> Option<Result<Frame, StreamError>> {
        self.done = true;
        Some(Err(explain(self.arrivals.account(), error)))
    }

    pub(crate) fn is_end(&self) -> bool {
        self.done || self.packed.is_empty() && self.over.is_none() && self.stream.is_end_stream()
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.arrivals.close(self.stream.stream_id().as_u32());
    }
}
