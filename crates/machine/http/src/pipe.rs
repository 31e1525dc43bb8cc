//! A stream within this process, from one task to another.
//!
//! Exchanges that came over no connection are answered through it: [`pipe`] makes the two halves.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hermes_proto::fields::Fields;
use parking_lot::Mutex;

use crate::error::{Cause, Reset, StreamError};
use crate::{Frame, Incoming, Outgoing};

/// Bytes that wait in a pipe for the task that receives them: some pieces of the size that connections are read in.
#[doc(alias = "bound")]
const ROOM: usize = 64 * 1024;

/// Pieces that wait in a pipe: each may hold the buffer that it came in.
#[doc(alias = "bound")]
const PIECES: usize = 64;

/// A stream within this process. Its sender waits while 64 KiB or 64 pieces are not taken. A sender that is dropped before
/// the end resets the stream, and a receiver that is dropped makes it [broken](Outgoing::broken).
///
/// `length` is that of the content, where it is known.
pub fn pipe(length: Option<u64>) -> (Outgoing, Incoming) {
    let shared = Arc::new(Mutex::new(PipeBuffer::default()));
    let receiver = PipeReceiver {
        waiting: shared.clone(),
        length,
    };

    (
        Outgoing::Piped(PipeSender { waiting: shared }),
        Incoming::Piped(receiver),
    )
}

/// Bytes that were sent and not yet received.
#[derive(Debug, Default)]
struct PipeBuffer {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The end of the stream, if it has come.
    ended: Option<PipeEnd>,
    /// The receiver is gone.
    gone: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

#[derive(Debug, Clone, Copy)]
enum PipeEnd {
    Well,
    Reset(Reset),
}

impl PipeBuffer {
    fn room(&self) -> usize {
        if self.frames.len() < PIECES {
            ROOM.saturating_sub(self.bytes)
        } else {
            0
        }
    }

    fn push(&mut self, frame: Frame) {
        if let Frame::Data(data) = &frame {
            self.bytes += data.len();
        }
        self.frames.push_back(frame);
        wake(&mut self.receiver);
    }

    fn end(&mut self, ended: PipeEnd) {
        if self.ended.is_none() {
            self.ended = Some(ended);
            wake(&mut self.receiver);
        }
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// The sending half of a pipe.
#[derive(Debug)]
pub struct PipeSender {
    waiting: Arc<Mutex<PipeBuffer>>,
}

impl PipeSender {
    pub(crate) fn room(&self) -> usize {
        self.waiting.lock().room()
    }

    pub(crate) async fn roomy(&mut self) -> Result<usize, StreamError> {
        poll_fn(|cx| {
            let mut waiting = self.waiting.lock();
            if waiting.gone {
                return Poll::Ready(Err(StreamError::new(Cause::Reset(Reset::Cancel))));
            }

            match waiting.room() {
                0 => {
                    waiting.sender = Some(cx.waker().clone());
                    Poll::Pending
                }
                room => Poll::Ready(Ok(room)),
            }
        })
        .await
    }

    pub(crate) async fn data(&mut self, data: Bytes, end: bool) -> Result<(), StreamError> {
        // One piece may exceed the room: a sender waits for some room, not for all of it, so that large pieces pass whole.
        self.roomy().await?;
        let mut waiting = self.waiting.lock();
        if !data.is_empty() {
            waiting.push(Frame::Data(data));
        }

        if end {
            waiting.end(PipeEnd::Well);
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, trailers: Option<Fields>) {
        let mut waiting = self.waiting.lock();
        if let Some(trailers) = trailers {
            waiting.push(Frame::Trailers(trailers));
        }
        waiting.end(PipeEnd::Well);
    }

    pub(crate) fn reset(&mut self, reset: Reset) {
        let mut waiting = self.waiting.lock();
        if !waiting.frames.is_empty() {
            // Bytes that are taken back here were not received: the content must not look whole,
            // even if its end was sent.
            waiting.ended = None;
        }
        waiting.frames.clear();
        waiting.bytes = 0;
        waiting.end(PipeEnd::Reset(reset));
    }

    pub(crate) async fn broken(&mut self) -> Reset {
        poll_fn(|cx| {
            let mut waiting = self.waiting.lock();
            if waiting.gone {
                return Poll::Ready(Reset::Cancel);
            }
            waiting.sender = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for PipeSender {
    fn drop(&mut self) {
        self.waiting.lock().end(PipeEnd::Reset(Reset::Cancel));
    }
}

/// The receiving half of a pipe.
#[derive(Debug)]
pub struct PipeReceiver {
    waiting: Arc<Mutex<PipeBuffer>>,
    length: Option<u64>,
}

impl PipeReceiver {
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, StreamError>>> {
        let mut waiting = self.waiting.lock();
        if let Some(frame) = waiting.frames.pop_front() {
            if let Frame::Data(data) = &frame {
                waiting.bytes -= data.len();
            }
            wake(&mut waiting.sender);
            return Poll::Ready(Some(Ok(frame)));
        }

        match waiting.ended {
            Some(PipeEnd::Well) => Poll::Ready(None),
            Some(PipeEnd::Reset(reset)) => {
                // Said once; then nothing more comes.
                waiting.ended = Some(PipeEnd::Well);
                Poll::Ready(Some(Err(StreamError::new(Cause::Reset(reset)))))
            }
            None => {
                waiting.receiver = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(crate) fn is_end(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.frames.is_empty() && matches!(waiting.ended, Some(PipeEnd::Well))
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Drop for PipeReceiver {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        waiting.gone = true;
        waiting.frames.clear();
        waiting.bytes = 0;
        wake(&mut waiting.sender);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn is_pending<T>(future: impl Future<Output = T>) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(future).as_mut().poll(&mut cx).is_pending()
    }

    #[tokio::test]
    async fn what_is_sent_arrives_in_order_and_then_the_end() {
        let (mut outgoing, mut incoming) = pipe(Some(5));
        assert_eq!(incoming.length(), Some(5));
        outgoing
            .data(Bytes::from_static(b"one"), false)
            .await
            .unwrap();
        outgoing
            .data(Bytes::from_static(b"to"), true)
            .await
            .unwrap();
        let mut content = Vec::new();
        while let Some(frame) = incoming.frame().await {
            if let Frame::Data(data) = frame.unwrap() {
                content.extend_from_slice(&data);
            }
        }
        assert_eq!(content, b"oneto");
        assert!(incoming.is_end());
    }

    #[tokio::test]
    async fn a_sender_waits_while_nothing_is_taken() {
        let (mut outgoing, mut incoming) = pipe(None);
        let piece = Bytes::from(vec![0; ROOM]);
        outgoing.data(piece.clone(), false).await.unwrap();
        assert_eq!(outgoing.room(), 0);
        assert!(is_pending(outgoing.data(piece.clone(), false)));
        assert!(matches!(incoming.frame().await, Some(Ok(Frame::Data(_)))));
        outgoing.data(piece, false).await.unwrap();
    }

    #[tokio::test]
    async fn small_pieces_are_bounded_in_number() {
        let (mut outgoing, _incoming) = pipe(None);
        for _ in 0..PIECES {
            outgoing
                .data(Bytes::from_static(b"x"), false)
                .await
                .unwrap();
        }
        assert_eq!(outgoing.room(), 0);
    }

    #[tokio::test]
    async fn what_is_reset_before_it_was_received_does_not_look_whole() {
        let (mut outgoing, mut incoming) = pipe(None);
        let piece = Bytes::from_static(b"all");
        outgoing.data(piece.clone(), true).await.unwrap();
        outgoing.reset(Reset::Lost);
        assert!(matches!(incoming.frame().await, Some(Err(_))));

        // The received content is whole.
        let (mut outgoing, mut incoming) = pipe(None);
        outgoing.data(piece, true).await.unwrap();
        assert!(matches!(incoming.frame().await, Some(Ok(_))));
        outgoing.reset(Reset::Lost);
        assert!(incoming.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_half_that_is_dropped_breaks_the_other() {
        let (mut outgoing, incoming) = pipe(None);
        drop(incoming);
        assert_eq!(outgoing.broken().await, Reset::Cancel);
        assert!(
            outgoing
                .data(Bytes::from_static(b"x"), false)
                .await
                .is_err()
        );
        let (outgoing, mut incoming) = pipe(None);
        drop(outgoing);
        assert!(matches!(incoming.frame().await, Some(Err(_))));
        assert!(incoming.frame().await.is_none());
    }
}
