//! The sending half of a stream.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_net::quic::{SendStream, Stopped};
use hermes_proto::h3::{Code, FrameType, Role, frame};
use tokio_util::sync::ReusableBoxFuture;

use super::errors;
use super::stream_state::StreamState;
use crate::error::{Cause, Reset, StreamError};

/// Payloads below this size are copied behind the head of their frame, in bytes: that costs less than a piece of their own.
const SMALL: usize = 512;

/// The half itself. Dropped before its end, it resets the stream.
pub(crate) struct Sender {
    stream: Option<SendStream>,
    /// The unwritten rest of a frame: the future of a write can be dropped within it.
    unsent: Vec<Bytes>,
    stopped: Option<ReusableBoxFuture<'static, Stopped>>,
    pub(crate) state: Arc<StreamState>,
    priority: i32,
    ended: bool,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender")
            .field("stream", &self.state.id())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Sender {
    pub(crate) fn new(stream: SendStream, state: Arc<StreamState>) -> Self {
        Self {
            stream: Some(stream),
            unsent: Vec::new(),
            stopped: None,
            state,
            priority: 0,
            ended: false,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Writes a HEADERS frame with an encoded section.
    pub(crate) async fn section(&mut self, section: &[u8]) -> Result<(), StreamError> {
        let mut bytes = BytesMut::with_capacity(frame::MAX_HEAD + section.len());
        frame::encode(FrameType::Headers, section, &mut bytes);
        self.flush().await?;
        self.unsent.push(bytes.freeze());
        self.flush().await
    }

    /// Writes a DATA frame.
    pub(crate) async fn data(&mut self, data: Bytes) -> Result<(), StreamError> {
        self.flush().await?;
        let mut head = BytesMut::with_capacity(
            frame::MAX_HEAD + if data.len() < SMALL { data.len() } else { 0 },
        );
        frame::encode_head(FrameType::Data, data.len() as u64, &mut head);

        if data.len() < SMALL {
            head.extend_from_slice(&data);
            self.unsent.push(head.freeze());
        } else {
            self.unsent.extend([head.freeze(), data]);
        }

        self.flush().await
    }

    /// Writes a DATA frame with a payload of this length, in pieces.
    pub(super) async fn pieces(
        &mut self,
        length: u64,
        pieces: Vec<Bytes>,
    ) -> Result<(), StreamError> {
        self.flush().await?;
        let mut head = BytesMut::with_capacity(frame::MAX_HEAD);
        frame::encode_head(FrameType::Data, length, &mut head);
        self.unsent.push(head.freeze());
        self.unsent.extend(pieces);
        self.flush().await
    }

    /// Whether something is left of a frame.
    pub(crate) fn holds(&self) -> bool {
        self.unsent.iter().any(|piece| !piece.is_empty())
    }

    /// Writes the rest of a frame.
    pub(crate) async fn flush(&mut self) -> Result<(), StreamError> {
        while let Some(stream) = &mut self.stream {
            self.unsent.retain(|piece| !piece.is_empty());
            if self.unsent.is_empty() {
                break;
            }

            if self.ended {
                return Err(StreamError::new(Cause::Invalid(
                    "the stream has ended".to_owned(),
                )));
            }

            // Asked for at each write: a PRIORITY_UPDATE counts for what is written from then on.
            let priority = self.state.rank.level();
            if priority != self.priority {
                self.priority = priority;
                stream.set_priority(priority);
            }

            if let Err(error) = stream.write(&mut self.unsent).await {
                // The stream takes nothing any more; the rest would be tried again by each flush.
                self.unsent.clear();
                return Err(self.state.explain(error));
            }
        }
        Ok(())
    }

    /// Ends the stream.
    pub(crate) async fn finish(&mut self) -> Result<(), StreamError> {
        if self.ended {
            return Ok(());
        }
        self.flush().await?;
        self.ended = true;
        self.state.end_sending();
        let finished = self.stream.as_mut().map_or(Ok(()), SendStream::finish);

        finished.map_err(|error| self.state.explain(error))
    }

    /// Breaks the stream off, in both directions.
    pub(crate) fn reset(&mut self, reset: Reset) {
        self.state.reset(reset);
        self.break_off();
    }

    /// Ends this half with the code that the stream has, or with that of an exchange that was given up.
    fn break_off(&mut self) {
        self.state.end_sending();
        if let Some(stream) = self.stream.as_mut().filter(|_| !self.ended) {
            stream.reset(self.state.code_or(Code::RequestCancelled));
        }
        self.ended = true;
        // Only finished streams are waited for.
        self.stream = None;
    }

    /// Waits until the peer breaks the stream off, which may be never.
    pub(crate) async fn broken(&mut self) -> Reset {
        let Some(stream) = &self.stream else {
            return std::future::pending().await;
        };
        let stopped = self
            .stopped
            .get_or_insert_with(|| ReusableBoxFuture::new(stream.stopped()));
        let how = std::future::poll_fn(|cx| stopped.poll(cx)).await;
        self.stopped = None;

        match how {
            Stopped::Code(code) => {
                self.state.note_cancelled();
                errors::reset(Code::from(code))
            }
            Stopped::Lost(_) => {
                let given_up = self.state.shared().given_up();
                given_up.map_or(Reset::Lost, Reset::Silent)
            }
            Stopped::Acked => std::future::pending().await,
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.ended {
            self.break_off();
        } else if let Some(stream) = self.stream.take() {
            if self.state.shared().role == Role::Server {
                self.state.sent(stream.stopped());
            }
            self.state.shared().finishing.push(stream);
        }
    }
}
