//! How much is measured of the paper's experiments.

use std::time::Duration;

/// Bytes of a message where throughput is measured, as in the paper.
pub(super) const BULK: usize = 50_000;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaperCounts {
    /// Bytes of messages.
    pub sizes: &'static [usize],
    /// Pings of each size, on one machine.
    pub pings: usize,
    /// How long messages are sent without a pause there.
    pub flow: Duration,
    /// Messages of a call.
    pub call: u32,
    pub receivers: &'static [usize],
    pub pairs: &'static [usize],
    /// The ways over the wide area.
    pub ways: &'static [usize],
    /// Pings over each.
    pub far_pings: usize,
    pub far_sizes: &'static [usize],
    pub far_flow: Duration,
}

pub(crate) const LONG: PaperCounts = PaperCounts {
    sizes: &[100, 1000, 10_000, 100_000, 1_000_000],
    pings: 2000,
    flow: Duration::from_secs(3),
    call: 3000,
    receivers: &[1, 5, 10, 20, 50],
    pairs: &[1, 5, 10, 20],
    ways: &[0, 1, 2],
    far_pings: 20,
    far_sizes: &[1000, 10_000, 100_000, 1_000_000],
    far_flow: Duration::from_secs(10),
};

pub(crate) const SHORT: PaperCounts = PaperCounts {
    sizes: &[100, 1_000_000],
    pings: 50,
    flow: Duration::from_millis(100),
    call: 25,
    receivers: &[20],
    pairs: &[5],
    ways: &[1],
    far_pings: 2,
    far_sizes: &[100_000],
    far_flow: Duration::from_millis(500),
};
