//! One endpoint, and what was learnt about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_config::model::{self, EndpointAddress};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::addresses::Addresses;
use crate::condition::{Condition, Fitness, Thresholds};
use crate::ejector::Ejector;
use crate::failure::{ConnectFailure, FailureKind};
use crate::hop::Last;
use crate::limits::Room;
use crate::pool::Counted;
use crate::quic::Memory;

/// How long an endpoint that failed is tried only after the others.
const REST: Duration = Duration::from_secs(1);

/// One endpoint of an upstream.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: EndpointAddress,
    /// The address as it is configured.
    pub(crate) text: Arc<str>,
    pub(crate) weight: u16,
    pub(crate) zone: Option<String>,
    /// `None` for a Unix socket.
    pub(crate) addresses: Option<Arc<Addresses>>,
    /// Whether QUIC reaches it.
    pub(crate) quic: Memory,
    /// How it was reached last.
    pub(crate) hop: Last,
    active: AtomicUsize,
    failures: AtomicU64,
    trouble: Mutex<Option<Trouble>>,
    condition: Mutex<Condition>,
    ejector: Option<Arc<Ejector>>,
}

/// The last failure, until a connection succeeds.
#[derive(Debug)]
struct Trouble {
    when: Instant,
    reason: String,
}

impl Endpoint {
    pub(crate) fn new(config: &model::Endpoint, ejector: Option<Arc<Ejector>>) -> Self {
        let address = config.address().clone();
        let addresses = match &address {
            EndpointAddress::Tcp(place) => Some(Arc::new(Addresses::new(place))),
            EndpointAddress::Unix(_) => None,
        };
        Self {
            text: address.to_string().into(),
            weight: config.weight().max(1),
            zone: config.zone().map(str::to_owned),
            address,
            addresses,
            quic: Memory::default(),
            hop: Last::default(),
            active: AtomicUsize::new(0),
            failures: AtomicU64::new(0),
            trouble: Mutex::new(None),
            condition: Mutex::default(),
            ejector,
        }
    }

    /// Exchanges that it is serving, or connecting for.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Failures since the start.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Why it failed, unless it succeeded since.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.trouble.lock().as_ref().map(|trouble| trouble.reason.clone())
    }

    /// Whether it failed a moment ago.
    pub(crate) fn is_resting(&self, now: Instant) -> bool {
        self.trouble.lock().as_ref().is_some_and(|trouble| now < trouble.when + REST)
    }

    pub(crate) fn failed(&self, failure: &ConnectFailure) {
        // A bound of ours says nothing of the endpoint.
        if failure.kind == FailureKind::Limit {
            return;
        }
        self.note(failure.reason.clone());
        if failure.is_of_endpoint() {
            self.spoiled(&failure.reason);
        }
    }

    /// An exchange failed for a reason that speaks against the endpoint.
    fn spoiled(&self, reason: &str) {
        let (Some(ejector), now) = (&self.ejector, Instant::now()) else { return };
        let admit = |end| ejector.admit(now, end);
        if self.condition.lock().failed(reason, ejector.rule, now, admit) {
            tracing::warn!(endpoint = &*self.text, reason, "the endpoint is ejected for a while");
        }
    }

    /// An exchange went well.
    pub(crate) fn served(&self) {
        if self.ejector.is_some() {
            self.condition.lock().served();
        }
    }

    /// A check was made.
    pub(crate) fn checked(&self, upstream: &str, outcome: Result<(), String>, thresholds: Thresholds) {
        let reason = outcome.as_ref().err().cloned();
        if !self.condition.lock().checked(outcome, thresholds, Instant::now()) {
            return;
        }
        match reason {
            Some(reason) => tracing::warn!(upstream, endpoint = &*self.text, reason, "the endpoint is unhealthy"),
            None => tracing::info!(upstream, endpoint = &*self.text, "the endpoint is healthy"),
        }
    }

    /// Whether it may be used.
    pub(crate) fn fitness(&self, now: Instant) -> Fitness {
        self.condition.lock().fitness(now)
    }

    /// Why it may not be used.
    pub(crate) fn unfit_because(&self, now: Instant) -> Option<String> {
        self.condition.lock().reason(now)
    }

    /// Share of its weight that it has now.
    pub(crate) fn share(&self, slow_start: Duration, now: Instant) -> f64 {
        self.condition.lock().share(slow_start, now)
    }

    pub(crate) fn succeeded(&self) {
        *self.trouble.lock() = None;
    }

    fn note(&self, reason: String) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.trouble.lock() = Some(Trouble { when: Instant::now(), reason });
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
        Self { endpoint: Some(endpoint.clone()), stream: None, rooms: [None, None], outer: None }
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
            endpoint.note(reason.to_owned());
            endpoint.spoiled(reason);
        }
    }

    /// The endpoint answered with a status of 5xx: it counts towards its ejection, but it can be asked again at once.
    pub fn answered_badly(&self, status: u16) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.spoiled(&format!("status {status}"));
        }
    }

    /// The endpoint did what it should: failures are counted from the beginning again.
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
        let endpoint = Arc::new(Endpoint::new(&model::Endpoint::Address(address), None));
        let active = Active::on(&endpoint);
        active.failed();
        let (now, later) = (Instant::now(), Instant::now() + REST);
        assert_eq!((endpoint.is_resting(now), endpoint.is_resting(later)), (true, false));
        assert_eq!((endpoint.active(), endpoint.failures()), (1, 1));
        drop(active);
        endpoint.succeeded();
        assert_eq!((endpoint.active(), endpoint.last_error()), (0, None));
    }
}
