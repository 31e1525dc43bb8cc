//! One endpoint, and its history.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_config::model::{self, EndpointAddress};
use hermes_net::clock;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::addresses::Addresses;
use crate::condition::{Condition, Fitness, Thresholds};
use crate::deaths::Deaths;
use crate::ejector::Ejector;
use crate::failure::{ConnectFailure, FailureKind};
use crate::hop::Last;
use crate::limits::Room;
use crate::link_use::Counted;
use crate::news::EndpointLog;
use crate::quic::Memory;
use crate::recent::Recent;
use crate::security::Security;

/// How long a failed endpoint is tried only after the others.
#[doc(alias = "bound")]
const REST: Duration = Duration::from_secs(1);

/// The word for an endpoint that nothing keeps from being used, but with which exchanges fail.
pub const FAILING: &str = "failing";

/// One endpoint of an upstream.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: EndpointAddress,
    /// The address as it is configured.
    pub(crate) text: Arc<str>,
    pub(crate) weight: u16,
    /// As it is written.
    config: model::Endpoint,
    /// `None` for a Unix socket.
    pub(crate) addresses: Option<Arc<Addresses>>,
    /// Whether QUIC reaches it.
    pub(crate) quic: Memory,
    /// Messages among its QUIC links.
    pub(crate) deaths: Deaths,
    /// How it was reached last.
    pub(crate) hop: Last,
    active: AtomicUsize,
    history: History,
    condition: Mutex<Condition>,
    ejector: Option<Arc<Ejector>>,
}

/// The experience of exchanges with an endpoint.
#[derive(Debug)]
struct History {
    failures: AtomicU64,
    recent: Recent,
    /// The last failure.
    trouble: Mutex<Option<Trouble>>,
    news: EndpointLog,
}

#[derive(Debug)]
struct Trouble {
    when: Instant,
    reason: String,
    /// A connection has succeeded since.
    over: bool,
}

impl Endpoint {
    /// The endpoint that `config` says, one of `endpoints` in the upstream.
    pub(crate) fn new(
        config: &model::Endpoint,
        ejector: Option<Arc<Ejector>>,
        upstream: &Arc<str>,
        endpoints: usize,
    ) -> Self {
        let address = config.address().clone();
        let text: Arc<str> = address.to_string().into();
        let news = EndpointLog::new(upstream.clone(), text.clone(), endpoints);
        let addresses = match &address {
            EndpointAddress::Tcp(place) => Some(Arc::new(Addresses::new(place))),
            EndpointAddress::Unix(_) => None,
        };

        Self {
            text,
            weight: config.weight().max(1),
            config: config.clone(),
            address,
            addresses,
            quic: Memory::default(),
            deaths: Deaths::default(),
            hop: Last::default(),
            active: AtomicUsize::new(0),
            history: History {
                failures: AtomicU64::new(0),
                recent: Recent::default(),
                trouble: Mutex::new(None),
                news,
            },
            condition: Mutex::default(),
            ejector,
        }
    }

    /// The name that its certificate must have.
    pub(crate) fn name_in_certificate<'a>(&'a self, security: &'a Security) -> &'a str {
        security.server_name(self.config.server_name(), &self.address)
    }

    /// Where it stands.
    pub(crate) fn zone(&self) -> Option<&str> {
        self.config.zone()
    }

    /// Exchanges that it is serving, or connecting for.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Failures since the start.
    pub(crate) fn failures(&self) -> u64 {
        self.history.failures.load(Ordering::Relaxed)
    }

    /// Why it failed, unless it succeeded since.
    pub(crate) fn last_error(&self) -> Option<String> {
        let trouble = self.history.trouble.lock();
        trouble
            .as_ref()
            .filter(|trouble| !trouble.over)
            .map(|trouble| trouble.reason.clone())
    }

    /// Whether it failed a moment ago.
    pub(crate) fn is_resting(&self, now: Instant) -> bool {
        let trouble = self.history.trouble.lock();
        trouble
            .as_ref()
            .is_some_and(|trouble| !trouble.over && now < trouble.when + REST)
    }

    pub(crate) fn failed(&self, failure: &ConnectFailure) {
        // A bound of ours says nothing of the endpoint.
        if failure.kind == FailureKind::Limit {
            return;
        }
        self.note(&failure.reason);
        // Where this machine is at fault, or a rule of ours, the endpoint must not be ejected for it.
        if failure.is_of_endpoint() {
            self.history.recent.failed();
            self.history.news.unreached(&failure.reason);
            self.spoiled(&failure.reason);
        }
    }

    /// An exchange failed for a reason that speaks against the endpoint.
    fn spoiled(&self, reason: &str) {
        let (Some(ejector), now) = (&self.ejector, clock::now()) else {
            return;
        };
        // Lock order: the condition first, then the ejector, which knows no endpoint.
        let admit = |end| ejector.admit(now, end);
        if self
            .condition
            .lock()
            .failed(reason, ejector.rule, now, admit)
        {
            tracing::warn!(
                endpoint = &*self.text,
                reason,
                "the endpoint is ejected for a while"
            );
        }
    }

    /// An exchange went well.
    pub(crate) fn served(&self) {
        self.history.recent.succeeded();
        self.history.news.answered();
        if self.ejector.is_some() {
            self.condition.lock().served();
        }
    }

    /// A check was made.
    pub(crate) fn checked(
        &self,
        upstream: &str,
        outcome: Result<(), String>,
        thresholds: Thresholds,
    ) {
        // Only changes of the state are logged: a check runs every few seconds, for ever.
        let reason = outcome.as_ref().err().cloned();
        if !self
            .condition
            .lock()
            .checked(outcome, thresholds, Instant::now())
        {
            return;
        }

        match reason {
            Some(reason) => tracing::warn!(
                upstream,
                endpoint = &*self.text,
                reason,
                "the endpoint is unhealthy"
            ),
            None => tracing::info!(upstream, endpoint = &*self.text, "the endpoint is healthy"),
        }
    }

    /// Whether it may be used.
    pub(crate) fn fitness(&self, now: Instant) -> Fitness {
        self.condition.lock().fitness(now)
    }

    /// Its state, for people and metrics: by checks and ejection; and if those report no failure,
    /// by exchanges.
    pub(crate) fn health(&self, now: Instant) -> (&'static str, Option<String>) {
        let fitness = self.fitness(now);
        let outcomes = self.history.recent.outcomes();
        if fitness != Fitness::Healthy || outcomes.failed == 0 {
            return (fitness.word(), self.unfit_because(now));
        }

        let mut reason = format!(
            "{} of the last {} attempts failed",
            outcomes.failed, outcomes.of
        );
        if let Some(trouble) = &*self.history.trouble.lock() {
            let ago = now.saturating_duration_since(trouble.when).as_secs();
            reason = format!("{reason}, the last {ago}s ago: {}", trouble.reason);
        }

        (
            if outcomes.is_failing() {
                FAILING
            } else {
                fitness.word()
            },
            Some(reason),
        )
    }

    /// Why it may not be used.
    pub(crate) fn unfit_because(&self, now: Instant) -> Option<String> {
        self.condition.lock().reason(now)
    }

    /// Share of its weight that it has now.
    pub(crate) fn share(&self, slow_start: Duration, now: Instant) -> f64 {
        self.condition.lock().share(slow_start, now)
    }

    /// A connection came about.
    pub(crate) fn succeeded(&self) {
        if let Some(trouble) = &mut *self.history.trouble.lock() {
            trouble.over = true;
        }
    }

    fn note(&self, reason: &str) {
        self.history.failures.fetch_add(1, Ordering::Relaxed);
        self.remember(reason, false);
    }

    fn remember(&self, reason: &str, over: bool) {
        *self.history.trouble.lock() = Some(Trouble {
            when: clock::now(),
            reason: reason.to_owned(),
            over,
        });
    }
}

/// Counts an exchange on its endpoint and on its link until it is dropped: keep it as long as the exchange lasts.
#[derive(Debug, Default)]
pub struct Active {
    endpoint: Option<Arc<Endpoint>>,
    stream: Option<Counted>,
    rooms: [Room; 2],
    /// The tunnel that it is in.
    outer: Option<Box<Self>>,
}

impl Active {
    pub(crate) fn on(endpoint: &Arc<Endpoint>) -> Self {
        endpoint.active.fetch_add(1, Ordering::Relaxed);
        Self {
            endpoint: Some(endpoint.clone()),
            stream: None,
            rooms: [None, None],
            outer: None,
        }
    }

    pub(crate) fn with_stream(mut self, stream: Option<Counted>) -> Self {
        self.stream = stream;
        self
    }

    /// Counts a tunnel that the exchange is in, too.
    pub(crate) fn inside(mut self, tunnel: Self) -> Self {
        self.outer = Some(Box::new(tunnel));
        self
    }

    /// Holds these places, under the bounds of exchanges and of connections, as long as the exchange lasts.
    pub(crate) fn in_rooms(mut self, exchange: Option<Room>, connection: Option<Room>) -> Self {
        for (place, room) in self.rooms.iter_mut().zip([exchange, connection]) {
            *place = room.unwrap_or_else(|| place.take());
        }
        self
    }

    /// Marks the endpoint as failing: for a moment it is tried only after the others, and the failure counts towards its
    /// ejection. Does nothing for a target.
    pub fn failed(&self) {
        self.failed_because("an exchange failed");
    }

    /// As [`Self::failed`], with the reason.
    pub fn failed_because(&self, reason: &str) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.note(reason);
            endpoint.history.recent.failed();
            endpoint.history.news.broke(reason);
            endpoint.spoiled(reason);
        }
    }

    /// The endpoint answered with a status of 5xx: it counts towards its ejection, but it can be asked again at once.
    pub fn answered_badly(&self, status: u16) {
        if let Some(endpoint) = &self.endpoint {
            let reason = format!("status {status}");
            endpoint.history.recent.failed();
            endpoint.history.news.answered();
            // Over at once: the endpoint answers, so that it does not rest.
            endpoint.remember(&reason, true);
            endpoint.spoiled(&reason);
        }
    }

    /// The endpoint worked: failures are counted from 0 again.
    pub fn served(&self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.served();
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.active.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_endpoint_rests_for_a_moment() {
        let address = "127.0.0.1:1".parse().unwrap();
        let endpoint = Arc::new(Endpoint::new(
            &model::Endpoint::Address(address),
            None,
            &"x".into(),
            1,
        ));
        let active = Active::on(&endpoint);
        active.failed();
        let (now, later) = (Instant::now(), Instant::now() + REST);
        assert_eq!(
            (endpoint.is_resting(now), endpoint.is_resting(later)),
            (true, false)
        );
        assert_eq!((endpoint.active(), endpoint.failures()), (1, 1));
        drop(active);
        endpoint.succeeded();
        assert_eq!((endpoint.active(), endpoint.last_error()), (0, None));
    }
}
