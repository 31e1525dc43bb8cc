//! Metrics of broadcasts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CopyLabels {
    route: String,
    outcome: &'static str,
}

/// The outcomes of copies, in the order of their counters.
const OUTCOMES: [&str; 4] = ["succeeded", "failed", "cancelled", "unasked"];

/// Families with a series per route; a route's name comes from the configuration.
#[derive(Debug)]
pub(super) struct BroadcastFamilies {
    copies: Family<CopyLabels, Counter>,
}

impl BroadcastFamilies {
    pub fn register(registry: &mut Registry) -> Self {
        let copies = Family::default();
        registry.register("broadcast_copies", "Copies of broadcasts", copies.clone());
        Self { copies }
    }

    /// Counts the copies of one broadcast: those that succeeded, failed and were cancelled, and those for which the endpoint was
    /// not well.
    pub fn ended(&self, route: &str, copies: [usize; 4]) {
        for (outcome, count) in OUTCOMES.into_iter().zip(copies) {
            let labels = CopyLabels {
                route: route.to_owned(),
                outcome,
            };
            self.copies.get_or_create(&labels).inc_by(count as u64);
        }
    }
}
