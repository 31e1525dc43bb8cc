//! The attempts of one exchange: their policy, their cost, and their account in the end.

mod outcome;
mod replay;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_config::model::Hedge;
use hermes_http::{Kind, RequestHead, ResponseHead};
use hermes_net::clock;
use hermes_packet::{Early, Session};
use hermes_plug::refusal::Refusal;
use hermes_proto::multipath;
use hermes_rules::retry::{Made, Outcome, Policy, Stop, decide};
use hermes_upstream::{Allowance, Budget, FirstBytes, Hop};
use http::Method;
use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) use outcome::{of_connect, of_opening, of_stream};
pub(crate) use replay::Replay;

use super::kept_request::KeptRequest;
use super::wait::{TimeoutKey, Wait};

/// Endpoints that an exchange remembers to have tried; further ones are not avoided.
#[doc(alias = "bound")]
const TRIED: usize = 64;

/// The mean pause of an exchange that is tried for a time once the budget of retries is used up.
#[doc(alias = "bound")]
const UNPAID_PAUSE: Duration = Duration::from_secs(1);

/// The attempts of one exchange.
pub(crate) struct Tries<'a> {
    pub(crate) routed: &'a Routed,
    pub(crate) next: &'a Next,
    /// When a failed attempt is followed by another.
    policy: &'a Policy,
    idempotent: bool,
    /// Bytes of the tunnel have left with the attempt that is under way.
    early: AtomicBool,
    made: AtomicU32,
    /// Its state, if it is tried for a time.
    kept: Option<Box<KeptRequest>>,
    /// Endpoints that were tried.
    tried: Mutex<Vec<Arc<str>>>,
    /// Whose datagrams may leave before an answer.
    session: Option<&'a Session>,
    /// Bytes that may open the connection to the target.
    first: Option<&'a FirstBytes>,
    /// Whether the connection to the target may use several paths.
    multipath: bool,
}

impl<'a> Tries<'a> {
    /// No attempt yet; the exchange brings its share to the budget.
    pub fn new(routed: &'a Routed, next: &'a Next, head: &RequestHead) -> Self {
        let tries = Self {
            routed,
            next,
            policy: next.policy(),
            idempotent: is_repeatable(head),
            early: AtomicBool::new(false),
            made: AtomicU32::new(0),
            kept: next
                .policy()
                .keep_for
                .filter(|_| head.kind() == Kind::Message)
                .map(|_| Box::default()),
            tried: Mutex::default(),
            session: None,
            first: None,
            multipath: multipath::is_asked_for(&head.fields),
        };

        if next.has_policy() || next.hedge.is_some() {
            tries.budget().deposit(tries.allowance());
        }
        tries
    }

    /// The same, with the first datagrams of this UDP client in each attempt.
    pub(crate) fn early(self, session: Option<&'a Arc<Session>>) -> Self {
        Self {
            session: session.map(Arc::as_ref),
            ..self
        }
    }

    /// The same, whose connection may open with these bytes.
    pub(crate) fn opening_with(self, first: Option<&'a FirstBytes>) -> Self {
        Self { first, ..self }
    }

    /// Bytes that may open the connection to the target.
    pub(crate) fn first_bytes(&self) -> Option<&'a FirstBytes> {
        self.first
    }

    /// Whether the connection to the target may use several paths (`Hermes-Multipath`).
    pub(crate) fn is_multipath(&self) -> bool {
        self.multipath
    }

    /// Datagrams that may leave with an attempt.
    pub(crate) fn first_datagrams(&self) -> Option<Early> {
        self.session?.early()
    }

    /// An attempt begins; until when it must have a response head, if there is such a time.
    pub fn begin(&self) -> Option<Instant> {
        self.made.fetch_add(1, Ordering::Relaxed);
        self.policy.per_try.map(|time| clock::now() + time)
    }

    /// How long a response head is waited for from there: at least the time that an attempt may take in all.
    pub(crate) fn header(&self, hop: Hop) -> Wait {
        let own = self.next.timeouts.header_of(hop);
        let most = self.policy.per_try;
        match (own, most) {
            (Some(own), Some(most)) if most > own => Wait {
                time: Some(most),
                key: TimeoutKey::PerTry,
            },
            _ => Wait {
                time: own,
                key: TimeoutKey::Header,
            },
        }
    }

    /// How long an attempt may take in all.
    pub(crate) fn attempt(&self) -> Wait {
        Wait {
            time: self.policy.per_try,
            key: TimeoutKey::PerTry,
        }
    }

    /// The attempt goes to this endpoint, or failed to connect to it.
    pub(crate) fn goes_to(&self, endpoint: &Arc<str>) {
        let upstream = self.next.upstream();
        self.routed
            .exchange
            .upstream(self.next.name(), endpoint, upstream);
        let mut tried = self.tried.lock();
        if tried.len() < TRIED {
            tried.push(Arc::clone(endpoint));
        }
    }

    /// These failed to connect before the endpoint that the attempt is said to have gone to.
    pub(crate) fn failed_before(&self, endpoints: &[Arc<str>]) {
        let mut tried = self.tried.lock();
        for endpoint in endpoints {
            if tried.len() < TRIED && !tried.contains(endpoint) {
                tried.push(Arc::clone(endpoint));
            }
        }
    }

    /// Whether the upstream has an endpoint that was not tried.
    fn has_others(&self) -> bool {
        let tried = self.tried.lock();
        self.next
            .upstream()
            .is_some_and(|upstream| upstream.has_endpoint_beside(&tried))
    }

    /// Endpoints that others are preferred to.
    pub(crate) fn tried(&self) -> Vec<Arc<str>> {
        self.tried.lock().clone()
    }

    /// Bytes of content that are kept to be sent again.
    pub(crate) fn keep_bytes(&self) -> u64 {
        self.policy.keep_bytes
    }

    /// Whether bytes of a tunnel may leave before it is open; see [`crate::reach::early_bytes`].
    pub(crate) fn may_send_early(&self) -> bool {
        !self.next.has_policy()
    }

    /// Whether bytes of the tunnel have left with the attempt that is under way, which may so have had an effect.
    pub(crate) fn sent_early(&self, sent: bool) {
        self.early.store(sent, Ordering::Relaxed);
    }

    /// Its state, if it is tried again for a time, and not a number of times.
    pub(crate) fn kept(&self) -> Option<&KeptRequest> {
        self.kept.as_deref()
    }

    /// Attempts so far.
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// An attempt was answered: it waits for nothing.
    pub(crate) fn answered(&self) {
        if self.kept.is_some() && self.made() > 1 {
            self.routed.exchange.waits(None);
        }
    }

    /// Whether the rest of a response that breaks off is asked for.
    pub(crate) fn asks_for_rest(&self) -> bool {
        self.policy.asks_for_rest()
    }

    /// How a request without content is hedged.
    pub(crate) fn hedge(&self, method: &Method) -> Option<&'a Hedge> {
        self.next.hedge.as_ref().filter(|_| method.is_safe())
    }

    /// Whether another attempt follows, and after which pause; it is then paid for and counted.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn again(
        &self,
        outcome: Option<Outcome>,
        replayable: bool,
    ) -> Result<Duration, Stop> {
        let outcome = outcome.ok_or(Stop::NotNamed)?;
        if !outcome.is_answer() {
            self.routed.exchange.attempt_ended(outcome.word());
        }

        let idempotent = self.idempotent && !self.early.load(Ordering::Relaxed);
        let made = Made {
            attempts: self.made.load(Ordering::Relaxed),
            elapsed: self.kept().map(KeptRequest::elapsed),
            idempotent,
            replayable,
            others: outcome == Outcome::Untrusted && self.has_others(),
        };

        let mut pause = decide(self.policy, outcome, made, fastrand::u64(..))?;
        if self.next.has_policy() && !outcome.is_free() && !self.pay() {
            if self.kept.is_none() {
                return Err(Stop::Budget);
            }
            // A request that is tried for a time is no load if it comes rarely.
            pause = pause.max(UNPAID_PAUSE.mul_f64(0.5 + fastrand::f64()));
        }

        self.routed
            .worker
            .shared
            .telemetry
            .retry(self.next.name(), outcome.word());

        Ok(pause)
    }

    /// Pays for an attempt beside those that are under way.
    pub(crate) fn may_hedge(&self) -> bool {
        let paid = self.pay();
        if paid {
            self.routed
                .worker
                .shared
                .telemetry
                .retry(self.next.name(), "hedge");
        }

        paid
    }

    fn pay(&self) -> bool {
        let paid = self
            .budget()
            .withdraw(self.allowance(), clock::now().into_std());
        if !paid {
            self.routed
                .worker
                .shared
                .telemetry
                .retry_budget_exhausted(self.next.name());
        }

        paid
    }

    fn budget(&self) -> &Budget {
        match self.next.upstream() {
            Some(upstream) => upstream.budget(),
            None => &self.routed.worker.shared.targets,
        }
    }

    fn allowance(&self) -> Allowance {
        let (ratio, per_second) = self.policy.budget;
        Allowance { ratio, per_second }
    }

    /// The refusal for client and record: with the number of attempts, and the reason why there was no further one.
    pub(crate) fn explain(&self, refusal: Refusal, stop: Stop) -> Refusal {
        let made = self.made.load(Ordering::Relaxed);
        let words = if self.next.has_policy() {
            stop.words()
        } else {
            ""
        };

        match (made, words) {
            (0 | 1, "") => refusal,
            (made, "") => refusal.note(&format!("{made} attempts")),
            (1, words) => refusal.note(&format!("1 attempt; {words}")),
            (made, words) => refusal.note(&format!("{made} attempts; {words}")),
        }
    }
}

/// A response, as the policy sees it.
pub(crate) fn of_response(head: &ResponseHead) -> Outcome {
    let retry_after = outcome::retry_after(&head.fields, clock::system_now());
    Outcome::Response {
        status: head.status.as_u16(),
        retry_after,
    }
}

/// Waits for an attempt until its time is over; `None` when it is. The attempt is pinned by the caller: taken by value, it would
/// have a second place in this future.
pub(crate) async fn within<T, F>(deadline: Option<Instant>, attempt: Pin<&mut F>) -> Option<T>
where
    F: Future<Output = T>,
{
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, attempt).await.ok(),
        None => Some(attempt.await),
    }
}

/// Waits for the time of an attempt to be over, which may be never.
pub(crate) async fn over(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Whether a second attempt does no harm after a first one had its effect. A tunnel that was not accepted carried nothing; an
/// upgrade that was ignored is a request like others.
fn is_repeatable(head: &RequestHead) -> bool {
    let tunnel =
        matches!(head.kind(), Kind::Connect | Kind::ConnectUdp) || head.method == Method::CONNECT;
    tunnel || head.method.is_idempotent()
}
