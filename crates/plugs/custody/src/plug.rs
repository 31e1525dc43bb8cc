//! Custody as a plug of a node: its handler, its ingress, the settings that it follows, and its metrics.

use std::time::Instant;

use hermes_config::Problem;
use hermes_config::model::{CARRIER, NodeCustody};
use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{Change, DocumentSettings, NeighbourState, NeighbourView, Plug, Plugs};

use crate::node::Custody;
use crate::settings::NamedNeighbour;

/// Adds custody to the plugs of a node that starts with these settings of the document. Without custody, the plug still reports the keys
/// that take effect after a restart.
pub fn register(plugs: Plugs, custody: Option<Custody>, config: Option<&NodeCustody>) -> Plugs {
    let plug = CustodyPlug {
        custody: custody.clone(),
        started: config.cloned(),
    };
    let plugs = plugs.plug(CARRIER, plug);
    match custody {
        Some(custody) => plugs
            .handler(CARRIER, custody.clone())
            .ingress(CARRIER, custody),
        None => plugs,
    }
}

/// Has custody follow the documents of its node, and shows its neighbours.
struct CustodyPlug {
    /// `None`: the node was started without custody.
    custody: Option<Custody>,
    /// The settings at the start of the node.
    started: Option<NodeCustody>,
}

impl Plug for CustodyPlug {
    fn prepare(&self, settings: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        let config = settings.document.defaults.custody.as_ref();
        // A node that was started without custody begins with it after a restart.
        let change = match self.custody.clone().zip(config) {
            Some((custody, config)) => {
                let neighbours = NamedNeighbour::all(config).map_err(|problem| vec![problem])?;
                let keep_for = config.keep_for.map(|time| time.0);
                Change::new(move || custody.change(keep_for, neighbours))
            }
            None => Change::none(),
        };
        Ok(change.needs_restart(restarts(self.started.as_ref(), config)))
    }

    fn neighbours(&self) -> Vec<NeighbourView> {
        let views = self.custody.iter();
        let views = views.flat_map(|custody| custody.views(Instant::now()));
        views.map(|(_, view)| view).collect()
    }

    fn metrics(&self) -> Vec<GaugeFamily> {
        let views = self.neighbours();
        vec![up(&views), exchanges(&views)]
    }
}

/// Keys that a running node cannot follow, where they differ from those of its start.
fn restarts(started: Option<&NodeCustody>, now: Option<&NodeCustody>) -> Vec<String> {
    let key = |config: &NodeCustody| config.key_file.clone();
    let spool = |config: &NodeCustody| config.spool.clone();
    let changed = [
        ("key_file", started.map(key) != now.map(key)),
        ("spool", started.and_then(spool) != now.and_then(spool)),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed
        .map(|(key, _)| format!("defaults.custody.{key}"))
        .collect()
}

fn up(views: &[NeighbourView]) -> GaugeFamily {
    let gauge = |view: &NeighbourView| LabelledGauge {
        labels: vec![("neighbour", view.name.clone())],
        value: i64::from(view.state == NeighbourState::Up),
    };
    GaugeFamily {
        name: "hermes_custody_neighbour_up",
        help: "1 if a neighbour in custody answers, or has when something was wanted from it last",
        gauges: views.iter().map(gauge).collect(),
    }
}

fn exchanges(views: &[NeighbourView]) -> GaugeFamily {
    let gauge = |view: &NeighbourView, side: &str, count: usize| LabelledGauge {
        labels: vec![
            ("neighbour", view.name.clone()),
            ("begun_by", side.to_owned()),
        ],
        value: i64::try_from(count).unwrap_or(i64::MAX),
    };
    let both = |view: &NeighbourView| {
        [
            gauge(view, "this", view.asking),
            gauge(view, "neighbour", view.answering),
        ]
    };
    GaugeFamily {
        name: "hermes_custody_exchanges",
        help: "Exchanges in custody with a neighbour, by who has begun them",
        gauges: views.iter().flat_map(both).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(key_file: &str, spool: &str) -> NodeCustody {
        let text =
            format!("version: 1\ndefaults: {{ custody: {{ key_file: {key_file}{spool} }} }}");
        let loaded = hermes_config::parse(Path::new("node.yaml"), &text, &|_| None).unwrap();
        loaded.document.defaults.custody.unwrap()
    }

    #[test]
    fn another_key_or_spool_takes_a_restart_and_the_same_does_not() {
        let own = config("key", "");
        assert!(restarts(Some(&own), Some(&own)).is_empty());
        let other = config("other", ", spool: { folder: spool }");
        let both = ["defaults.custody.key_file", "defaults.custody.spool"];
        assert_eq!(restarts(Some(&own), Some(&other)), both);
        assert_eq!(restarts(None, Some(&own)), both[..1]);
        assert!(restarts(None, None).is_empty());
    }

    #[test]
    fn each_neighbour_has_a_gauge_and_its_exchanges_by_side() {
        let view = NeighbourView {
            name: "far".to_owned(),
            address: None,
            state: NeighbourState::Silent,
            reason: None,
            heard_seconds: None,
            round_trip_ms: None,
            asking: 2,
            answering: 1,
        };
        assert_eq!(up(std::slice::from_ref(&view)).gauges[0].value, 0);
        let values = exchanges(&[view]).gauges;
        assert_eq!(
            values.iter().map(|gauge| gauge.value).collect::<Vec<_>>(),
            [2, 1]
        );
    }
}
