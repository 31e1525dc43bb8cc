//! One endpoint, and what was learnt about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_config::model::{self, EndpointAddress};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::addresses::Addresses;
use crate::failure::ConnectFailure;
use crate::pool::Counted;

/// How long an endpoint that failed is tried only after the others.
const REST: Duration = Duration::from_secs(1);

/// One endpoint of an upstream.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: EndpointAddress,
    /// The address as it is configured.
    pub(crate) text: String,
    pub(crate) weight: u16,
    /// `None` for a Unix socket.
    pub(crate) addresses: Option<Arc<Addresses>>,
    active: AtomicUsize,
    failures: AtomicU64,
    trouble: Mutex<Option<Trouble>>,
}

/// The last failure, until a connection succeeds.
#[derive(Debug)]
struct Trouble {
    when: Instant,
    reason: String,
}

impl Endpoint {
    pub(crate) fn new(config: &model::Endpoint) -> Self {
        let address = config.address().clone();
        let addresses = match &address {
            EndpointAddress::Tcp(place) => Some(Arc::new(Addresses::new(place))),
            EndpointAddress::Unix(_) => None,
        };
        Self {
            text: address.to_string(),
            weight: config.weight().max(1),
            address,
            addresses,
            active: AtomicUsize::new(0),
            failures: AtomicU64::new(0),
            trouble: Mutex::new(None),
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
        self.note(failure.reason.clone());
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
}

impl Active {
    pub(crate) fn on(endpoint: &Arc<Endpoint>) -> Self {
        endpoint.active.fetch_add(1, Ordering::Relaxed);
        Self { endpoint: Some(endpoint.clone()), stream: None }
    }

    pub(crate) fn with_stream(mut self, stream: Option<Counted>) -> Self {
        self.stream = stream;
        self
    }

    /// Marks the endpoint as failing: for a moment it is tried only after the others. Does nothing for a target.
    pub fn failed(&self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.note("an exchange failed".to_owned());
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
        let endpoint = Arc::new(Endpoint::new(&model::Endpoint::Address(address)));
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
