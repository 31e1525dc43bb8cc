//! Whether a failed attempt is followed by another: a policy and an outcome in, a decision with its reason out.
//!
//! A request that may have been processed is repeated only if its method is idempotent (RFC 9110,
//! 9.2.2). Chance is an argument, and the caller keeps the time and the budget.

use std::time::Duration;

use hermes_config::model::{Percent, Retry, RetryOn};

/// Attempts of an exchange that certainly had no effect, where no policy is configured: a kept
/// connection may die, or a link be closed, just as it is used.
#[doc(alias = "bound")]
pub const ATTEMPTS_UNPROCESSED: u32 = 4;

/// Attempts without a policy if the connection fell silent: another that works is there already.
/// RFC 9110, 9.2.2: a repetition that fails is not repeated.
#[doc(alias = "bound")]
pub const ATTEMPTS_SILENT: u32 = 2;

/// Attempts of a policy that names no number.
#[doc(alias("bound", "retry.attempts"))]
const ATTEMPTS: u32 = 3;

/// Longest pauses of a policy without the key: before the second attempt, and before any.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(250));

/// Longest `Retry-After` that is waited for: a client would rather know.
#[doc(alias("bound", "retry.retry_after"))]
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Bytes of content that are kept to be sent again: forms and calls fit, uploads need not be held
/// in memory.
#[doc(alias("bound", "retry.keep_bytes"))]
const KEEP_BYTES: u64 = 64 << 10;

/// Retries for a hundred exchanges, and a second: a dead upstream gets a fifth more than its load.
const BUDGET: (Percent, u16) = (Percent(200_000), 3);

/// Conditions of a policy without the key.
const ON: [RetryOn; 4] = [
    RetryOn::ConnectFailure,
    RetryOn::RefusedStream,
    RetryOn::Reset,
    RetryOn::GatewayError,
];

/// A policy with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Attempts in all.
    pub attempts: u32,
    /// Time during which attempts continue, regardless of their number.
    pub keep_for: Option<Duration>,
    /// Conditions for a retry, beside requests that certainly had no effect.
    pub on: Vec<RetryOn>,
    /// Longest time from the beginning of an attempt to its response head.
    pub per_try: Option<Duration>,
    /// Longest pause before the second attempt, and before any.
    pub backoff: (Duration, Duration),
    /// Longest `Retry-After` that is waited for.
    pub retry_after: Duration,
    /// Bytes of content that are kept to be sent again.
    pub keep_bytes: u64,
    /// Retries for a hundred exchanges, and those a second that are always allowed.
    pub budget: (Percent, u16),
}

impl Policy {
    /// The policy of an exchange; `None` where neither its route nor its upstream has one.
    pub fn of(upstream: Option<&Retry>, route: Option<&Retry>) -> Option<Self> {
        let levels = [route, upstream];
        levels
            .iter()
            .any(Option::is_some)
            .then(|| Self::overlaid(levels))
    }

    /// The values of the first level that has them, key by key.
    fn overlaid(levels: [Option<&Retry>; 2]) -> Self {
        fn first<T>(levels: [Option<&Retry>; 2], key: impl Fn(&Retry) -> Option<T>) -> Option<T> {
            levels.into_iter().flatten().find_map(key)
        }
        let base = first(levels, |retry| retry.backoff.base).map_or(BACKOFF.0, |time| time.0);
        let max = first(levels, |retry| retry.backoff.max).map_or(BACKOFF.1, |time| time.0);

        Self {
            attempts: first(levels, |retry| retry.attempts).map_or(ATTEMPTS, u32::from),
            keep_for: first(levels, |retry| retry.keep_for).map(|time| time.0),
            on: first(levels, |retry| retry.on.as_ref().map(|on| on.0.clone()))
                .unwrap_or_else(|| ON.to_vec()),
            per_try: first(levels, |retry| retry.per_try_timeout).map(|time| time.0),
            backoff: (base, max.max(base)),
            retry_after: first(levels, |retry| retry.retry_after)
                .map_or(RETRY_AFTER, |time| time.0),
            keep_bytes: first(levels, |retry| retry.keep_bytes).map_or(KEEP_BYTES, |size| size.0),
            budget: (
                first(levels, |retry| retry.budget.ratio).unwrap_or(BUDGET.0),
                first(levels, |retry| retry.budget.min).map_or(BUDGET.1, |rate| rate.0),
            ),
        }
    }

    /// The policy without configuration: a request that certainly had no effect is tried again, at
    /// once, and no content is kept.
    pub const fn unprocessed_only() -> Self {
        Self {
            attempts: 1,
            keep_for: None,
            on: Vec::new(),
            per_try: None,
            backoff: (Duration::ZERO, Duration::ZERO),
            retry_after: RETRY_AFTER,
            keep_bytes: 0,
            budget: BUDGET,
        }
    }

    /// Whether a response that breaks off is continued by a request for its rest.
    pub fn asks_for_rest(&self) -> bool {
        self.names(&[RetryOn::Interrupted])
    }

    /// Whether one of `conditions`, or one that includes them, is configured.
    fn names(&self, conditions: &[RetryOn]) -> bool {
        self.on.iter().any(|on| conditions.contains(on))
    }

    /// A random time up to `base`, which doubles with each attempt that was made, up to `max` ("full jitter").
    fn pause(&self, made: u32, random: u64) -> Duration {
        let (base, max) = self.backoff;
        let doubled =
            base.saturating_mul(1u32.checked_shl(made.saturating_sub(1)).unwrap_or(u32::MAX));
        let longest = u64::try_from(doubled.min(max).as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(random % longest.saturating_add(1))
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No connection came about. Nothing was processed.
    ConnectFailure,
    /// The endpoint and this node do not believe each other's certificates, or share no version: the same endpoint would say the
    /// same. Nothing was processed.
    Untrusted,
    /// The next hop did not begin with the exchange (RFC 9113, 8.7). Nothing was processed.
    Refused,
    /// A connection that had served other exchanges ended without a byte: it had probably died of age.
    Stale,
    /// The connection fell silent, while the next hop could be reached otherwise.
    Silent,
    /// The connection ended or the stream was reset before a response.
    Reset,
    /// No response came in time.
    Timeout,
    /// The content of a response broke off.
    Interrupted,
    /// A response head came.
    Response {
        /// Its status.
        status: u16,
        /// Its `Retry-After`, counted from now.
        retry_after: Option<Duration>,
    },
}

impl Outcome {
    /// The word for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::ConnectFailure => "connect-failure",
            Self::Untrusted => "untrusted",
            Self::Refused => "refused-stream",
            Self::Stale => "stale",
            Self::Silent => "silent",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::Response { status: 429, .. } => "rate-limited",
            Self::Response {
                status: 502..=504, ..
            } => "gateway-error",
            Self::Response { .. } => "5xx",
        }
    }

    /// Whether this is a response that no policy can retry.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Response { status, .. } if status < 500 && status != 429)
    }

    /// Whether the next hop may have acted.
    fn maybe_processed(self) -> bool {
        !matches!(self, Self::ConnectFailure | Self::Untrusted | Self::Refused)
    }

    /// Whether the policy retries this. A request that the next hop refused, or a kept connection
    /// lost, is always retried.
    fn is_retried(self, policy: &Policy) -> bool {
        use RetryOn::{ConnectFailure, GatewayError, Interrupted, RateLimited, Reset, ServerError};
        match self {
            Self::Refused | Self::Stale | Self::Silent | Self::Untrusted => true,
            Self::ConnectFailure => policy.names(&[ConnectFailure, GatewayError, ServerError]),
            Self::Reset | Self::Timeout => policy.names(&[Reset, GatewayError, ServerError]),
            Self::Interrupted => policy.names(&[Interrupted]),
            Self::Response {
                status: 502..=504, ..
            } => policy.names(&[GatewayError, ServerError]),
            Self::Response { status: 500.., .. } => policy.names(&[ServerError]),
            // Without `Retry-After` there is no telling when the limit ends, and guesses are more load.
            Self::Response {
                status: 429,
                retry_after: Some(_),
            } => policy.names(&[RateLimited]),
            Self::Response { .. } => false,
        }
    }

    /// Whether the attempt cost the next hop nothing, so that its retry needs no pause and no budget.
    pub fn is_free(self) -> bool {
        self == Self::Stale
    }
}

/// The state of the exchange.
#[derive(Debug, Clone, Copy)]
pub struct Made {
    /// Attempts so far, at least 1.
    pub attempts: u32,
    /// Time since the exchange began, if its policy keeps it for a time.
    pub elapsed: Option<Duration>,
    /// Whether its method is idempotent, or it opens a tunnel that nothing was sent in.
    pub idempotent: bool,
    /// Whether the content that was sent can be sent again.
    pub replayable: bool,
    /// Whether an endpoint has not been tried yet.
    pub others: bool,
}

/// Why there is no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The failure is not one of the conditions.
    NotNamed,
    /// All attempts were made.
    Attempts,
    /// The request may have been processed, and is not idempotent.
    MaybeProcessed,
    /// Its content was not kept.
    NotKept,
    /// `Retry-After` is longer than is waited for.
    TooLong,
    /// The upstream's retries are used up.
    Budget,
}

impl Stop {
    /// The reason in words, for `Proxy-Status` and records; empty where there is nothing to say.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotNamed | Self::Attempts => "",
            Self::MaybeProcessed => "it may have been processed and is not idempotent",
            Self::NotKept => "its content was not kept",
            Self::TooLong => "Retry-After is too long",
            Self::Budget => "the retry budget is exhausted",
        }
    }
}

/// Whether there is another attempt, and after which pause. `random` is any number.
///
/// # Errors
/// Why there is no retry.
pub fn decide(
    policy: &Policy,
    outcome: Outcome,
    made: Made,
    random: u64,
) -> Result<Duration, Stop> {
    if !outcome.is_retried(policy) {
        return Err(Stop::NotNamed);
    }
    // The same endpoint would fail the same handshake again, however long the exchange is kept for.
    if outcome == Outcome::Untrusted && !made.others {
        return Err(Stop::NotNamed);
    }
    // A connection that died while it was kept most probably died before it was used.
    let is_presumed_unprocessed = matches!(
        outcome,
        Outcome::Refused | Outcome::Stale | Outcome::Untrusted
    );
    let attempts = match outcome {
        Outcome::Silent => policy.attempts.max(ATTEMPTS_SILENT),
        _ if is_presumed_unprocessed => policy.attempts.max(ATTEMPTS_UNPROCESSED),
        _ => policy.attempts,
    };

    // Both have to be used up: `keep_for` goes on when the attempts are over.
    let is_kept = policy
        .keep_for
        .zip(made.elapsed)
        .is_some_and(|(time, elapsed)| elapsed < time);
    if made.attempts >= attempts && !is_kept {
        return Err(Stop::Attempts);
    }
    // RFC 9110, 9.2.2: a proxy MUST NOT retry these by itself.
    if outcome.maybe_processed() && !made.idempotent {
        return Err(Stop::MaybeProcessed);
    }

    if !made.replayable {
        return Err(Stop::NotKept);
    }
    let pause = policy.pause(made.attempts, random);
    match outcome {
        // The peer closed an idle connection: it is not overloaded, so there is no need for a pause.
        Outcome::Stale => Ok(Duration::ZERO),
        // `Retry-After` counts for 503 (RFC 9110, 10.2.3) and 429 (RFC 6585, 4).
        Outcome::Response {
            status: 503 | 429,
            retry_after: Some(after),
        } if after > policy.retry_after => Err(Stop::TooLong),
        Outcome::Response {
            status: 503 | 429,
            retry_after: Some(after),
        } => Ok(after.max(pause)),
        _ => Ok(pause),
    }
}
