//! A request's content that can be sent more than once, as long as all of it was kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hermes_http::{Frame, Incoming, StreamError};
use http::HeaderMap;
use tokio::net::TcpStream;

use crate::forward::pump::Source;

/// Content that is kept while it streams, up to a bound.
pub(in crate::forward) struct Replay<'a> {
    incoming: Incoming,
    length: Option<u64>,
    kept: Vec<Piece>,
    /// The piece that is sent next; what follows the last one comes from the client.
    at: usize,
    /// Bytes that may still be kept.
    room: u64,
    /// Set once something was passed on that was not kept, or once nothing need be kept.
    lost: &'a AtomicBool,
    /// Counts what came from the client, once.
    moved: &'a AtomicU64,
}

#[derive(Clone)]
enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl<'a> Replay<'a> {
    /// Keeps at most `room` bytes.
    pub(in crate::forward) fn new(incoming: Incoming, room: u64, lost: &'a AtomicBool, moved: &'a AtomicU64) -> Self {
        let length = incoming.length();
        Self { incoming, length, kept: Vec::new(), at: 0, room, lost, moved }
    }

    /// Begins again with the first piece.
    pub(in crate::forward) fn rewind(&mut self) {
        self.at = 0;
    }

    /// Bytes of the whole content, where the client announced them.
    pub(in crate::forward) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Lets go of what was kept, all of which has been sent.
    fn forget(&mut self) {
        self.kept = Vec::new();
        self.at = 0;
    }

    fn keep(&mut self, frame: &Frame) {
        if self.lost.load(Ordering::Relaxed) {
            return self.forget();
        }
        let piece = match frame {
            // A copy: a few bytes must not hold the whole buffer that they came in.
            Frame::Data(data) if data.len() as u64 <= self.room => {
                self.room -= data.len() as u64;
                Piece::Data(Bytes::copy_from_slice(data))
            }
            Frame::Data(_) => {
                self.lost.store(true, Ordering::Relaxed);
                return self.forget();
            }
            Frame::Trailers(trailers) => Piece::Trailers(trailers.clone()),
        };
        self.kept.push(piece);
        self.at = self.kept.len();
    }
}

impl Source for Replay<'_> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        if let Some(piece) = self.kept.get(self.at) {
            self.at += 1;
            return Poll::Ready(Some(Ok(match piece.clone() {
                Piece::Data(data) => Frame::Data(data),
                Piece::Trailers(trailers) => Frame::Trailers(trailers),
            })));
        }
        let polled = self.incoming.poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            if let Frame::Data(data) = frame {
                self.moved.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
            self.keep(frame);
        }
        polled
    }

    fn is_end(&self) -> bool {
        self.at >= self.kept.len() && self.incoming.is_end()
    }

    fn pack(&mut self, cx: &mut Context<'_>) {
        self.incoming.pack(cx);
    }

    /// Nothing of what the kernel moves could be kept.
    fn bulk(&self) -> Option<(&TcpStream, u64)> {
        self.incoming.bulk().filter(|_| self.at >= self.kept.len() && self.lost.load(Ordering::Relaxed))
    }

    fn count(&self) -> Option<&AtomicU64> {
        Some(self.moved)
    }

    fn passed(&mut self, bytes: u64) {
        self.incoming.passed(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    async fn all(replay: &mut Replay<'_>) -> Vec<u8> {
        let mut content = Vec::new();
        while let Some(frame) = poll_fn(|cx| replay.poll_frame(cx)).await {
            if let Frame::Data(data) = frame.unwrap() {
                content.extend_from_slice(&data);
            }
        }
        content
    }

    #[tokio::test]
    async fn what_was_kept_is_sent_again_and_counted_once() {
        let (lost, moved) = (AtomicBool::new(false), AtomicU64::new(0));
        let incoming = Incoming::Full(Some(Bytes::from_static(b"content")));
        let mut replay = Replay::new(incoming, 7, &lost, &moved);
        assert_eq!(replay.length(), Some(7));
        for _ in 0..3 {
            assert!(!replay.is_end());
            assert_eq!(all(&mut replay).await, b"content");
            assert!(replay.is_end());
            replay.rewind();
        }
        assert_eq!((lost.load(Ordering::Relaxed), moved.load(Ordering::Relaxed)), (false, 7));
    }

    #[tokio::test]
    async fn what_is_larger_than_the_bound_passes_and_is_not_kept() {
        let (lost, moved) = (AtomicBool::new(false), AtomicU64::new(0));
        let incoming = Incoming::Full(Some(Bytes::from_static(b"content")));
        let mut replay = Replay::new(incoming, 6, &lost, &moved);
        assert_eq!(all(&mut replay).await, b"content");
        assert!(lost.load(Ordering::Relaxed) && replay.kept.is_empty());
    }
}
