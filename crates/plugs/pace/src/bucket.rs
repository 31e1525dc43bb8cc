//! The adaptive token buckets of *Rethinking HTTP API Rate Limiting* (arXiv 2510.04516).
//!
//! ATB: a bucket of 40 tokens that begins with one; each request takes one. An answer makes the rate 1.2 times as high, in smaller steps
//! around the rate of the last refusal; a refusal halves it and empties the bucket. AATB knows how many users ask: it climbs in steps of 1.4
//! until a refusal, and after one waits for as many tokens as there were refusals, and up to a second more; it takes a third of the
//! rate where more users than before are refused. Where the paper's text is silent we chose: a first rate, bounds of the rate, and that requests
//! which were under way when the rate fell do not lower it again.

use std::time::{Duration, Instant};

use crate::answered::{Admission, Answered};

/// Tokens of a full bucket.
const FULL: f64 = 40.0;
/// Tokens a minute, at first.
const FIRST: f64 = 10.0;
/// Tokens a minute: the least and the most.
const RATES: (f64, f64) = (1.0, 60_000.0);
/// The step of the rate, and the one of AATB before any refusal.
const STEP: f64 = 1.2;
const LARGE_STEP: f64 = 1.4;
/// The step where the rate is close to that of the last refusal.
const SMALL_STEP: f64 = 1.02;
/// A rate is close to another above this share of it.
const CLOSE: f64 = 0.8;
/// How long a refusal counts for AATB.
const REPORT: Duration = Duration::from_secs(30);

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    tokens: f64,
    /// Tokens a minute.
    rate: f64,
    filled: Instant,
    /// The rate at which the origin has refused.
    congested: Option<f64>,
    /// When the rate fell.
    fell: Option<Instant>,
    /// AATB: how it knows others.
    assisted: Option<Refusals>,
}

/// Refusals of the last report window.
#[derive(Debug, Default)]
struct Refusals {
    count: u32,
    last: Option<Instant>,
}

impl Bucket {
    pub(crate) fn new(is_assisted: bool, now: Instant) -> Self {
        Self {
            tokens: 1.0,
            rate: FIRST,
            filled: now,
            congested: None,
            fell: None,
            assisted: is_assisted.then(Refusals::default),
        }
    }

    pub(crate) fn admission(&mut self, now: Instant) -> Admission {
        self.fill(now);
        // The rest of a token that a float has lost is none.
        if self.tokens >= 1.0 - 1e-9 {
            return Admission::Now;
        }
        let wait = (1.0 - self.tokens) * 60.0 / self.rate;
        Admission::At(now + Duration::from_secs_f64(wait))
    }

    pub(crate) fn send(&mut self, now: Instant) {
        self.fill(now);
        self.tokens -= 1.0;
    }

    pub(crate) fn answer(&mut self, answered: Answered, now: Instant) {
        self.fill(now);
        let was_sent_before = self.fell.is_some_and(|fell| answered.sent <= fell);
        match answered.is_refused {
            false if was_sent_before => {}
            false => self.climb(),
            true => self.fall(answered, was_sent_before, now),
        }
    }

    fn climb(&mut self) {
        let is_close = self
            .congested
            .is_some_and(|congested| self.rate >= congested * CLOSE);
        let step = match (is_close, &self.assisted, self.congested) {
            (true, ..) => SMALL_STEP,
            (false, Some(_), None) => LARGE_STEP,
            (false, ..) => STEP,
        };
        self.rate = (self.rate * step).min(RATES.1);
    }

    fn fall(&mut self, answered: Answered, was_sent_before: bool, now: Instant) {
        let mut refused = 0;
        if let Some(refusals) = &mut self.assisted {
            let is_recent = refusals.last.is_some_and(|last| now < last + REPORT);
            refusals.count = if is_recent { refusals.count + 1 } else { 1 };
            refusals.last = Some(now);
            refused = refusals.count;
        }
        if !was_sent_before {
            self.congested = Some(self.rate);
            let is_crowded = self.assisted.is_some() && refused as usize > answered.users.max(1);
            let divisor = if is_crowded { 3.0 } else { 2.0 };
            self.rate = (self.rate / divisor).max(RATES.0);
            self.fell = Some(now);
        }
        self.tokens = 0.0;
        if self.assisted.is_some() {
            // Tokens come at the rate: a debt is a time.
            self.tokens = -f64::from(refused.min(FULL as u32)) - answered.chance * self.rate / 60.0;
        }
        if let Some(wait) = answered.told.retry_after {
            let debt = wait.as_secs_f64() * self.rate / 60.0 - 1.0;
            self.tokens = self.tokens.min(-debt);
        }
    }

    fn fill(&mut self, now: Instant) {
        let time = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = self.filled.max(now);
        self.tokens = (self.tokens + time * self.rate / 60.0).min(FULL);
    }

    pub(crate) fn per_minute(&self) -> f64 {
        self.rate
    }
}
