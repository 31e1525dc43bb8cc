//! The source of a direction of a tunnel whose bytes are changed.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hermes_http::{Cause, Frame, Incoming, StreamError};
use hermes_observe::FunctionBytes;
use hermes_plug::{Alter, Malformed, PIECE};

use crate::pump::Source;
use crate::stage::Stage;

/// The source of a direction, with the transform of its bytes.
pub(crate) struct TransformedSource<'a> {
    inner: Box<dyn Source + Send + 'a>,
    /// The name of the transform.
    name: &'a str,
    alter: &'a mut dyn Alter,
    /// Counts its bytes.
    count: Option<&'a FunctionBytes>,
    /// Bytes that came and were not taken yet.
    input: Bytes,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Bytes come.
    Open,
    /// No more come; the rest is given.
    Ending,
    /// Everything was given, or it broke.
    Over,
}

impl<'a> TransformedSource<'a> {
    pub fn new(inner: Box<dyn Source + Send + 'a>, stage: Stage<'a>) -> Self {
        Self {
            inner,
            name: stage.name,
            alter: stage.alter,
            count: stage.count,
            input: Bytes::new(),
            phase: Phase::Open,
        }
    }

    /// The next piece of the bytes here; `None` if more have to come.
    fn piece(&mut self) -> Result<Option<Bytes>, Malformed> {
        let mut output = BytesMut::with_capacity(PIECE);
        while self.phase != Phase::Over {
            let before = self.input.len();
            if self.phase == Phase::Open || before > 0 {
                self.alter.alter(&mut self.input, &mut output)?;
            } else if self.alter.end(&mut output)? {
                self.phase = Phase::Over;
            }

            if !output.is_empty() {
                return Ok(Some(output.freeze()));
            }
            if self.phase == Phase::Open && self.input.is_empty() {
                return Ok(None);
            }

            // A plug that takes no input and gives no output would spin here for ever.
            if self.phase != Phase::Over && self.input.len() == before {
                return Err(Malformed("it goes no further".to_owned()));
            }
        }

        Ok(None)
    }
}

impl Source for TransformedSource<'_> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        loop {
            if self.phase != Phase::Over {
                ready!(self.alter.poll_ready(cx));
            }
            match self.piece() {
                Ok(Some(data)) => {
                    if let Some(count) = self.count {
                        count.given.fetch_add(data.len() as u64, Ordering::Relaxed);
                    }
                    return Poll::Ready(Some(Ok(Frame::Data(data))));
                }
                Ok(None) if self.phase == Phase::Over => return Poll::Ready(None),
                Ok(None) => {}
                Err(Malformed(reason)) => {
                    self.phase = Phase::Over;
                    let reason = format!("{}: {reason}", self.name);
                    let error = StreamError::new(Cause::Protocol(reason));
                    return Poll::Ready(Some(Err(error)));
                }
            }
            match ready!(self.inner.poll_frame(cx)) {
                Some(Ok(Frame::Data(data))) => {
                    if let Some(count) = self.count {
                        count.taken.fetch_add(data.len() as u64, Ordering::Relaxed);
                    }
                    self.input = data;
                }
                Some(Ok(Frame::Trailers(_))) | None => self.phase = Phase::Ending,
                Some(Err(error)) => {
                    self.phase = Phase::Over;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn is_end(&self) -> bool {
        self.phase == Phase::Over
    }

    fn limit(&mut self, most: usize) {
        self.inner.limit(most);
    }

    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        self.inner.poll_unasked(cx)
    }
}

impl Source for Box<dyn Source + Send + '_> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        (**self).poll_frame(cx)
    }

    fn is_end(&self) -> bool {
        (**self).is_end()
    }

    fn limit(&mut self, most: usize) {
        (**self).limit(most);
    }

    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        (**self).poll_unasked(cx)
    }
}

impl Source for &mut Incoming {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        (**self).poll_frame(cx)
    }

    fn is_end(&self) -> bool {
        (**self).is_end()
    }

    fn limit(&mut self, most: usize) {
        (**self).limit(most);
    }

    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        (**self).poll_unasked(cx)
    }
}
