//! The relay as a plug of a node: its handler, its clock, its status and its metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hermes_config::{Problem, settings_schema};
use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{Background, Change, DocumentSettings, Plug, Plugs};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::aggregate::{Aggregate, Joins};
use crate::handler::Relay;
use crate::moves::MoveSettings;
use crate::rendezvous::{Meeting, Rendezvous, send_heartbeats};
use crate::space::Space;

/// The name of the handler.
const RELAY: &str = "relay";

/// The name of the handler that joins subscriptions.
const AGGREGATE: &str = "aggregate";

/// The name of the handler that sends clients to relays.
const RENDEZVOUS: &str = "rendezvous";

/// How often it looks whether subscriptions are over, or owe a sign of life.
#[doc(alias = "bound")]
const TICK: Duration = Duration::from_secs(1);

/// The same while the node stops.
#[doc(alias = "bound")]
const DRAIN_TICK: Duration = Duration::from_millis(100);

/// Adds the relay to the plugs of a program.
#[must_use]
pub fn register(plugs: Plugs) -> Plugs {
    let space = Arc::new(Space::default());
    let joins = Arc::<Joins>::default();
    let aggregate = Aggregate::new(space.clone(), joins.clone());
    let plugs = plugs.handler(RELAY, Relay::new(space.clone()));
    let plugs = plugs.handler(AGGREGATE, aggregate);
    let meeting = Arc::<Meeting>::default();
    let rendezvous = Rendezvous::new(space.clone(), meeting.clone());
    let plugs = plugs.handler(RENDEZVOUS, rendezvous);
    let plug = RelayPlug {
        space,
        joins,
        meeting,
    };
    plugs.plug(RELAY, plug)
}

/// The work of the relay beside its exchanges.
struct RelayPlug {
    space: Arc<Space>,
    joins: Arc<Joins>,
    meeting: Arc<Meeting>,
}

impl Plug for RelayPlug {
    fn schema(&self) -> Option<Value> {
        Some(settings_schema::<MoveSettings>())
    }

    fn prepare(&self, settings: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        let read = settings.read::<MoveSettings>();
        let read = read.map_err(|problem| vec![problem])?.unwrap_or_default();
        let rules = read.rules(settings)?;
        let space = self.space.clone();
        Ok(Change::new(move || space.moves.change(rules)))
    }

    fn start(&self, background: &Background) {
        let space = self.space.clone();
        let joins = self.joins.clone();
        let meeting = self.meeting.clone();
        meeting.start(background);
        background.spawn(send_heartbeats(self.space.clone(), background.clone()));
        let stopping = background.clone();
        background.spawn(async move {
            let mut ticks = interval(TICK);
            // A clock that was late does not catch up: each tick looks at the time.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = ticks.tick() => {
                        space.tick(Instant::now());
                        joins.tick();
                        meeting.tick(Instant::now());
                    }
                    () = stopping.stopping() => break,
                }
            }
            let mut ticks = interval(DRAIN_TICK);
            space.moves.drain();
            // Subscribers are to hear where they go on, and to leave.
            while space.moves.successor().is_some() && space.sizes().subscriptions > 0 {
                ticks.tick().await;
                space.tick(Instant::now());
            }
        });
    }

    fn status(&self) -> Value {
        let sizes = self.space.sizes();
        let meeting = self.meeting.status(Instant::now());
        let unheard = self.space.moves.unheard();
        let has_served =
            sizes.subscriptions > 0 || self.space.counts.published.load(Ordering::Relaxed) > 0;
        if !has_served && meeting.is_none() && unheard.is_none() {
            return Value::Null;
        }
        let mut status = json!({
            "channels": sizes.channels,
            "subscriptions": sizes.subscriptions,
            "aggregated": self.joins.len(),
            "waiting_bytes": self.space.held.load(Ordering::Relaxed),
            "published": self.space.counts.published.load(Ordering::Relaxed),
            "enqueued": self.space.counts.enqueued.load(Ordering::Relaxed),
            "dropped": self.space.counts.dropped.load(Ordering::Relaxed),
        });
        if let Some(moves) = self.space.moves.status() {
            status["moves"] = moves;
        }
        if let Some(meeting) = meeting {
            status["rendezvous"] = meeting;
        }
        if let Some(reason) = unheard {
            status["unheard"] = reason.into();
        }
        status
    }

    fn metrics(&self) -> Vec<GaugeFamily> {
        let sizes = self.space.sizes();
        let waiting = self.space.held.load(Ordering::Relaxed);
        vec![
            family(
                "hermes_relay_channels",
                "Channels of the relay",
                sizes.channels,
            ),
            family(
                "hermes_relay_subscriptions",
                "Subscriptions to channels of the relay",
                sizes.subscriptions,
            ),
            family(
                "hermes_relay_waiting_bytes",
                "Bytes of messages that wait for subscriptions of the relay",
                waiting,
            ),
        ]
    }
}

fn family(name: &'static str, help: &'static str, value: usize) -> GaugeFamily {
    GaugeFamily {
        name,
        help,
        gauges: vec![LabelledGauge {
            labels: Vec::new(),
            value: i64::try_from(value).unwrap_or(i64::MAX),
        }],
    }
}
