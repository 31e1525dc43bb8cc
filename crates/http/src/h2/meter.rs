//! Counting frames that cost their sender nothing, as they are read: resets (rapid reset, CVE-2023-44487), SETTINGS and PING
//! floods (CVE-2019-9512, CVE-2019-9515), empty DATA frames (CVE-2019-9518).
//!
//! The `h2` crate bounds what such frames make it keep, not how many come. Here only the nine bytes of each frame's head are
//! looked at (RFC 9113, 4.1); what they mean is left to the crate.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use hermes_net::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::profile::{EMPTY_DATA, Profile};

/// Bytes of a frame's head (RFC 9113, 4.1).
const HEAD: usize = 9;

/// Bytes of the preface that precedes a client's frames (RFC 9113, 3.4).
const PREFACE: usize = 24;

/// Frame types (RFC 9113, 6) that have no budget here: DATA, HEADERS, GOAWAY, WINDOW_UPDATE and CONTINUATION are part of the
/// exchanges' own traffic, or bounded by the `h2` crate.
const PAID: [u8; 5] = [0x0, 0x1, 0x7, 0x8, 0x9];
const DATA: u8 = 0x0;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;

/// The flag ACK of SETTINGS and PING, END_STREAM of DATA.
const ACK_OR_END: u8 = 0x1;

/// How many frames of a kind may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// At once.
    pub(crate) burst: u32,
    /// Each second, on average.
    pub(crate) per_second: u32,
}

/// A budget and what was taken of it.
#[derive(Debug)]
struct Bucket {
    budget: Budget,
    level: f64,
    seen: Instant,
}

impl Bucket {
    fn new(budget: Budget, now: Instant) -> Self {
        Self { budget, level: 0.0, seen: now }
    }

    /// Takes one; false when there was none.
    fn take(&mut self, now: Instant) -> bool {
        let regained = now.duration_since(self.seen).as_secs_f64() * f64::from(self.budget.per_second);
        self.level = (self.level - regained).max(0.0) + 1.0;
        self.seen = now;
        self.level <= f64::from(self.budget.burst)
    }
}

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// It goes on.
    Fine,
    /// It takes nothing new, and ends when its streams have: a budget of its whole life is nearly used up.
    Retire,
    /// It ends now, with ENHANCE_YOUR_CALM (RFC 9113, 7).
    Calm,
}

/// The machine: bytes in, verdict out.
#[derive(Debug)]
struct Meter {
    /// Bytes to skip before the next head.
    skip: usize,
    head: [u8; HEAD],
    have: usize,
    resets: Bucket,
    control: Bucket,
    empty: u32,
}

impl Meter {
    fn new(profile: Profile, now: Instant) -> Self {
        Self {
            skip: PREFACE,
            head: [0; HEAD],
            have: 0,
            resets: Bucket::new(profile.resets, now),
            control: Bucket::new(profile.control, now),
            empty: 0,
        }
    }

    /// Looks at what was read; the worst that it means.
    fn feed(&mut self, mut bytes: &[u8], now: Instant) -> Verdict {
        let mut verdict = Verdict::Fine;
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEAD - self.have).min(bytes.len());
            self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == HEAD {
                self.have = 0;
                verdict = verdict.max(self.frame(now));
            }
        }
        verdict
    }

    fn frame(&mut self, now: Instant) -> Verdict {
        let [l0, l1, l2, kind, flags, ..] = self.head;
        self.skip = usize::from(l0) << 16 | usize::from(l1) << 8 | usize::from(l2);
        let acknowledges = matches!(kind, SETTINGS | PING) && flags & ACK_OR_END != 0;
        if kind == DATA && self.skip == 0 && flags & ACK_OR_END == 0 {
            self.empty = self.empty.saturating_add(1);
            return if self.empty >= EMPTY_DATA { Verdict::Retire } else { Verdict::Fine };
        }
        if PAID.contains(&kind) || acknowledges {
            return Verdict::Fine;
        }
        let bucket = if kind == RST_STREAM { &mut self.resets } else { &mut self.control };
        if bucket.take(now) { Verdict::Fine } else { Verdict::Calm }
    }
}

/// The verdict, for whoever drives the connection.
#[derive(Debug, Default)]
pub(crate) struct Watchman {
    worst: AtomicU32,
    changed: Notify,
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
            let verdict = match self.worst.load(Ordering::Relaxed) {
                0 => Verdict::Fine,
                1 => Verdict::Retire,
                _ => Verdict::Calm,
            };
            if verdict > known {
                return verdict;
            }
            self.changed.notified().await;
        }
    }
}

/// A client's stream whose frames are counted.
pub(super) struct Metered {
    stream: Stream,
    meter: Meter,
    watchman: Arc<Watchman>,
}

impl Metered {
    pub(super) fn new(stream: Stream, profile: Profile) -> (Self, Arc<Watchman>) {
        let watchman = Arc::<Watchman>::default();
        let meter = Meter::new(profile, Instant::now());
        (Self { stream, meter, watchman: watchman.clone() }, watchman)
    }
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        let verdict = self.meter.feed(&into.filled()[before..], Instant::now());
        self.watchman.note(verdict);
        read
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, data)
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
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        let mut bytes = vec![size[1], size[2], size[3], kind, flags, 0, 0, 0, 1];
        bytes.resize(HEAD + length, 0x3);
        bytes
    }

    /// A meter of a connection whose preface was read.
    fn meter(now: Instant) -> Meter {
        let mut meter = Meter::new(Profile::public(100), now);
        assert_eq!(meter.feed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", now), Verdict::Fine);
        meter
    }

    #[test]
    fn resets_above_the_budget_ask_for_calm_and_are_regained_with_time() {
        let now = Instant::now();
        let mut meter = meter(now);
        for number in 0..200 {
            assert_eq!(meter.feed(&frame(RST_STREAM, 0, 4), now), Verdict::Fine, "{number}");
        }
        let now = now + Duration::from_millis(100);
        for _ in 0..10 {
            assert_eq!(meter.feed(&frame(RST_STREAM, 0, 4), now), Verdict::Fine);
        }
        assert_eq!(meter.feed(&frame(RST_STREAM, 0, 4), now), Verdict::Calm);
    }

    #[test]
    fn heads_are_found_however_the_bytes_are_cut() {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        for _ in 0..201 {
            bytes.extend(frame(0x1, 0x5, 300));
            bytes.extend(frame(PING, 0, 8));
        }
        for size in [1, 7, 9, 10, 1000] {
            let now = Instant::now();
            let mut meter = Meter::new(Profile::public(100), now);
            let verdicts: Vec<_> = bytes.chunks(size).map(|piece| meter.feed(piece, now)).collect();
            assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Calm).count(), 1, "pieces of {size}");
        }
    }

    #[test]
    fn answers_to_our_own_frames_cost_nothing() {
        let now = Instant::now();
        let mut meter = meter(now);
        for _ in 0..1000 {
            assert_eq!(meter.feed(&frame(PING, ACK_OR_END, 8), now), Verdict::Fine);
            assert_eq!(meter.feed(&frame(SETTINGS, ACK_OR_END, 0), now), Verdict::Fine);
            assert_eq!(meter.feed(&frame(DATA, ACK_OR_END, 0), now), Verdict::Fine);
        }
    }

    #[test]
    fn empty_data_frames_retire_a_connection_before_the_crate_breaks_it_off() {
        let now = Instant::now();
        let mut meter = meter(now);
        for _ in 1..EMPTY_DATA {
            assert_eq!(meter.feed(&frame(DATA, 0, 0), now), Verdict::Fine);
        }
        assert_eq!(meter.feed(&frame(DATA, 0, 0), now), Verdict::Retire);
    }

    #[test]
    fn a_link_may_reset_as_fast_as_its_users_do() {
        let mut now = Instant::now();
        let mut meter = Meter::new(Profile::link(1000), now);
        meter.feed(&[0; PREFACE], now);
        for _ in 0..10 {
            for _ in 0..10_000 {
                assert_eq!(meter.feed(&frame(RST_STREAM, 0, 4), now), Verdict::Fine);
            }
            now += Duration::from_secs(1);
        }
    }

    #[tokio::test]
    async fn a_verdict_is_heard_once_and_the_worst_wins() {
        let watchman = Watchman::default();
        watchman.note(Verdict::Retire);
        assert_eq!(watchman.worse_than(Verdict::Fine).await, Verdict::Retire);
        watchman.note(Verdict::Calm);
        watchman.note(Verdict::Retire);
        assert_eq!(watchman.worse_than(Verdict::Retire).await, Verdict::Calm);
    }
}
