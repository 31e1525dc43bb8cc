//! Functions on the way of exchanges: their order, time and bytes, for records, views and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde::Serialize;

/// The work of one function for one exchange.
#[derive(Debug)]
pub struct FunctionCount {
    /// Its name in the configuration.
    pub name: String,
    /// How long it took to begin.
    pub took: Duration,
    /// Bytes from the client.
    pub to_target: FunctionBytes,
    /// Bytes from the target.
    pub to_client: FunctionBytes,
}

/// The bytes of one direction at a function.
#[derive(Debug, Default)]
pub struct FunctionBytes {
    /// Bytes that it took.
    pub taken: AtomicU64,
    /// Bytes that it gave.
    pub given: AtomicU64,
}

/// The functions of one exchange, in their order.
pub type FunctionCounts = Arc<[FunctionCount]>;

impl FunctionCount {
    /// A function that has begun.
    pub fn new(name: &str, took: Duration) -> Self {
        Self {
            name: name.to_owned(),
            took,
            to_target: FunctionBytes::default(),
            to_client: FunctionBytes::default(),
        }
    }

    fn view(&self) -> FunctionView {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FunctionView {
            name: self.name.clone(),
            began_us: u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX),
            to_target_in: count(&self.to_target.taken),
            to_target_out: count(&self.to_target.given),
            to_client_in: count(&self.to_client.taken),
            to_client_out: count(&self.to_client.given),
        }
    }
}

/// A function of an exchange, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionView {
    /// Its name.
    pub name: String,
    /// Microseconds that it took to begin.
    pub began_us: u64,
    /// Bytes from the client that it took.
    pub to_target_in: u64,
    /// Bytes for the target that it gave.
    pub to_target_out: u64,
    /// Bytes from the target that it took.
    pub to_client_in: u64,
    /// Bytes for the client that it gave.
    pub to_client_out: u64,
}

/// The functions of an exchange, as an operator sees them.
pub(super) fn views(counts: Option<&FunctionCounts>) -> Vec<FunctionView> {
    let counts = counts.into_iter().flat_map(|counts| counts.iter());
    counts.map(FunctionCount::view).collect()
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FunctionLabel {
    function: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FunctionBytesLabels {
    function: String,
    direction: &'static str,
    side: &'static str,
}

/// Families with series per function; its name comes from the configuration.
#[derive(Debug)]
pub(super) struct FunctionFamilies {
    exchanges: Family<FunctionLabel, Counter>,
    begin_seconds: Family<FunctionLabel, Counter<f64, AtomicU64>>,
    bytes: Family<FunctionBytesLabels, Counter>,
}

impl FunctionFamilies {
    pub fn register(registry: &mut Registry) -> Self {
        let exchanges = Family::default();
        registry.register(
            "function_exchanges",
            "Ended exchanges that went through a function",
            exchanges.clone(),
        );
        let begin_seconds = Family::default();
        registry.register(
            "function_begin_seconds",
            "Time that functions took to begin with these",
            begin_seconds.clone(),
        );
        let bytes = Family::default();
        registry.register(
            "function_bytes",
            "Bytes that functions took and gave",
            bytes.clone(),
        );
        Self {
            exchanges,
            begin_seconds,
            bytes,
        }
    }

    /// Accounts for the functions of an exchange that has ended.
    pub fn ended(&self, counts: &FunctionCounts) {
        for count in counts.iter() {
            let function = count.name.clone();
            let label = FunctionLabel {
                function: function.clone(),
            };
            self.exchanges.get_or_create(&label).inc();
            let began = self.begin_seconds.get_or_create(&label);
            began.inc_by(count.took.as_secs_f64());
            drop(began);

            let directions = [
                ("client_to_target", &count.to_target),
                ("target_to_client", &count.to_client),
            ];
            for (direction, bytes) in directions {
                for (side, counter) in [("in", &bytes.taken), ("out", &bytes.given)] {
                    let labels = FunctionBytesLabels {
                        function: function.clone(),
                        direction,
                        side,
                    };
                    let bytes = counter.load(Ordering::Relaxed);
                    self.bytes.get_or_create(&labels).inc_by(bytes);
                }
            }
        }
    }
}
