//! Room that is learned from answers: from their words, and from what passes where they are silent.

use std::time::{Duration, Instant};

use crate::answered::{Admission, Answered, in_a_minute};
use crate::spacing::Spacing;

/// Requests under way of an origin that has said nothing, at most.
#[doc(alias = "bound")]
const MOST_UNDER_WAY: u32 = 1024;

/// Windows without a refusal before one more request is tried in the next.
const CALM: u32 = 4;

/// The shortest window that is believed: answers of one moment are no rate.
const SHORTEST: Duration = Duration::from_millis(100);

/// What is known of an origin.
#[derive(Debug)]
pub(crate) struct Learned {
    /// Requests that are sent and not answered.
    under_way: u32,
    /// Requests that may be under way while nothing is known: one more with each answer.
    most_under_way: u32,
    window: Window,
    /// Requests in a window, by the origin's words or by what has passed.
    quota: Option<(u64, Duration)>,
    is_told: bool,
    /// When it was told last.
    heard: Option<Instant>,
    /// No request before this.
    blocked: Option<Instant>,
    /// Where refusals say no time.
    spacing: Option<Spacing>,
    /// The first request, and answers since then.
    began: Instant,
    passed: u64,
    /// Windows without a refusal.
    calm: u32,
}

/// A time for which the origin has so much room.
#[derive(Debug)]
struct Window {
    began: Instant,
    ends: Option<Instant>,
    /// Requests that the origin takes beside those that it has answered: those under way are among them.
    room: Option<u64>,
    /// Requests that were answered.
    passed: u64,
}

impl Window {
    fn new(began: Instant) -> Self {
        Self {
            began,
            ends: None,
            room: None,
            passed: 0,
        }
    }
}

impl Learned {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            under_way: 0,
            most_under_way: 1,
            window: Window::new(now),
            quota: None,
            is_told: false,
            heard: None,
            blocked: None,
            spacing: None,
            began: now,
            passed: 0,
            calm: 0,
        }
    }

    pub(crate) fn admission(&mut self, now: Instant) -> Admission {
        if let Some(until) = self.blocked {
            if now < until {
                return Admission::At(until);
            }
            self.blocked = None;
            self.open(now);
        }
        if let Some(spacing) = &self.spacing {
            return match now < spacing.next {
                true => Admission::At(spacing.next),
                false => Admission::Now,
            };
        }
        if self.window.ends.is_some_and(|ends| ends <= now) {
            self.calm += 1;
            self.open(now);
        }

        if self.left() == Some(0) {
            return match self.window.ends {
                Some(ends) => Admission::At(ends),
                None if self.under_way > 0 => Admission::AfterAnswer,
                // It has said no time: one request asks how it is.
                None => Admission::Now,
            };
        }
        // The origin's own count is exact; without one, requests go out as answers come back.
        let is_exact = self.is_told && self.window.room.is_some();
        match is_exact || self.under_way < self.most_under_way {
            true => Admission::Now,
            false => Admission::AfterAnswer,
        }
    }

    /// Requests that may still be sent.
    fn left(&self) -> Option<u64> {
        let room = self.window.room?;
        Some(room.saturating_sub(u64::from(self.under_way)))
    }

    /// A window begins.
    fn open(&mut self, now: Instant) {
        self.window = Window::new(now);
        let Some((quota, time)) = self.quota else {
            return;
        };
        let tried = match self.is_told {
            true => quota,
            // What has passed may have been less than what would have.
            false => quota + u64::from(self.calm >= CALM),
        };
        if self.calm >= CALM {
            self.calm = 0;
        }
        self.quota = Some((tried, time));
        self.window.room = Some(tried);
        self.window.ends = Some(now + time);
    }

    pub(crate) fn send(&mut self, now: Instant) {
        self.under_way += 1;
        if let Some(spacing) = &mut self.spacing {
            spacing.send(now);
        }
    }

    pub(crate) fn give_up(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.one_less();
    }

    /// A request is answered, or given up, and may have been counted.
    fn one_less(&mut self) {
        if let Some(room) = &mut self.window.room {
            *room = room.saturating_sub(1);
        }
    }

    pub(crate) fn answer(&mut self, answered: Answered, now: Instant) {
        self.under_way = self.under_way.saturating_sub(1);
        self.hear(&answered, now);
        match answered.is_refused {
            true => self.refused(answered, now),
            false => self.pass(answered.sent, now),
        }
    }

    fn pass(&mut self, sent: Instant, now: Instant) {
        self.window.passed += 1;
        self.passed += 1;
        // It was sent before the first refusal, and comes behind it.
        if self.blocked.is_some()
            && !self.is_told
            && let Some((quota, _)) = &mut self.quota
        {
            *quota = self.window.passed.max(*quota);
        }
        self.most_under_way = (self.most_under_way + 1).min(MOST_UNDER_WAY);
        if let Some(spacing) = &mut self.spacing {
            let time = now.saturating_duration_since(self.began);
            let mean = time.div_f64(self.passed as f64);
            if !spacing.passed(sent, mean) {
                self.spacing = None;
            }
        }
    }

    /// The origin's own words about its room.
    fn hear(&mut self, answered: &Answered, now: Instant) {
        let told = &answered.told;
        let Some(left) = told.left else {
            return self.one_less();
        };
        self.is_told = true;
        let ends = told.resets_in.map(|time| now + time.max(SHORTEST));
        // Answers of requests that were under way together come in any order: the least of them is the last, and has counted those that come after it.
        if self.heard.is_some_and(|heard| answered.sent <= heard) {
            self.window.room = Some(self.window.room.map_or(left, |known| known.min(left)));
            self.window.ends = self.window.ends.max(ends);
        } else {
            self.window.room = Some(left);
            self.window.ends = ends;
        }
        self.heard = Some(now);
        if let Some((quota, window)) = told.quota.zip(told.window.or(told.resets_in)) {
            self.quota = Some((quota, window.max(SHORTEST)));
        }
    }

    fn refused(&mut self, answered: Answered, now: Instant) {
        let told = answered.told;
        let Some(wait) = told.retry_after.or(told.resets_in) else {
            match &mut self.spacing {
                Some(spacing) => spacing.refused(answered.sent, now, answered.chance),
                None => self.spacing = Some(Spacing::new(now, answered.chance)),
            }
            return;
        };
        let until = now + wait.max(SHORTEST);
        let is_known = self.blocked.is_some();
        self.blocked = Some(self.blocked.map_or(until, |known| known.max(until)));
        self.spacing = None;
        if is_known {
            return;
        }
        self.most_under_way = 1;
        self.calm = 0;
        if !self.is_told && self.window.passed > 0 {
            let time = until.saturating_duration_since(self.window.began);
            self.quota = Some((self.window.passed, time.max(SHORTEST)));
        }
    }

    pub(crate) fn per_minute(&self) -> Option<f64> {
        if let Some(spacing) = &self.spacing {
            return Some(in_a_minute(1, spacing.gap()));
        }
        let (quota, time) = self.quota?;
        Some(in_a_minute(quota, time))
    }
}
