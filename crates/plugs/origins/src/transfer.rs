//! One object on its way, in pieces of several origins.

use std::pin::pin;
use std::time::{Duration, Instant};

use hermes_http::{Frame, Incoming, Outgoing};
use hermes_plug::rest::Original;
use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, RANGE};
use tokio::time::{sleep, timeout};

use crate::book::PAUSE;
use crate::digest::Told;
use crate::ways::Ways;

/// Failures without a byte between them, after which a transfer is given up.
#[doc(alias = "bound")]
const FAILURES: u32 = 12;

/// The time after which an origin may be found slow: before, its rate says little.
const TELLING: Duration = Duration::from_millis(500);

/// An origin is slow that is this many times slower than another was.
const SLOWER: f64 = 4.0;

/// An object that is being fetched.
pub(crate) struct Transfer {
    ways: Ways,
    original: Original,
    told: Option<Told>,
    length: u64,
    /// Bytes that the client has.
    at: u64,
    /// How long the last answer was waited for.
    asked: Duration,
    /// Origins whose content is another one, or none.
    is_aside: Vec<bool>,
}

/// How a piece ended.
#[derive(Debug, PartialEq, Eq)]
enum PieceEnd {
    /// All of it came.
    Whole,
    /// Its origin broke off, was silent, or fell behind.
    Short,
    /// The client has gone.
    Gone,
    /// The object is not the one whose digest was told.
    Wrong,
}

/// The bytes of a piece, and the time in which its origin was waited for: a slow client says nothing of an origin.
#[derive(Debug, Default)]
struct Pace {
    bytes: u64,
    waited: Duration,
}

impl Transfer {
    pub(crate) fn new(ways: Ways, original: Original, told: Option<Told>, length: u64) -> Self {
        let count = ways.group.rules.others.len() + 1;
        Self {
            ways,
            original,
            told,
            length,
            at: 0,
            asked: Duration::ZERO,
            is_aside: vec![false; count],
        }
    }

    /// Sends the first piece, and all that follow.
    pub(crate) async fn run(mut self, origin: usize, first: Incoming, mut outgoing: Outgoing) {
        let piece = self.ways.group.rules.piece;
        let mut end = piece.min(self.length);
        let mut ended = self.piece(origin, first, end, &mut outgoing).await;
        let mut failures = 0;
        let mut number = 1;
        while self.at < self.length {
            // Dropped before its end, the stream breaks off.
            if matches!(ended, PieceEnd::Gone | PieceEnd::Wrong) {
                return;
            }
            let before = self.at;
            if ended == PieceEnd::Whole {
                number += 1;
                end = self.at.saturating_add(piece).min(self.length);
            }
            let chosen = self
                .ways
                .group
                .book
                .lock()
                .choose(number, &self.is_aside, Instant::now());
            // No byte of another content is ever sent: where no origin is left, the stream breaks off.
            let Some(origin) = chosen.filter(|_| failures < FAILURES) else {
                return;
            };
            let pause = self.pause(origin, failures);
            let asking = async {
                sleep(pause).await;
                self.ask(origin, end).await
            };
            let asked = tokio::select! {
                asked = asking => asked,
                // A client who leaves is noticed while no origin is asked, too.
                _ = async { pin!(outgoing.broken()).await } => return,
            };
            ended = match asked {
                Some(content) => self.piece(origin, content, end, &mut outgoing).await,
                None => PieceEnd::Short,
            };
            failures = if self.at > before { 0 } else { failures + 1 };
        }
        if ended == PieceEnd::Whole {
            // A client who has gone needs no end.
            let _ = outgoing.finish(None).await;
        }
    }

    /// The time until an origin is asked again. Failures of other transfers have another origin chosen, where there is one; only those of this one
    /// have it wait: an object that always fails must not hold up others.
    fn pause(&self, origin: usize, failures: u32) -> Duration {
        let Some(before) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let own = PAUSE.saturating_mul(1 << before.min(FAILURES));
        let pause = self.ways.group.book.lock().pause(origin, Instant::now());
        pause.min(own)
    }

    /// Asks an origin for the bytes up to `end`; `None` if they are not to be had there.
    async fn ask(&mut self, origin: usize, end: u64) -> Option<Incoming> {
        let mut asking = self.original.ask(&self.ways.head, self.at);
        let range = HeaderValue::try_from(format!("bytes={}-{}", self.at, end - 1)).ok()?;
        asking.fields.insert(RANGE, range);
        if !asking.fields.contains_key(ACCEPT_ENCODING) {
            // Another origin might compress for clients that say nothing.
            asking
                .fields
                .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let stall = self.ways.group.rules.stall;
        let began = Instant::now();
        let answered = timeout(stall, self.ways.ask(origin, asking)).await;
        self.asked = began.elapsed();
        let answered = answered.ok().and_then(Result::ok);
        let Some((answer, content)) =
            answered.filter(|(answer, _)| !answer.status.is_server_error())
        else {
            self.ways.group.book.lock().failed(origin, Instant::now());
            return None;
        };
        let part = self.original.part(self.at, &answer, content.length());
        // An origin without ranges sends all that the client has once more: others are better asked.
        if part.is_ok_and(|part| part.skip == 0) {
            return Some(content);
        }
        self.is_aside[origin] = true;
        self.ways.group.book.lock().unlike(origin);
        None
    }

    /// Sends the bytes of an answer up to `end`.
    async fn piece(
        &mut self,
        origin: usize,
        mut content: Incoming,
        end: u64,
        outgoing: &mut Outgoing,
    ) -> PieceEnd {
        let mut pace = Pace {
            bytes: 0,
            waited: std::mem::take(&mut self.asked),
        };
        let mut ended = PieceEnd::Whole;
        while self.at < end {
            match self
                .next(origin, &mut content, &mut pace, end, outgoing)
                .await
            {
                Ok(()) => {}
                Err(end) => {
                    ended = end;
                    break;
                }
            }
        }
        if ended == PieceEnd::Whole {
            let mut book = self.ways.group.book.lock();
            book.sent(origin, pace.bytes, pace.waited);
        }
        ended
    }

    /// Sends the next bytes of a piece.
    async fn next(
        &mut self,
        origin: usize,
        content: &mut Incoming,
        pace: &mut Pace,
        end: u64,
        outgoing: &mut Outgoing,
    ) -> Result<(), PieceEnd> {
        let began = Instant::now();
        let frame = tokio::select! {
            frame = timeout(self.ways.group.rules.stall, content.frame()) => frame,
            // A client who leaves is noticed while an origin is silent, too.
            _ = async { pin!(outgoing.broken()).await } => return Err(PieceEnd::Gone),
        };
        pace.waited += began.elapsed();
        let Ok(Some(Ok(Frame::Data(mut data)))) = frame else {
            self.ways.group.book.lock().failed(origin, Instant::now());
            return Err(PieceEnd::Short);
        };
        let left = usize::try_from(end - self.at).unwrap_or(usize::MAX);
        // More than was asked for is not of this piece.
        data.truncate(left);
        if let Some(told) = &mut self.told {
            told.update(&data);
        }
        let length = data.len() as u64;
        // Validators can lie, the digest of the whole cannot: without its last bytes no client takes a mixture for the object.
        let is_last = self.at + length == self.length;
        if is_last && !self.told.take().is_none_or(Told::matches) {
            return Err(PieceEnd::Wrong);
        }
        outgoing
            .data(data, false)
            .await
            .map_err(|_| PieceEnd::Gone)?;
        self.at += length;
        pace.bytes += length;
        if self.at < end && self.is_behind(origin, pace) {
            return Err(PieceEnd::Short);
        }
        Ok(())
    }

    /// Whether another origin would have been far faster.
    fn is_behind(&self, origin: usize, pace: &Pace) -> bool {
        if pace.waited < TELLING {
            return false;
        }
        let mut book = self.ways.group.book.lock();
        let rate = pace.bytes as f64 / pace.waited.as_secs_f64();
        let best = book.best_beside(origin, &self.is_aside, Instant::now());
        let is_behind = best.is_some_and(|best| rate * SLOWER < best);
        if is_behind {
            book.slow(origin, pace.bytes, pace.waited);
        }
        is_behind
    }
}
