//! How many requests an origin is asked, and when: the one interface of three ways to know it.

use std::time::Instant;

use crate::answered::{Admission, Answered};
use crate::bucket::Bucket;
use crate::learned::Learned;
use crate::settings::Mode;

/// The room of an origin for requests.
#[derive(Debug)]
pub(crate) enum Budget {
    Learned(Learned),
    Bucket(Bucket),
}

impl Budget {
    pub(crate) fn new(mode: Mode, now: Instant) -> Self {
        match mode {
            Mode::Learned => Self::Learned(Learned::new(now)),
            Mode::Atb => Self::Bucket(Bucket::new(false, now)),
            Mode::Aatb => Self::Bucket(Bucket::new(true, now)),
        }
    }

    pub(crate) fn admission(&mut self, now: Instant) -> Admission {
        match self {
            Self::Learned(learned) => learned.admission(now),
            Self::Bucket(bucket) => bucket.admission(now),
        }
    }

    /// A request is sent.
    pub(crate) fn send(&mut self, now: Instant) {
        match self {
            Self::Learned(learned) => learned.send(now),
            Self::Bucket(bucket) => bucket.send(now),
        }
    }

    /// A request was answered.
    pub(crate) fn answer(&mut self, answered: Answered, now: Instant) {
        match self {
            Self::Learned(learned) => learned.answer(answered, now),
            Self::Bucket(bucket) => bucket.answer(answered, now),
        }
    }

    /// A request that was sent will not be answered: its client has left, or the way there failed.
    pub(crate) fn give_up(&mut self) {
        if let Self::Learned(learned) = self {
            learned.give_up();
        }
    }

    /// Requests in a minute at which it goes now, if that is known.
    pub(crate) fn per_minute(&self) -> Option<f64> {
        match self {
            Self::Learned(learned) => learned.per_minute(),
            Self::Bucket(bucket) => Some(bucket.per_minute()),
        }
    }
}
