//! Neighbours in custody: their status, and the metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use serde::Serialize;

use crate::looked_up::LookedUp;

/// How a neighbour is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NeighbourState {
    /// The neighbour was not heard yet, and nothing is wanted from it.
    Unheard,
    /// The neighbour answers, or did when something was wanted last.
    Up,
    /// The neighbour does not answer.
    Silent,
    /// Something answers where it is, and no keys can be agreed.
    Refused,
}

impl NeighbourState {
    /// As `status` says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unheard => "unheard",
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Refused => "refused",
        }
    }
}

/// The status of a neighbour in custody.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NeighbourView {
    /// Its name.
    pub name: String,
    /// Where it is, if that is known.
    pub address: Option<String>,
    /// How it is.
    pub state: NeighbourState,
    /// Why it is not up.
    pub reason: Option<String>,
    /// Seconds since it was heard last.
    pub heard_seconds: Option<u64>,
    /// Milliseconds of a round trip to it, once that is known.
    pub round_trip_ms: Option<f64>,
    /// Exchanges that this node has begun with it.
    pub asking: usize,
    /// Exchanges that it has begun.
    pub answering: usize,
}

/// Where they are looked up.
pub(super) type Neighbours = LookedUp<NeighbourView>;

impl Collector for Neighbours {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let all = self.views();
        if all.is_empty() {
            return Ok(());
        }

        let mut family = encoder.encode_descriptor(
            "hermes_custody_neighbour_up",
            "1 if a neighbour in custody answers, or has when something was wanted from it last",
            None,
            MetricType::Gauge,
        )?;
        for view in &all {
            let is_up = view.state == NeighbourState::Up;
            let labels = [("neighbour", view.name.as_str())];
            ConstGauge::new(i64::from(is_up)).encode(family.encode_family(&labels)?)?;
        }

        let mut family = encoder.encode_descriptor(
            "hermes_custody_exchanges",
            "Exchanges in custody with a neighbour, by who has begun them",
            None,
            MetricType::Gauge,
        )?;
        for view in &all {
            for (side, count) in [("this", view.asking), ("neighbour", view.answering)] {
                let labels = [("neighbour", view.name.as_str()), ("begun_by", side)];
                ConstGauge::new(count as u64).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
