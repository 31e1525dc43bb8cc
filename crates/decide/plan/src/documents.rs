//! The routes of plans, for the nodes at their places.
//!
//! The first place recognizes a path by its target and by its clients, and writes its name into a field of the overlay, which no client
//! may set. The others recognize it by this field. So one port of each node serves all paths, and any number of connections a path.

use hermes_config::model::{Document, Match};
use hermes_config::{Places, Problem, Problems, child, from_json, write_whole};
use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};

use crate::areas::Areas;
use crate::file::AreaSpec;
use crate::plan::{Plan, Stop};

/// The field that names the path of an exchange. It is one of the overlay: clients may not write it.
pub const PATH_FIELD: &str = "x-hermes-path";

/// The routes and upstreams of one place, as a file that its node includes.
#[derive(Debug, Clone, PartialEq)]
pub struct PlaceDocument {
    /// The place.
    pub place: String,
    /// Its content.
    pub document: Document,
}

impl PlaceDocument {
    /// The document as it is written, with secrets that stand in `reached`.
    pub fn yaml(&self) -> String {
        write_whole(&self.document, &Places::nowhere())
    }
}

/// The name of a path: no name of an area has the sign between, so two paths never share one.
pub fn path_name(plan: &Plan) -> String {
    format!("{}~{}", plan.from, plan.to)
}

/// The documents of all places that paths lead through.
///
/// # Errors
/// A place is not `reached`, or an area has no `targets`; a path leads through a place twice.
pub fn documents(areas: &Areas, plans: &[Plan]) -> Result<Vec<PlaceDocument>, Problems> {
    let mut writer = Writer {
        areas,
        places: IndexMap::new(),
        problems: Vec::new(),
    };
    for plan in plans {
        writer.path(plan);
    }
    writer.problems.dedup();
    if !writer.problems.is_empty() {
        return Err(Problems(writer.problems));
    }
    let places = writer.places.into_iter();
    let documents: Result<_, Problem> =
        places.map(|(place, parts)| parts.document(place)).collect();
    documents.map_err(|problem| Problems(vec![problem]))
}

struct Writer<'a> {
    areas: &'a Areas,
    places: IndexMap<String, PlaceParts>,
    problems: Vec<Problem>,
}

/// Routes and upstreams of one place.
#[derive(Default)]
struct PlaceParts {
    /// Those for paths that come from another place; they stand first, since their condition is narrower.
    further: Vec<Json>,
    first: Vec<Json>,
    upstreams: Map<String, Json>,
}

impl PlaceParts {
    fn document(self, place: String) -> Result<PlaceDocument, Problem> {
        let routes: Vec<Json> = self.further.into_iter().chain(self.first).collect();
        let mut content = Map::new();
        content.insert("version".to_owned(), json!(1));
        content.insert("routes".to_owned(), Json::Array(routes));
        if !self.upstreams.is_empty() {
            content.insert("upstreams".to_owned(), Json::Object(self.upstreams));
        }
        let document = from_json(&Json::Object(content))?;
        Ok(PlaceDocument { place, document })
    }
}

impl Writer<'_> {
    fn path(&mut self, plan: &Plan) {
        let file = self.areas.file();
        let (Some(from), Some(to)) = (file.areas.get(&plan.from), file.areas.get(&plan.to)) else {
            let reason = format!("{} is no path of this file", path_name(plan));
            self.problems.push(Problem::new("areas", reason));
            return;
        };
        if to.targets.is_empty() {
            let path = child(&child("areas", &plan.to), "targets");
            let reason = format!(
                "no route can lead to area `{}`: it names no service",
                plan.to
            );
            let remedy = "name its hosts and ports, such as `ehr.example:443`";
            self.problems
                .push(Problem::new(path, reason).remedy(remedy));
        }
        self.once(plan);

        for (index, stop) in plan.stops.iter().enumerate() {
            let next = plan.stops.get(index + 1);
            let matches = match index {
                0 => first_match(from, to),
                _ => further_match(plan, to),
            };
            let route = self.route(plan, stop, next, matches);
            let parts = self.places.entry(stop.place.clone()).or_default();
            match index {
                0 => parts.first.push(route),
                _ => parts.further.push(route),
            }
        }
    }

    /// The routes of a place tell paths apart, not the passages of one.
    fn once(&mut self, plan: &Plan) {
        let mut places: Vec<&str> = plan.stops.iter().map(|stop| stop.place.as_str()).collect();
        places.sort_unstable();
        for pair in places.windows(2).filter(|pair| pair[0] == pair[1]) {
            let reason = format!("{} leads through `{}` twice", path_name(plan), pair[0]);
            let remedy = "let its functions run at places that lie on one way";
            self.problems
                .push(Problem::new("functions", reason).remedy(remedy));
        }
    }

    fn route(&mut self, plan: &Plan, stop: &Stop, next: Option<&Stop>, matches: Json) -> Json {
        let mut route = Map::new();
        route.insert("name".to_owned(), json!(path_name(plan)));
        route.insert("match".to_owned(), matches);
        if !stop.functions.is_empty() {
            let functions = stop.functions.iter();
            let through = functions.map(|step| self.through(&step.function));
            route.insert("through".to_owned(), through.collect());
        }
        match next {
            None => route.insert("terminate".to_owned(), self.termination(&plan.to)),
            Some(next) => {
                let name = json!({ PATH_FIELD: path_name(plan) });
                route.insert("set".to_owned(), name);
                self.upstream(&stop.place, &next.place);
                route.insert("to".to_owned(), json!(upstream_name(&next.place)))
            }
        };
        Json::Object(route)
    }

    fn termination(&self, area: &str) -> Json {
        let spec = self.areas.file().areas.get(area);
        let terminate = spec.and_then(|spec| spec.terminate.as_ref());
        terminate.map_or(json!(true), |terminate| json!(terminate))
    }

    fn through(&self, function: &str) -> Json {
        let spec = self.areas.file().functions.get(function);
        let through = spec.and_then(|spec| spec.through.as_ref());
        through.map_or_else(|| json!(function), |through| json!(through))
    }

    fn upstream(&mut self, place: &str, next: &str) {
        let spec = self.areas.file().places.get(next);
        match spec.and_then(|spec| spec.reached.as_ref()) {
            Some(upstream) => {
                let parts = self.places.entry(place.to_owned()).or_default();
                parts.upstreams.insert(upstream_name(next), said(upstream));
            }
            None => {
                let path = child("places", next);
                let reason = format!("nodes at other places do not know how to reach `{next}`");
                let remedy =
                    format!("name its endpoints: `{next}: {{ reached: {{ endpoints: [..] }} }}`");
                self.problems
                    .push(Problem::new(path, reason).remedy(remedy));
            }
        }
    }
}

/// A name that no upstream of the including file has by chance.
fn upstream_name(place: &str) -> String {
    format!("area-{place}")
}

fn first_match(from: &AreaSpec, to: &AreaSpec) -> Json {
    let mut matches = said(&from.clients);
    matches["target"] = json!(to.targets);
    // An exchange that was on a path before keeps it.
    if from.clients == Match::default() {
        matches["fields"] = json!({ PATH_FIELD: false });
    }
    matches
}

fn further_match(plan: &Plan, to: &AreaSpec) -> Json {
    json!({ "target": to.targets, "fields": { PATH_FIELD: path_name(plan) } })
}

/// A part of the model with the keys that were written.
fn said(part: &impl serde::Serialize) -> Json {
    let mut json = serde_json::to_value(part).unwrap_or_default();
    without_defaults(&mut json);
    json
}

fn without_defaults(json: &mut Json) {
    let Json::Object(entries) = json else { return };
    entries.values_mut().for_each(without_defaults);
    // No key of a match or an upstream means something else when it is empty or false than when it is absent.
    entries.retain(|_, value| match value {
        Json::Null => false,
        Json::Bool(is) => *is,
        Json::Array(list) => !list.is_empty(),
        Json::Object(map) => !map.is_empty(),
        Json::Number(_) | Json::String(_) => true,
    });
}
