//! Metrics of filters: decisions, and their duration.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Bounds of the duration histogram in seconds: from a neighbour's answer to the longest useful wait.
const DURATIONS: [f64; 10] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    filter: String,
    outcome: &'static str,
    remembered: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FilterLabel {
    filter: String,
}

/// Families with a series per filter; a filter's name comes from the configuration.
#[derive(Debug)]
pub(super) struct FilterFamilies {
    decisions: Family<DecisionLabels, Counter>,
    durations: Family<FilterLabel, Histogram, fn() -> Histogram>,
}

impl FilterFamilies {
    pub fn register(registry: &mut Registry) -> Self {
        let decisions = Family::default();
        registry.register(
            "filter_decisions",
            "Decisions of filters",
            decisions.clone(),
        );
        let durations =
            Family::new_with_constructor((|| Histogram::new(DURATIONS)) as fn() -> Histogram);
        registry.register(
            "filter_duration_seconds",
            "Time that filters took to decide",
            durations.clone(),
        );

        Self {
            decisions,
            durations,
        }
    }

    /// Counts a decision; `took` is `None` for one that was remembered.
    pub fn decided(&self, filter: &str, outcome: &'static str, took: Option<Duration>) {
        let filter = filter.to_owned();
        let remembered = if took.is_none() { "yes" } else { "no" };
        self.decisions
            .get_or_create(&DecisionLabels {
                filter: filter.clone(),
                outcome,
                remembered,
            })
            .inc();

        if let Some(took) = took {
            self.durations
                .get_or_create(&FilterLabel { filter })
                .observe(took.as_secs_f64());
        }
    }
}
