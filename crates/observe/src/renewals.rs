//! Certificates that the node obtains itself: metrics of what became of their orders.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// How it goes with one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewalView {
    /// Its names.
    pub domains: String,
    /// Orders that succeeded since the process began.
    pub obtained: u64,
    /// Orders that failed since then.
    pub failed: u64,
    /// The last one failed.
    pub is_failing: bool,
}

type RenewalSource = dyn Fn() -> Vec<RenewalView> + Send + Sync;

/// Where they are looked up.
#[derive(Clone, Default)]
pub(super) struct Renewals(Arc<Mutex<Option<Arc<RenewalSource>>>>);

impl Renewals {
    /// Says something of these from now on.
    pub(super) fn look(&self, look: Arc<RenewalSource>) {
        *self.0.lock() = Some(look);
    }
}

impl fmt::Debug for Renewals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renewals")
    }
}

impl Collector for Renewals {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let look = self.0.lock().clone();
        let all = look.map_or_else(Vec::new, |look| look());
        if all.is_empty() {
            return Ok(());
        }

        let mut family = encoder.encode_descriptor(
            "hermes_certificate_orders",
            "Orders of certificates at their authorities, by what became of them",
            None,
            MetricType::Counter,
        )?;
        for view in &all {
            for (outcome, count) in [("obtained", view.obtained), ("failed", view.failed)] {
                let labels = [("domains", view.domains.as_str()), ("outcome", outcome)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }

        let mut family = encoder.encode_descriptor(
            "hermes_certificate_order_failing",
            "1 if the last order of a certificate failed",
            None,
            MetricType::Gauge,
        )?;
        for view in &all {
            let labels = [("domains", view.domains.as_str())];
            ConstGauge::new(i64::from(view.is_failing)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
