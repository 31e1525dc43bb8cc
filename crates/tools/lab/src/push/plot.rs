//! The pictures of the results.

use super::measure::{FAN_OUT, LATENCY, STREAM};
use super::paper::{CALL, LARGEST, OUTSIDE, PING};
use super::systems::PushSystem;
use crate::report::BarPanel;

/// The columns, in their order.
pub(super) const SYSTEMS: [&str; 7] = [
    "direct",
    "indirect",
    PushSystem::Hermes.name(),
    PushSystem::Nats.name(),
    PushSystem::Nchan.name(),
    PushSystem::Centrifugo.name(),
    "paper",
];

/// Each picture, by its file.
pub(super) const PICTURES: [(&str, &[BarPanel]); 2] =
    [("push.svg", &BROKERS), ("push-paper.svg", &EXPERIMENTS)];

const BROKERS: [BarPanel; 4] = [
    BarPanel::of(LATENCY[0].0, "p50", "100 B to 1 subscriber, us"),
    BarPanel::of(LATENCY[2].0, "p50", "100 B to 1,000 subscribers, us"),
    BarPanel::of(STREAM, "deliveries", "messages a second to 1"),
    BarPanel::of(FAN_OUT, "deliveries", "deliveries a second to 100"),
];

const EXPERIMENTS: [BarPanel; 3] = [
    BarPanel::of(PING, "RTT, p50", "ping of 100 B, ms"),
    BarPanel::of(LARGEST, "throughput", "1 MB without pause, Gbit/s"),
    BarPanel::of(CALL, OUTSIDE, "gaps of a call that are heard, %"),
];
