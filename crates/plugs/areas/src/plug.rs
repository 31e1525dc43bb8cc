//! The plug as a whole: its settings, its upkeep and its view.

use std::sync::Arc;

use hermes_config::Problem;
use hermes_config::settings_schema;
use hermes_observe::{GaugeFamily, LabelledGauge};
use hermes_plug::{Background, Change, DocumentSettings, Plug, Plugs};
use serde_json::Value;

use crate::domain::Domain;
use crate::handler::Provisioner;
use crate::reload::Reload;
use crate::settings::AreasSettings;

/// The name of the plug and of its handler.
pub const NAME: &str = "areas";

/// The provisioner of a node, before and after it runs.
#[derive(Clone, Default)]
pub struct AreasPlug(Arc<Provisioner>);

/// Adds the plug and its handler to those of a program.
#[must_use]
pub fn register(plugs: Plugs, areas: &AreasPlug) -> Plugs {
    let plugs = plugs.plug(NAME, areas.clone());
    plugs.handler(NAME, areas.0.handler())
}

impl AreasPlug {
    /// The node runs: changes are put in force by this.
    pub fn reload_by(&self, reload: impl Reload + 'static) {
        self.0.reload_by(Arc::new(reload));
    }
}

impl Plug for AreasPlug {
    fn schema(&self) -> Option<Value> {
        Some(settings_schema::<AreasSettings>())
    }

    fn prepare(&self, settings: &DocumentSettings<'_>) -> Result<Change, Vec<Problem>> {
        let read = settings.read::<AreasSettings>();
        let Some(read) = read.map_err(|wrong| vec![wrong])? else {
            let provisioner = self.0.clone();
            return Ok(Change::new(move || provisioner.follow(None)));
        };
        let located = |problem: Problem| {
            let remedy = problem.remedy.unwrap_or_default();
            match remedy.is_empty() {
                true => settings.problem(&problem.path, problem.reason, "correct it"),
                false => settings.problem(&problem.path, problem.reason, &remedy),
            }
        };
        let domain = Domain::new(&read);
        let domain = domain.map_err(|found| found.into_iter().map(located).collect::<Vec<_>>())?;
        let kept = domain.shelf.read().map_err(|reason| {
            let remedy = "move the file away: all paths are withdrawn then";
            vec![settings.problem("folder", reason, remedy)]
        })?;
        let provisioner = self.0.clone();
        Ok(Change::new(move || {
            provisioner.take_up(kept);
            provisioner.follow(Some(domain));
        }))
    }

    fn start(&self, background: &Background) {
        let provisioner = self.0.clone();
        let stopping = background.clone();
        background.spawn(async move {
            tokio::select! {
                () = provisioner.upkeep() => {}
                () = stopping.stopping() => {}
            }
        });
    }

    fn status(&self) -> Value {
        self.0.status()
    }

    fn metrics(&self) -> Vec<GaugeFamily> {
        let count = self.0.count();
        vec![GaugeFamily {
            name: "hermes_areas_paths",
            help: "Paths between areas that lead through this place",
            gauges: vec![LabelledGauge {
                labels: Vec::new(),
                value: i64::try_from(count).unwrap_or(i64::MAX),
            }],
        }]
    }
}
