//! One origin: its room, and those who wait for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::time::{sleep_until, timeout_at};

use crate::answered::{Admission, Answered};
use crate::budget::Budget;
use crate::settings::Mode;
use crate::turns::{Ticket, Turns};
use crate::words::Told;

/// How long a user counts as one who asks.
const ASKS: Duration = Duration::from_secs(30);

/// Users who are counted.
#[doc(alias = "bound")]
const USERS: usize = 4096;

/// An origin that is paced.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    state: Mutex<OriginState>,
    counts: OriginCounts,
}

#[derive(Debug)]
struct OriginState {
    budget: Budget,
    turns: Turns,
    /// When users have asked.
    asked: HashMap<Owner, Instant>,
    used: Instant,
}

/// Requests by their end.
#[derive(Debug, Default)]
struct OriginCounts {
    sent: AtomicU64,
    refused: AtomicU64,
    expired: AtomicU64,
}

/// How an origin stands, for `status`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) waiting: usize,
    pub(crate) per_minute: Option<f64>,
    /// Requests that were sent.
    pub(crate) sent: u64,
    /// Of these, those that the origin refused.
    pub(crate) refused: u64,
    /// Requests whose turn did not come in time.
    pub(crate) expired: u64,
    pub(crate) idle: Duration,
}

/// Why a request is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// Its user has too many.
    NoRoomOfUser,
    /// Too many wait.
    NoRoom,
    /// Its turn does not come in time; there may be room after this.
    TooLate(Duration),
}

impl NotSent {
    /// The answer to it.
    pub(crate) fn refusal(self, origin: &str) -> Refusal {
        let (details, wait) = match self {
            Self::NoRoomOfUser => ("too many requests of this user wait", 1),
            Self::NoRoom => ("too many requests wait", 1),
            Self::TooLate(wait) => ("its turn would come too late", wait.as_secs() + 1),
        };
        let fields = Fields::from_iter([(RETRY_AFTER, HeaderValue::from(wait))]);
        let details = format!("pace: {details} for {origin}");
        Refusal::new(ProxyError::HttpRequestDenied, details)
            .status(StatusCode::TOO_MANY_REQUESTS)
            .fields(fields)
    }
}

impl Origin {
    pub(crate) fn new(name: String, mode: Mode, now: Instant) -> Self {
        Self {
            name,
            mode,
            state: Mutex::new(OriginState {
                budget: Budget::new(mode, now),
                turns: Turns::default(),
                asked: HashMap::new(),
                used: now,
            }),
            counts: OriginCounts::default(),
        }
    }

    /// Waits for the turn of a request. One that comes again stands before its user's others.
    ///
    /// # Errors
    /// It does not come in time, or too many wait.
    pub(crate) async fn turn(
        self: &Arc<Self>,
        who: &Owner,
        deadline: Instant,
        is_again: bool,
    ) -> Result<Permit, NotSent> {
        let waiting = self.enter(who, is_again).ok_or(NotSent::NoRoom)?;
        loop {
            let (admission, is_next) = waiting.look(Instant::now());
            let until = match admission {
                Admission::Now => return Ok(waiting.sent()),
                Admission::At(until) => until.min(deadline),
                Admission::AfterAnswer => deadline,
            };
            let now = Instant::now();
            // Who stands first knows that it will be too late, and makes room for those who have more time.
            if let (true, Admission::At(at)) = (is_next, admission)
                && at > deadline
            {
                return Err(self.too_late(at.saturating_duration_since(now)));
            }
            let notified = waiting.ticket.turn.notified();
            if timeout_at(until.into(), notified).await.is_err() && until >= deadline {
                sleep_until(deadline.into()).await;
                return Err(self.too_late(Duration::from_secs(1)));
            }
        }
    }

    fn too_late(&self, wait: Duration) -> NotSent {
        self.counts.expired.fetch_add(1, Ordering::Relaxed);
        NotSent::TooLate(wait)
    }

    fn enter(self: &Arc<Self>, who: &Owner, is_again: bool) -> Option<Waiting> {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.used = now;
        if state.asked.len() >= USERS {
            state.asked.retain(|_, asked| now < *asked + ASKS);
        }
        if state.asked.len() < USERS || state.asked.contains_key(who) {
            state.asked.insert(who.clone(), now);
        }
        let ticket = state.turns.enter(who, is_again)?;
        Some(Waiting {
            origin: self.clone(),
            ticket,
        })
    }

    /// How it stands.
    pub(crate) fn standing(&self, now: Instant) -> Standing {
        let state = self.state.lock();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Standing {
            waiting: state.turns.len(),
            per_minute: state.budget.per_minute(),
            sent: read(&self.counts.sent),
            refused: read(&self.counts.refused),
            expired: read(&self.counts.expired),
            idle: now.saturating_duration_since(state.used),
        }
    }
}

/// A request that waits. Dropping it takes it out.
struct Waiting {
    origin: Arc<Origin>,
    ticket: Arc<Ticket>,
}

impl Waiting {
    /// Whether it may be sent, which then counts, and whether it stands first.
    fn look(&self, now: Instant) -> (Admission, bool) {
        let mut state = self.origin.state.lock();
        let is_next = state
            .turns
            .next()
            .is_some_and(|next| Arc::ptr_eq(next, &self.ticket));
        if !is_next {
            return (Admission::AfterAnswer, false);
        }
        let admission = state.budget.admission(now);
        if admission == Admission::Now {
            state.budget.send(now);
            state.used = now;
        }
        (admission, true)
    }

    fn sent(self) -> Permit {
        self.origin.counts.sent.fetch_add(1, Ordering::Relaxed);
        Permit {
            origin: self.origin.clone(),
            sent: Instant::now(),
            is_open: true,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.origin.state.lock();
        state.turns.take(&self.ticket);
        wake(&state);
    }
}

fn wake(state: &OriginState) {
    if let Some(next) = state.turns.next() {
        next.turn.notify_one();
    }
}

/// A request that is sent and not answered.
pub(crate) struct Permit {
    origin: Arc<Origin>,
    sent: Instant,
    is_open: bool,
}

impl Permit {
    /// Its origin has answered.
    pub(crate) fn answered(mut self, is_refused: bool, told: Told) {
        self.is_open = false;
        if is_refused {
            self.origin.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        let now = Instant::now();
        let mut state = self.origin.state.lock();
        let asked = state.asked.values();
        let users = asked.filter(|asked| now < **asked + ASKS).count();
        let answered = Answered {
            sent: self.sent,
            is_refused,
            told,
            users,
            chance: fastrand::f64(),
        };
        state.budget.answer(answered, now);
        wake(&state);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_open {
            let mut state = self.origin.state.lock();
            state.budget.give_up();
            wake(&state);
        }
    }
}
