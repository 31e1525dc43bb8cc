//! The series in which an exchange is counted when it ends, found once for all that end alike.

use std::cell::RefCell;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::counts::Tally;
use super::listener::ListenerTelemetry;

/// How exchanges end that are counted in the same series. All but the words are compared as the objects that they are: those of
/// one configuration are the same for all exchanges.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub listener: Arc<ListenerTelemetry>,
    pub kind: &'static str,
    pub route: Option<Arc<str>>,
    pub upstream: Option<Arc<str>>,
    pub status: &'static str,
    pub reason: &'static str,
}

impl Ending {
    fn is_like(&self, other: &Self) -> bool {
        let same = |one: &Option<Arc<str>>, two: &Option<Arc<str>>| match (one, two) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        };
        Arc::ptr_eq(&self.listener, &other.listener)
            && same(&self.route, &other.route)
            && same(&self.upstream, &other.upstream)
            && (self.kind, self.status, self.reason) == (other.kind, other.status, other.reason)
    }

    /// Where it is remembered.
    fn place(&self) -> usize {
        let address =
            |name: &Option<Arc<str>>| name.as_ref().map_or(0, |name| name.as_ptr().addr());
        // Addresses are multiples of 16.
        let mixed = (Arc::as_ptr(&self.listener).addr() >> 4)
            ^ (address(&self.route) >> 4).rotate_left(7)
            ^ (address(&self.upstream) >> 4).rotate_left(13)
            ^ (self.kind.len() << 3)
            ^ usize::from(self.status.as_bytes().first().copied().unwrap_or_default())
            ^ (self.reason.len() << 1);

        (mixed ^ (mixed >> 6) ^ (mixed >> 12)) % PLACES
    }
}

/// The series of one ending.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub ended: Counter,
    pub lasted: Histogram,
    pub upstream_lasted: Option<Histogram>,
    pub route_use: Option<Arc<Tally>>,
    pub upstream_use: Option<Arc<Tally>>,
}

/// Metric series that a thread remembers: most workers see a few, and the others are looked up.
#[doc(alias = "bound")]
const PLACES: usize = 64;

thread_local! {
    static REMEMBERED: RefCell<[Option<(Ending, Series)>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// Calls `count` with the series of an ending; `find` looks them up where they are not remembered.
pub(super) fn with(ending: &Ending, find: impl FnOnce() -> Series, count: impl FnOnce(&Series)) {
    REMEMBERED.with_borrow_mut(|remembered| {
        let place = &mut remembered[ending.place()];
        match place {
            Some((known, series)) if known.is_like(ending) => count(series),
            _ => count(&place.insert((ending.clone(), find())).1),
        }
    });
}
