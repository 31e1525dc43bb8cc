//! Single-flight: one request goes to the next hop for all that could share its answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::name::ResourceName;

/// How long requests for a resource do not wait for each other, once an answer could not be shared.
#[doc(alias = "bound")]
const UNSHARED: Duration = Duration::from_secs(10);

/// Resources of which that is remembered.
#[doc(alias = "bound")]
const UNSHARED_RESOURCES: usize = 4096;

/// The requests on their way.
#[derive(Default)]
pub(crate) struct Flights {
    flights: Mutex<HashMap<ResourceName, Vec<Arc<Flight>>>>,
    unshared: Mutex<HashMap<ResourceName, Instant>>,
}

/// A request on its way.
pub(crate) struct Flight {
    /// The part of the key that it shares with those that wait.
    keyed: String,
    /// The resource was invalidated meanwhile: its answer may be older than that.
    is_void: AtomicBool,
    /// Closed when it is over.
    over: Semaphore,
}

/// What a request does.
pub(crate) enum Turn {
    /// It goes, and others wait for it.
    Lead(Lead),
    /// It waits for another one.
    Follow(Arc<Flight>),
    /// It goes, and no one waits.
    Alone,
}

/// The right to go. Dropped when the answer is stored or cannot be.
pub(crate) struct Lead {
    flights: Arc<Flights>,
    name: ResourceName,
    flight: Arc<Flight>,
}

impl Flights {
    /// The turn of a request.
    pub(crate) fn enter(self: &Arc<Self>, name: &ResourceName, keyed: &str, now: Instant) -> Turn {
        if self.is_unshared(name, now) {
            return Turn::Alone;
        }

        let mut all = self.flights.lock();
        let flights = all.entry(name.clone()).or_default();
        if let Some(flight) = flights.iter().find(|flight| flight.keyed == keyed) {
            return Turn::Follow(flight.clone());
        }
        let flight = Arc::new(Flight {
            keyed: keyed.to_owned(),
            is_void: AtomicBool::new(false),
            over: Semaphore::new(0),
        });
        flights.push(flight.clone());
        Turn::Lead(Lead {
            flights: self.clone(),
            name: name.clone(),
            flight,
        })
    }

    /// Answers of this resource cannot be shared: the next requests do not wait for each other.
    pub(crate) fn note_unshared(&self, name: &ResourceName, now: Instant) {
        let mut unshared = self.unshared.lock();
        if unshared.len() >= UNSHARED_RESOURCES {
            unshared.clear();
        }
        unshared.insert(name.clone(), now);
    }

    /// Nothing that is on its way is stored for this resource.
    pub(crate) fn invalidate(&self, name: &ResourceName) {
        let mut all = self.flights.lock();
        for flight in all.remove(name).into_iter().flatten() {
            flight.is_void.store(true, Ordering::Relaxed);
            flight.over.close();
        }
    }

    fn is_unshared(&self, name: &ResourceName, now: Instant) -> bool {
        let noted = self.unshared.lock().get(name).copied();
        noted.is_some_and(|noted| now.saturating_duration_since(noted) < UNSHARED)
    }
}

impl Flight {
    /// Resolves when it is over.
    pub(crate) async fn over(&self) {
        let _ = self.over.acquire().await;
    }
}

impl Lead {
    /// Whether its answer may be stored.
    pub(crate) fn may_store(&self) -> bool {
        !self.flight.is_void.load(Ordering::Relaxed)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.flight.over.close();
        let mut all = self.flights.flights.lock();
        if let Some(flights) = all.get_mut(&self.name) {
            flights.retain(|flight| !Arc::ptr_eq(flight, &self.flight));
            if flights.is_empty() {
                all.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::tests::name;

    #[tokio::test]
    async fn one_goes_and_the_others_wait_until_it_is_over() {
        let flights = Arc::new(Flights::default());
        let now = Instant::now();
        let Turn::Lead(lead) = flights.enter(&name("/a"), "", now) else {
            panic!("the first one goes");
        };
        assert!(matches!(
            flights.enter(&name("/a"), "cookie: a", now),
            Turn::Lead(_)
        ));
        let Turn::Follow(flight) = flights.enter(&name("/a"), "", now) else {
            panic!("the second one waits");
        };
        drop(lead);
        flight.over().await;
        assert!(matches!(flights.enter(&name("/a"), "", now), Turn::Lead(_)));
        assert!(flights.flights.lock().is_empty());
    }

    #[test]
    fn an_answer_that_was_on_its_way_when_its_resource_changed_is_not_stored() {
        let flights = Arc::new(Flights::default());
        let Turn::Lead(lead) = flights.enter(&name("/a"), "", Instant::now()) else {
            panic!("it goes");
        };
        assert!(lead.may_store());
        flights.invalidate(&name("/a"));
        assert!(!lead.may_store());
    }

    #[test]
    fn requests_for_what_cannot_be_shared_do_not_wait() {
        let flights = Arc::new(Flights::default());
        let now = Instant::now();
        for at in 0..=UNSHARED_RESOURCES {
            flights.note_unshared(&name(&format!("/{at}")), now);
        }
        assert!(flights.unshared.lock().len() <= UNSHARED_RESOURCES);
        let last = name(&format!("/{UNSHARED_RESOURCES}"));
        assert!(matches!(flights.enter(&last, "", now), Turn::Alone));
        assert!(matches!(
            flights.enter(&last, "", now + UNSHARED),
            Turn::Lead(_)
        ));
    }
}
