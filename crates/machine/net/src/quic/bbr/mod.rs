//! BBR: congestion control by a model of the path rather than by its losses.
//!
//! The model is that of draft-ietf-ccwg-bbr: the rate at which bytes are delivered, the most of the last rounds, and the shortest round trip. Their
//! product is as much as the path holds without a queue. The window follows that: a little above it, more for a round in which it
//! probes for bandwidth, and below it in the next two, so that the queue drains. Two things differ from the draft:
//!
//! - Losses: the draft lowers its bounds where a round loses more than 2 %, which a radio link does on its own. Here only those losses
//!   count that go away when the window is small, and they take away headroom above the path's own product ([`losses`]).
//! - Pacing: quinn paces by the window, at five quarters of a window in each round trip. So phases set the window, not a rate.
//!
//! quinn has a BBR of its own. It begins with 240 kB at once, two seconds of a link of 1 Mbit/s, and its window has no bound while an
//! application does not fill the path.

mod delivery;
mod losses;
mod round_trip;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerMetrics};

use delivery::DeliveryRate;
use losses::Losses;
use round_trip::ShortestRoundTrip;

/// Packets of the smallest window: each acknowledgement covers two, and one may be lost.
const LEAST: u64 = 4;

/// Packets above each target: those whose acknowledgement waits for the next one, on both sides.
const IN_HAND: u64 = 3;

/// Bytes of the first window, or ten packets if that is less (RFC 9002, section 7.2).
const INITIAL: u64 = 14_720;

/// Of the path's product: 2 / ln 2 (BBRStartupCwndGain would be 2, with a rate that grows by 2.77 beside it).
const STARTUP_GAIN: f64 = 2.885;
const PROBE_GAIN: f64 = 1.25;
const DRAIN_GAIN: f64 = 0.9;
const ROUND_TRIP_GAIN: f64 = 0.5;

/// Share of the path's product by which the window is above it between probes, at most: for acknowledgements that come late.
const HEADROOM: f64 = 0.25;
/// Headroom that each cycle without losses of our own gives back.
const HEADROOM_STEP: f64 = 0.05;

/// A path is full when its rate has not grown by a quarter for so many rounds (BBRCheckFullBWReached).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// Rounds of a phase.
const CRUISE_ROUNDS: u32 = 6;
const DRAIN_ROUNDS: u32 = 3;
const PROBE_ROUNDS: u32 = 2;
/// One until the queue is gone, and one in which losses are not ours.
const DOWN_ROUNDS: u32 = 2;
/// BBRProbeRTTDuration.
const ROUND_TRIP_TIME: Duration = Duration::from_millis(200);

/// The purpose of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It grows as fast as it can until the path is full.
    Startup,
    /// The queue of the startup drains.
    Drain,
    /// It fits the path.
    Cruise,
    /// It looks for more bandwidth.
    Up,
    /// The queue of that drains.
    Down,
    /// It measures the round trip without a queue.
    RoundTrip,
}

impl Phase {
    /// Whether the window is too small for a queue of our own.
    fn is_calm(self) -> bool {
        matches!(self, Self::Drain | Self::Down | Self::RoundTrip)
    }
}

/// When a phase began, and what was before it.
#[derive(Debug, Clone, Copy)]
struct PhaseStart {
    since: Instant,
    rounds: u32,
    was_calm: bool,
}

/// The rate that a startup has reached.
#[derive(Debug, Clone, Copy, Default)]
struct StartupRate {
    rate: f64,
    rounds_without_growth: u32,
}

/// A controller.
#[derive(Debug, Clone)]
pub(super) struct Bbr {
    mtu: u64,
    window: u64,
    delivery: DeliveryRate,
    round_trip: ShortestRoundTrip,
    losses: Losses,
    phase: Phase,
    start: PhaseStart,
    startup: StartupRate,
    headroom: f64,
    /// Bytes acknowledged since the last batch of acknowledgements has ended.
    acknowledged: u64,
    /// The path has marked packets (ECN) since then.
    is_marked: bool,
}

impl Bbr {
    pub(super) fn new(now: Instant, mtu: u16) -> Self {
        let mtu = u64::from(mtu);
        Self {
            mtu,
            window: initial(mtu),
            delivery: DeliveryRate::new(now),
            round_trip: ShortestRoundTrip::default(),
            losses: Losses::default(),
            phase: Phase::Startup,
            start: PhaseStart {
                since: now,
                rounds: 0,
                was_calm: false,
            },
            startup: StartupRate::default(),
            headroom: HEADROOM,
            acknowledged: 0,
            is_marked: false,
        }
    }

    /// Bytes that the path holds without a queue, once both of its figures are known.
    fn product(&self) -> Option<f64> {
        let rate = self.delivery.rate().filter(|rate| *rate > 0.0)?;
        Some(rate * self.round_trip.get()?.as_secs_f64())
    }

    /// Bytes that may be in flight in this phase.
    fn target(&self) -> u64 {
        let Some(product) = self.product() else {
            return initial(self.mtu);
        };
        let gain = match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Cruise => 1.0 + self.headroom,
            Phase::Up => PROBE_GAIN + self.headroom,
            Phase::Drain | Phase::Down => DRAIN_GAIN,
            Phase::RoundTrip => ROUND_TRIP_GAIN,
        };

        // The rate is that of packets that arrive: those that the path loses are in flight, too.
        let bytes = gain * product / (1.0 - self.losses.of_path());
        let least = match self.phase {
            Phase::Startup => initial(self.mtu),
            _ => LEAST * self.mtu,
        };
        (bytes as u64 + IN_HAND * self.mtu).max(least)
    }

    /// So many packets are these bytes.
    fn packets(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mtu as f64
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.start = PhaseStart {
            since: now,
            rounds: 0,
            was_calm: self.phase.is_calm(),
        };
        self.phase = phase;
    }

    /// Whether packets that were sent then were sent in a calm phase.
    fn was_calm(&self, sent: Instant) -> bool {
        if sent < self.start.since {
            self.start.was_calm
        } else {
            self.phase.is_calm()
        }
    }

    /// Goes on to the next phase when this one has done its work.
    fn advance(&mut self, now: Instant, in_flight: u64) {
        let rounds = self.start.rounds;
        let product = self.product().unwrap_or_default();
        match self.phase {
            Phase::Startup if self.startup.rounds_without_growth >= FULL_ROUNDS => {
                self.enter(Phase::Drain, now);
            }
            Phase::Drain if in_flight as f64 <= product || rounds >= DRAIN_ROUNDS => {
                self.enter(Phase::Cruise, now);
            }
            Phase::Cruise if rounds >= CRUISE_ROUNDS => self.enter(Phase::Up, now),
            Phase::Up => {
                let is_reached = in_flight + 2 * self.mtu >= self.target();
                if rounds >= PROBE_ROUNDS || rounds >= 1 && is_reached {
                    self.enter(Phase::Down, now);
                }
            }
            Phase::Down if rounds >= DOWN_ROUNDS => {
                self.judge_losses();
                self.enter(Phase::Cruise, now);
            }
            Phase::RoundTrip
                if rounds >= 1
                    && now.saturating_duration_since(self.start.since) >= ROUND_TRIP_TIME =>
            {
                self.round_trip.measured(now);
                let is_full = self.startup.rounds_without_growth >= FULL_ROUNDS;
                self.enter(
                    if is_full {
                        Phase::Cruise
                    } else {
                        Phase::Startup
                    },
                    now,
                );
            }
            _ => {}
        }
    }

    /// Gives headroom up or takes it back, by the losses of the cycle that ends.
    fn judge_losses(&mut self) {
        self.headroom = if self.losses.are_ours() {
            self.headroom / 2.0
        } else {
            (self.headroom + HEADROOM_STEP).min(HEADROOM)
        };
    }

    /// A mark is a loss that the path spared us (RFC 3168): the window goes below the path's product for a while.
    fn handle_mark(&mut self, now: Instant) {
        let is_marked = std::mem::take(&mut self.is_marked);
        if is_marked && !self.phase.is_calm() {
            self.headroom /= 2.0;
            self.startup.rounds_without_growth = FULL_ROUNDS;
            self.enter(Phase::Down, now);
        }
    }

    /// Counts a round that has ended.
    fn handle_round(&mut self, is_limited: bool) {
        self.start.rounds += 1;
        if self.phase != Phase::Startup || is_limited {
            return;
        }

        let rate = self.delivery.rate().unwrap_or_default();
        let startup = &mut self.startup;
        if rate >= startup.rate * FULL_GROWTH {
            startup.rate = rate;
            startup.rounds_without_growth = 0;
        } else {
            startup.rounds_without_growth += 1;
        }
    }

    /// Begins again on a path that has lost everything for a long time: it may be another one by now.
    fn restart(&mut self, now: Instant) {
        self.delivery = DeliveryRate::new(now);
        self.startup = StartupRate::default();
        self.enter(Phase::Startup, now);
        self.window = LEAST * self.mtu;
    }

    /// Moves the window towards its target: up no faster than bytes arrive, down at once.
    fn follow(&mut self, acknowledged: u64) {
        self.window = (self.window + acknowledged).min(self.target());
    }
}

impl Controller for Bbr {
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &quinn_proto::RttEstimator,
    ) {
        self.acknowledged += bytes;
        self.delivery.handle_ack(sent, bytes);
        self.round_trip
            .handle(now, now.saturating_duration_since(sent));
        let was_calm = self.was_calm(sent);
        let packets = self.packets(bytes);
        self.losses.handle_arrived(was_calm, packets);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest: Option<u64>,
    ) {
        let acknowledged = std::mem::take(&mut self.acknowledged);
        if let Some(round) = self.delivery.handle_end(now, app_limited) {
            self.handle_round(round.is_limited);
        }

        self.handle_mark(now);
        self.advance(now, in_flight);
        if self.round_trip.is_old(now) {
            // An application that does not fill the path leaves no queue: each sample of its is one.
            if app_limited {
                self.round_trip.measured(now);
            } else if self.phase != Phase::RoundTrip {
                self.round_trip.begin_measurement();
                self.enter(Phase::RoundTrip, now);
            }
        }
        self.follow(acknowledged);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.is_marked |= lost == 0;
        let was_calm = self.was_calm(sent);
        let packets = self.packets(lost);
        self.losses.handle_lost(was_calm, packets);
        if persistent {
            self.restart(now);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
        self.window = self.window.max(LEAST * self.mtu);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window;
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        initial(self.mtu)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Bytes of the first window (RFC 9002, section 7.2).
fn initial(mtu: u64) -> u64 {
    (10 * mtu).min(INITIAL.max(2 * mtu))
}
