//! The plugs of a node as a whole: their settings, lifecycles, status and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_config::model::Document;
use hermes_config::{PlugForm, PlugPlace, Problem, child, nearest};
use hermes_observe::GaugeFamily;
use hermes_observe::admin::AdminRefusal;
use serde_json::{Map, Value};

use crate::neighbour::NeighbourView;
use crate::plug::{Background, Change, DocumentSettings, Plug};

/// Plugs as wholes, by name.
#[derive(Clone, Default)]
pub struct NodePlugs(BTreeMap<String, Arc<dyn Plug>>);

/// By which a document that all plugs have prepared is put in force.
#[derive(Default)]
pub struct PlugChanges(Vec<Change>);

impl PlugChanges {
    /// Puts it in force; says which keys, by their paths, need a restart.
    pub fn apply(self) -> Vec<String> {
        self.0.into_iter().flat_map(Change::apply).collect()
    }

    /// Which keys need a restart.
    pub fn restarts(&self) -> Vec<String> {
        let keys = self.0.iter().flat_map(Change::restarts);
        keys.cloned().collect()
    }
}

impl NodePlugs {
    pub(crate) fn add(&mut self, name: &str, plug: Arc<dyn Plug>) {
        self.0.insert(name.to_owned(), plug);
    }

    /// These, and of the others those whose names are not taken.
    pub(crate) fn over(mut self, others: Self) -> Self {
        for (name, plug) in others.0 {
            self.0.entry(name).or_insert(plug);
        }
        self
    }

    /// The forms of their settings.
    pub(crate) fn forms(&self) -> impl Iterator<Item = PlugForm> {
        let form = |(name, plug): (&String, &Arc<dyn Plug>)| PlugForm {
            place: PlugPlace::Node,
            name: name.clone(),
            schema: plug.schema(),
        };
        self.0.iter().map(form)
    }

    /// Has all of them read a document; `is_check`: it will not be put in force.
    ///
    /// # Errors
    /// All mistakes in their settings.
    pub fn prepare(
        &self,
        document: &Document,
        is_check: bool,
    ) -> Result<PlugChanges, Vec<Problem>> {
        let mut problems: Vec<_> = self.unknown(document).collect();
        let mut changes = PlugChanges::default();
        for (name, plug) in &self.0 {
            let settings = DocumentSettings {
                document,
                settings: document.plugs.get(name),
                path: child("plugs", name),
                is_check,
            };
            match plug.prepare(&settings) {
                Ok(change) => changes.0.push(change),
                Err(wrong) => problems.extend(wrong),
            }
        }

        if problems.is_empty() {
            Ok(changes)
        } else {
            Err(problems)
        }
    }

    /// Names that the document speaks to and that are no plug's, or that of one without settings.
    fn unknown(&self, document: &Document) -> impl Iterator<Item = Problem> {
        let takes = |name: &str| self.0.get(name).is_some_and(|plug| plug.schema().is_some());
        let unknown = document.plugs.keys().filter(move |name| !takes(name));
        unknown.map(|name| {
            let known = self.0.keys().map(String::as_str);
            let remedy = match nearest(name, known) {
                Some(near) if near != name => format!("did you mean `{near}`?"),
                _ => "remove it, or use a program that has it".to_owned(),
            };
            let reason = format!("no part of this program takes settings as `{name}`");
            Problem::new(child("plugs", name), reason).remedy(remedy)
        })
    }

    /// The node runs, and works for them here.
    pub fn start(&self, background: &Background) {
        self.0.values().for_each(|plug| plug.start(background));
    }

    /// The status of each.
    pub fn status(&self) -> Map<String, Value> {
        let shown = self
            .0
            .iter()
            .map(|(name, plug)| (name.clone(), plug.status()));
        shown.filter(|(_, status)| !status.is_null()).collect()
    }

    /// The neighbours of each that has any.
    pub fn neighbours(&self) -> BTreeMap<String, Vec<NeighbourView>> {
        let neighbours = self
            .0
            .iter()
            .map(|(name, plug)| (name.clone(), plug.neighbours()));
        neighbours.filter(|(_, views)| !views.is_empty()).collect()
    }

    /// The answer of one of them to an administrator.
    ///
    /// # Errors
    /// There is none of the name, or it refuses.
    pub fn ask(&self, name: &str, question: &Value) -> Result<Value, AdminRefusal> {
        let Some(plug) = self.0.get(name) else {
            let error = format!("no part of this program is called `{name}`");
            return Err(AdminRefusal::other(error));
        };
        plug.ask(question)
    }

    /// Their metrics.
    pub fn metrics(&self) -> Vec<GaugeFamily> {
        self.0.values().flat_map(|plug| plug.metrics()).collect()
    }
}
