//! A connection whose frames are counted as they are read and written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use hermes_net::memory::Arrivals;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::heads::{DATA, GOAWAY, HEADERS, Heads};
use super::meter::{Meter, Verdict};
use super::profile::Profile;

/// Bytes of the preface that precedes a client's frames (RFC 9113, 3.4).
const PREFACE: usize = 24;

/// GOAWAY with ENHANCE_YOUR_CALM; no stream of the peer's was begun.
const CALM: [u8; 17] = [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xb];

/// The verdict, for the driver of the connection.
#[derive(Debug, Default)]
pub(crate) struct Watchman {
    worst: AtomicU32,
    heard: AtomicU64,
    changed: Notify,
    /// Whether the peer has stopped taking what is written.
    blocked: AtomicBool,
    unblocked: Notify,
}

impl Watchman {
    fn note(&self, verdict: Verdict) {
        let number = verdict as u32;
        if verdict != Verdict::Fine && self.worst.fetch_max(number, Ordering::Relaxed) < number {
            self.changed.notify_one();
        }
    }

    /// Resolves when a verdict is worse than `known`.
    pub(crate) async fn worse_than(&self, known: Verdict) -> Verdict {
        loop {
            let verdict = self.verdict();
            if verdict > known {
                return verdict;
            }
            self.changed.notified().await;
        }
    }

    /// How often something came from the peer, whatever it was.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Waits while the peer takes nothing. Heads pass no window, so one that is to be sent asks here first.
    pub(super) async fn writable(&self) {
        while self.blocked.load(Ordering::Relaxed) {
            let unblocked = self.unblocked.notified();
            if !self.blocked.load(Ordering::Relaxed) {
                return;
            }
            unblocked.await;
        }
    }

    fn wrote(&self, blocked: bool) {
        if self.blocked.load(Ordering::Relaxed) != blocked {
            self.blocked.store(blocked, Ordering::Relaxed);
            if !blocked {
                self.unblocked.notify_waiters();
            }
        }
    }

    fn verdict(&self) -> Verdict {
        match self.worst.load(Ordering::Relaxed) {
            0 => Verdict::Fine,
            1 => Verdict::Retire,
            _ => Verdict::Calm,
        }
    }
}

/// A connection.
pub(super) struct Metered<S> {
    stream: S,
    meter: Meter,
    received: Heads,
    sent: Heads,
    watchman: Arc<Watchman>,
    arrivals: Option<Arc<Arrivals>>,
    /// The stream and the length of a DATA frame that is not here as a whole yet.
    arriving: Option<(u32, usize)>,
    /// Whether it fails by itself when calm is asked for, since no one could say so to a server.
    fails: bool,
    /// Whether others are to run before more is read.
    pauses: bool,
}

/// Response heads taken in one read before their exchanges look at them: the `h2` crate itself
/// keeps any number.
#[doc(alias = "bound")]
const HEADS_AT_ONCE: u32 = 64;

impl<S> Metered<S> {
    /// Of a client, which is served.
    pub(super) fn served(stream: S, profile: Profile) -> (Self, Arc<Watchman>) {
        Self::new(stream, profile, (PREFACE, 0))
    }

    /// To a server.
    pub(super) fn dialled(stream: S, profile: Profile) -> (Self, Arc<Watchman>) {
        let (metered, watchman) = Self::new(stream, profile, (0, PREFACE));
        (
            Self {
                fails: true,
                ..metered
            },
            watchman,
        )
    }

    /// Counts what arrives, too.
    pub(super) fn counted(self, arrivals: &Arc<Arrivals>) -> Self {
        Self {
            arrivals: Some(arrivals.clone()),
            ..self
        }
    }

    fn new(stream: S, profile: Profile, (received, sent): (usize, usize)) -> (Self, Arc<Watchman>) {
        let watchman = Arc::<Watchman>::default();
        let meter = Meter::new(profile, Instant::now());
        let received = Heads::after(received);
        let sent = Heads::after(sent);
        (
            Self {
                stream,
                meter,
                received,
                sent,
                watchman: watchman.clone(),
                arrivals: None,
                arriving: None,
                fails: false,
                pauses: false,
            },
            watchman,
        )
    }

    fn note_received(&mut self, bytes: &[u8]) {
        let mut verdict = Verdict::Fine;
        let now = Instant::now();
        let mut heads = 0;
        self.watchman.heard.fetch_add(1, Ordering::Relaxed);
        let arrivals = self.arrivals.as_deref();
        let arriving = &mut self.arriving;
        // A stream counts frames that are here as a whole, as the `h2` crate does.
        let mut whole = |next| {
            if let (Some((stream, length)), Some(arrivals)) =
                (std::mem::replace(arriving, next), arrivals)
            {
                arrivals.came(stream, length);
            }
        };
        self.received.feed(bytes, |head| {
            whole((head.kind == DATA).then_some((head.stream, head.length)));
            heads += u32::from(head.kind == HEADERS);
            verdict = verdict.max(self.meter.received(head, now));
        });
        if self.received.is_between() {
            whole(None);
        }
        self.pauses = self.fails && heads > HEADS_AT_ONCE;
        self.watchman.note(verdict);
    }

    fn note_sent(&mut self, bytes: &[u8], now: Instant) {
        let mut verdict = Verdict::Fine;
        self.sent.feed(bytes, |head| {
            verdict = verdict.max(self.meter.sent(head, now))
        });
        self.watchman.note(verdict);
    }
}

impl<S: AsyncWrite + Unpin> Metered<S> {
    /// Tells the server why, if it still listens, and fails.
    fn calm(&mut self, cx: &mut Context<'_>) -> io::Error {
        if self.sent.is_between() {
            // RFC 9113, 5.4.1: a GOAWAY should be sent; the connection ends whether or not that is possible.
            let _ = Pin::new(&mut self.stream).poll_write(cx, &CALM);
            let _ = Pin::new(&mut self.stream).poll_flush(cx);
        }
        io::Error::other(
            "the peer sent too many resets, or SETTINGS, PING, WINDOW_UPDATE or PRIORITY frames",
        )
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.pauses) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if read.is_ready() {
            self.note_received(&into.filled()[before..]);
            if self.fails && self.watchman.verdict() == Verdict::Calm {
                into.set_filled(before);
                return Poll::Ready(Err(self.calm(cx)));
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.watchman.wrote(written.is_pending());
        if let Poll::Ready(Ok(length)) = &written {
            self.note_sent(&data[..*length], Instant::now());
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, data);
        self.watchman.wrote(written.is_pending());
        if let Poll::Ready(Ok(length)) = &written {
            let mut left = *length;
            let now = Instant::now();
            for slice in data {
                let part = slice.len().min(left);
                self.note_sent(&slice[..part], now);
                left -= part;
            }
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_verdict_is_heard_once_and_the_worst_wins() {
        let watchman = Watchman::default();
        watchman.note(Verdict::Retire);
        assert_eq!(watchman.worse_than(Verdict::Fine).await, Verdict::Retire);
        watchman.note(Verdict::Calm);
        watchman.note(Verdict::Retire);
        assert_eq!(watchman.worse_than(Verdict::Retire).await, Verdict::Calm);
    }

    #[tokio::test]
    async fn a_server_that_floods_hears_goodbye_between_two_frames() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let (mut near, _watchman) = Metered::dialled(near, Profile::link(100));
        // The preface, and a SETTINGS frame without content.
        let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        near.write_all(hello).await.unwrap();
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        far.write_all(&ping.repeat(3_000)).await.unwrap();
        let error = near.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("too many"), "{error}");
        drop(near);
        let mut heard = Vec::new();
        far.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, [&hello[..], &CALM].concat());
    }
}
