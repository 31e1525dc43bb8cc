//! Metrics of certificates, read when someone asks: the time that is left.

use std::sync::Arc;

use hermes_net::clock::unix_seconds;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::validity::Held;

/// The certificates in force.
#[derive(Debug, Clone, Default)]
pub(super) struct Certificates(Arc<Mutex<Vec<Held>>>);

impl Certificates {
    /// Says something of these from now on.
    pub(super) fn replace(&self, held: Vec<Held>) {
        *self.0.lock() = held;
    }

    pub(super) fn all(&self) -> Vec<Held> {
        self.0.lock().clone()
    }
}

impl Collector for Certificates {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let now = unix_seconds();
        let all = self.all();
        if all.is_empty() {
            return Ok(());
        }

        let mut family = encoder.encode_descriptor(
            "hermes_certificate_seconds_left",
            "Time until a certificate ends, or a revocation list is to be renewed; below 0 afterwards",
            None,
            MetricType::Gauge,
        )?;

        for (number, held) in all.iter().enumerate() {
            let Some(left) = held.left(now) else { continue };
            // Several lists may stand under one key.
            let number = all[..number]
                .iter()
                .filter(|other| other.path == held.path)
                .count()
                .to_string();
            let labels = [("key", held.path.as_str()), ("number", number.as_str())];
            ConstGauge::new(left).encode(family.encode_family(&labels)?)?;
        }

        Ok(())
    }
}
