//! Congestion control: the bound on a connection's bytes in flight.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};

use super::bbr::Bbr;

/// Bytes on their way at once where nothing controls them, on one connection: 1 Gbit/s at 64 ms. A path that carries less loses the rest.
#[doc(alias = "bound")]
const UNCONTROLLED: u64 = 8 << 20;

/// The bound on a connection's bytes in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// By losses (RFC 9438).
    #[default]
    Cubic,
    /// A fixed number of bytes, regardless of losses: the content has a control of its own, and the
    /// path is dedicated.
    Off,
    /// By the path's rate and round trip, whatever the path loses on its own (draft-ietf-ccwg-bbr, with differences).
    Bbr,
}

impl Congestion {
    /// A controller for a new connection.
    pub(super) fn controller(self, now: Instant, mtu: u16) -> Box<dyn Controller> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()).build(now, mtu),
            Self::Off => Box::new(FixedWindow),
            Self::Bbr => Box::new(Bbr::new(now, mtu)),
        }
    }
}

/// Controls nothing.
#[derive(Debug, Clone)]
struct FixedWindow;

impl Controller for FixedWindow {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        UNCONTROLLED
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = UNCONTROLLED;
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        UNCONTROLLED
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_shrink_the_window_of_one_and_not_of_the_other() {
        let now = Instant::now();
        for (congestion, shrinks) in [(Congestion::Cubic, true), (Congestion::Off, false)] {
            let mut controller = congestion.controller(now, 1280);
            let before = controller.window();
            controller.on_congestion_event(now, now, false, 100_000);
            assert_eq!(controller.window() < before, shrinks, "{congestion:?}");
        }
    }

    #[test]
    fn without_control_a_new_connection_begins_with_all_of_its_window() {
        let controller = Congestion::Off.controller(Instant::now(), 1280);
        assert_eq!(controller.initial_window(), UNCONTROLLED);
        assert!(Congestion::Cubic.controller(Instant::now(), 1280).window() < UNCONTROLLED);
    }
}
