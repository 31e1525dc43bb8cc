//! Metrics of upstreams, read from them when someone asks.

use std::sync::Arc;

use hermes_upstream::{Upstream, UpstreamStatus};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The upstreams in force.
#[derive(Debug, Clone, Default)]
pub(super) struct Upstreams(Arc<Mutex<Vec<Arc<Upstream>>>>);

impl Upstreams {
    /// Says something of these from now on.
    pub(super) fn replace(&self, mut upstreams: Vec<Arc<Upstream>>) {
        upstreams.sort_by(|one, two| one.name().cmp(two.name()));
        let before = std::mem::replace(&mut *self.0.lock(), upstreams);
        drop(before);
    }
}

/// Endpoints in this state.
fn count(status: &UpstreamStatus, health: &str) -> u64 {
    status
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.health == health)
        .count() as u64
}

impl Collector for Upstreams {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let all: Vec<_> = self
            .0
            .lock()
            .iter()
            .map(|upstream| upstream.status())
            .collect();

        if all.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "hermes_upstream_endpoints",
            "Endpoints by their health",
            None,
            MetricType::Gauge,
        )?;

        for status in &all {
            for health in ["healthy", "failing", "unhealthy", "ejected"] {
                let labels = [("upstream", status.name.as_str()), ("health", health)];
                ConstGauge::new(count(status, health)).encode(family.encode_family(&labels)?)?;
            }
        }

        let mut family = encoder.encode_descriptor(
            "hermes_upstream_waiting",
            "Exchanges that wait for room under the limits",
            None,
            MetricType::Gauge,
        )?;

        for status in &all {
            ConstGauge::new(status.waiting as u64)
                .encode(family.encode_family(&[("upstream", status.name.as_str())])?)?;
        }

        let mut family = encoder.encode_descriptor(
            "hermes_upstream_refused",
            "Exchanges that the limits refused",
            None,
            MetricType::Counter,
        )?;

        for status in &all {
            ConstCounter::new(status.refused)
                .encode(family.encode_family(&[("upstream", status.name.as_str())])?)?;
        }

        Ok(())
    }
}
