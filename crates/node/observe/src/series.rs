//! The series in which an exchange is counted when it ends, found once for all that end alike.

use std::cell::RefCell;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::counts::{Counts, Tally};
use super::listener::ListenerTelemetry;

/// How exchanges end that are counted in the same series. All but the words are compared as the objects that they are: those of
/// one configuration are the same for all exchanges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending<'a> {
    pub listener: &'a Arc<ListenerTelemetry>,
    pub kind: &'static str,
    pub route: Option<&'a Arc<str>>,
    pub upstream: Option<&'a Arc<str>>,
    pub status: &'static str,
    pub reason: &'static str,
}

/// An ending that is kept.
#[derive(Debug)]
pub(super) struct KnownEnding {
    listener: Arc<ListenerTelemetry>,
    kind: &'static str,
    route: Option<Arc<str>>,
    upstream: Option<Arc<str>>,
    status: &'static str,
    reason: &'static str,
}

impl KnownEnding {
    pub fn ending(&self) -> Ending<'_> {
        Ending {
            listener: &self.listener,
            kind: self.kind,
            route: self.route.as_ref(),
            upstream: self.upstream.as_ref(),
            status: self.status,
            reason: self.reason,
        }
    }
}

impl Ending<'_> {
    pub fn keep(&self) -> KnownEnding {
        KnownEnding {
            listener: self.listener.clone(),
            kind: self.kind,
            route: self.route.cloned(),
            upstream: self.upstream.cloned(),
            status: self.status,
            reason: self.reason,
        }
    }

    fn is_like(&self, other: &Ending<'_>) -> bool {
        let same = |one: Option<&Arc<str>>, two: Option<&Arc<str>>| match (one, two) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        };
        Arc::ptr_eq(self.listener, other.listener)
            && same(self.route, other.route)
            && same(self.upstream, other.upstream)
            && (self.kind, self.status, self.reason) == (other.kind, other.status, other.reason)
    }

    /// Where it is remembered.
    fn place(&self) -> usize {
        let address = |name: Option<&Arc<str>>| name.map_or(0, |name| name.as_ptr().addr());
        // Addresses are multiples of 16.
        let mixed = (Arc::as_ptr(self.listener).addr() >> 4)
            ^ (address(self.route) >> 4).rotate_left(7)
            ^ (address(self.upstream) >> 4).rotate_left(13)
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

impl Series {
    /// Counts an exchange that lasted so long and gained so much.
    pub fn count(&self, seconds: f64, gained: Counts) {
        self.ended.inc();
        self.lasted.observe(seconds);
        if let Some(lasted) = &self.upstream_lasted {
            lasted.observe(seconds);
        }

        [&self.route_use, &self.upstream_use]
            .into_iter()
            .flatten()
            .for_each(|tally| tally.add(gained));
    }
}

/// Metric series that a thread remembers: most workers see a few, and the others are looked up.
#[doc(alias = "bound")]
const PLACES: usize = 64;

thread_local! {
    static REMEMBERED: RefCell<[Option<(KnownEnding, Series)>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// Calls `count` with the series of an ending, if they are remembered.
pub(super) fn remembered(ending: Ending<'_>, count: impl FnOnce(&Series)) -> bool {
    REMEMBERED.with_borrow(|remembered| match &remembered[ending.place()] {
        Some((known, series)) if known.ending().is_like(&ending) => {
            count(series);
            true
        }
        _ => false,
    })
}

/// Remembers the series of an ending.
pub(super) fn remember(ending: KnownEnding, series: Series) {
    let place = ending.ending().place();
    let before =
        REMEMBERED.with_borrow_mut(|remembered| remembered[place].replace((ending, series)));
    drop(before);
}
