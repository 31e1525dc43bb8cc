//! The input of an HTTP/2 stream.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hermes_proto::fields::Fields;
use http::header::CONTENT_LENGTH;

use super::handle::{Arrived, StreamHandle};
use crate::Frame;
use crate::error::StreamError;
use crate::pace::Pace;

/// The receiving half.
#[derive(Debug)]
pub struct StreamReceiver {
    stream: StreamHandle,
    length: Option<u64>,
    taken: usize,
    done: bool,
    pace: Pace,
}

impl StreamReceiver {
    /// The input of a message with these fields; without content if `end`.
    pub(crate) fn new(stream: StreamHandle, fields: &Fields, end: bool) -> Self {
        let announced = fields
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        Self {
            stream,
            length: if end { Some(0) } else { announced },
            taken: 0,
            done: end,
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
        if self.done {
            return Poll::Ready(None);
        }
        let taken = std::mem::take(&mut self.taken);
        let polled = match self.stream.poll_content(cx, taken) {
            Poll::Ready(polled) => polled,
            Poll::Pending => Err(ready!(self.pace.poll_slow(cx))),
        };

        Poll::Ready(match polled {
            Ok(Arrived::Data(data)) => {
                self.taken = data.len();
                self.pace.moved(data.len());
                Some(Ok(Frame::Data(data)))
            }
            Ok(Arrived::End(trailers)) => {
                self.done = true;
                trailers.map(|trailers| Ok(Frame::Trailers(*trailers)))
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        })
    }

    /// Puts the last bytes back.
    pub(crate) fn unread(&mut self, data: Bytes) {
        self.taken = self.taken.saturating_sub(data.len());
        self.stream.unread(data);
    }

    pub(crate) fn is_end(&self) -> bool {
        self.done || self.stream.is_at_end()
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Drop for StreamReceiver {
    fn drop(&mut self) {
        self.stream.discard(self.taken);
    }
}
