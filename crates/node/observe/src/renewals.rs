//! Certificates that the node obtains itself: metrics of their orders.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::looked_up::LookedUp;

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

/// Where they are looked up.
pub(super) type Renewals = LookedUp<RenewalView>;

impl Collector for Renewals {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let all = self.views();
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
