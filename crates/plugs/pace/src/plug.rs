//! Pacing as a plug of a node: its handler, its status and its metrics.

use std::sync::Arc;
use std::time::Instant;

use hermes_config::Problem;
use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{Change, DocumentSettings, Plug, Plugs};
use serde_json::{Value, json};

use crate::handler::Pace;
use crate::origin::Standing;
use crate::shared::Shared;

/// The name of the handler and of the plug.
const PACE: &str = "pace";

/// Origins that `status` and metrics name: those that most requests wait for.
const NAMED: usize = 100;

/// Adds pacing to the plugs of a program.
#[must_use]
pub fn register(plugs: Plugs) -> Plugs {
    let shared = Arc::new(Shared::default());
    let plugs = plugs.handler(PACE, Pace::new(shared.clone()));
    plugs.plug(PACE, PacePlug { shared })
}

/// The part of pacing beside its exchanges.
struct PacePlug {
    shared: Arc<Shared>,
}

impl PacePlug {
    fn standings(&self) -> Vec<(String, &'static str, Standing)> {
        let now = Instant::now();
        let all = self.shared.origins.all().into_iter();
        let mut all: Vec<_> = all
            .map(|origin| {
                (
                    origin.name.clone(),
                    origin.mode.name(),
                    origin.standing(now),
                )
            })
            .collect();
        all.sort_by_key(|(_, _, standing)| std::cmp::Reverse(standing.waiting));
        all.truncate(NAMED);
        all
    }
}

impl Plug for PacePlug {
    fn schema(&self) -> Option<Value> {
        None
    }

    fn prepare(&self, _: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        Ok(Change::new(|| {}))
    }

    fn status(&self) -> Value {
        let standings = self.standings();
        if standings.is_empty() {
            return Value::Null;
        }
        let origins = standings.into_iter().map(|(name, mode, standing)| {
            let told = json!({
                "mode": mode,
                "waiting": standing.waiting,
                "per_minute": standing.per_minute.map(f64::round),
                "sent": standing.sent,
                "refused": standing.refused,
                "expired": standing.expired,
            });
            (name, told)
        });
        let mut status = json!({ "origins": Value::Object(origins.collect()) });
        let alone = self.shared.were_alone();
        if alone > 0 {
            status["without_keeper"] = alone.into();
        }
        status
    }

    fn metrics(&self) -> Vec<GaugeFamily> {
        let standings = self.standings();
        let family = |name, help, value: &dyn Fn(&Standing) -> u64| GaugeFamily {
            name,
            help,
            gauges: standings
                .iter()
                .map(|(origin, _, standing)| LabelledGauge {
                    labels: vec![("origin", origin.clone())],
                    value: i64::try_from(value(standing)).unwrap_or(i64::MAX),
                })
                .collect(),
        };
        let alone = GaugeFamily {
            name: "hermes_pace_without_keeper",
            help: "Requests that were paced here as their keeper could not be asked",
            gauges: vec![LabelledGauge {
                labels: Vec::new(),
                value: i64::try_from(self.shared.were_alone()).unwrap_or(i64::MAX),
            }],
        };
        vec![
            alone,
            family(
                "hermes_pace_waiting",
                "Requests that wait for the room of an origin",
                &|standing| standing.waiting as u64,
            ),
            family(
                "hermes_pace_sent",
                "Requests that were sent to an origin that is paced",
                &|standing| standing.sent,
            ),
            family(
                "hermes_pace_refused",
                "Requests that an origin refused although it is paced",
                &|standing| standing.refused,
            ),
        ]
    }
}
