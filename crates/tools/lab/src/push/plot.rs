//! The picture of the results.

use super::measure::{FAN_OUT, LATENCY, STREAM};
use crate::report::BarPanel;

pub(super) const PANELS: [BarPanel; 4] = [
    BarPanel::of(LATENCY[0].0, "p50", "100 B to 1 subscriber, us"),
    BarPanel::of(LATENCY[2].0, "p50", "100 B to 1,000 subscribers, us"),
    BarPanel::of(STREAM, "deliveries", "messages a second to 1"),
    BarPanel::of(FAN_OUT, "deliveries", "deliveries a second to 100"),
];
