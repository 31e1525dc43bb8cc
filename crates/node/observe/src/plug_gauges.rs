//! Gauges of plugs, as these give them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::looked_up::LookedUp;

/// Gauges of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GaugeFamily {
    /// The name, which begins with `hermes_`.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// The gauges.
    pub gauges: Vec<LabelledGauge>,
}

/// A gauge of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledGauge {
    /// Names and values of its labels. The values must be few: each has a line of its own.
    pub labels: Vec<(&'static str, String)>,
    /// The current value.
    pub value: i64,
}

/// Where they are looked up.
pub(super) type PlugGauges = LookedUp<GaugeFamily>;

impl Collector for PlugGauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let families = self.views().into_iter();
        for family in families.filter(|family| !family.gauges.is_empty()) {
            let mut written =
                encoder.encode_descriptor(family.name, family.help, None, MetricType::Gauge)?;
            for gauge in &family.gauges {
                ConstGauge::new(gauge.value).encode(written.encode_family(&gauge.labels)?)?;
            }
        }
        Ok(())
    }
}
