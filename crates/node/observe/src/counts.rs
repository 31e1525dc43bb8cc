//! Sums over exchanges.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Sums over exchanges. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Exchanges that ended.
    pub exchanges: u64,
    /// Exchanges that failed: without a response, with a 5xx, or broken off by the target.
    pub failures: u64,
    /// Bytes from clients.
    pub client_to_target: u64,
    /// Bytes to clients.
    pub target_to_client: u64,
    /// Flows of IP that were followed.
    pub flows: u64,
    /// Flows that were denied.
    pub denied_flows: u64,
}

/// Counts that are added to without a lock.
#[derive(Debug, Default)]
pub(super) struct Tally([AtomicU64; 6]);

impl Tally {
    /// Adds an exchange's increase.
    pub fn add(&self, gained: Counts) {
        let Counts {
            exchanges,
            failures,
            client_to_target,
            target_to_client,
            flows,
            denied_flows,
        } = gained;

        let all = [
            exchanges,
            failures,
            client_to_target,
            target_to_client,
            flows,
            denied_flows,
        ];
        for (count, more) in self.0.iter().zip(all) {
            if more > 0 {
                count.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// The sums so far.
    pub fn counts(&self) -> Counts {
        let [
            exchanges,
            failures,
            client_to_target,
            target_to_client,
            flows,
            denied_flows,
        ] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        Counts {
            exchanges,
            failures,
            client_to_target,
            target_to_client,
            flows,
            denied_flows,
        }
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.exchanges += other.exchanges;
        self.failures += other.failures;
        self.client_to_target += other.client_to_target;
        self.target_to_client += other.target_to_client;
        self.flows += other.flows;
        self.denied_flows += other.denied_flows;
    }
}
