//! Documents of a node while a change spreads: the decisions of one state, and what the other one needs besides.
//!
//! Nodes change one after the other. So a node gets exchanges from nodes that have not changed yet, or that have changed before it. A change
//! has three stages:
//!
//! 1. `between(after, before)`, in any order: each node decides as before, and already takes what others will send to it.
//! 2. `between(before, after)`, those that receive exchanges before those that send them: each node decides as after the change, and
//!    still takes what others have sent to it before.
//! 3. `after`, in any order.
//!
//! In stage 2 an exchange goes by the decisions of the state before until it meets a node that knows its name after the change; all
//! nodes from there on have changed already, so it never turns in a circle. Where nodes send to each other there may be no such order for all
//! names at once: then the change is made in turns (`circles`).

use std::collections::BTreeSet;

use hermes_config::model::{HostMatch, PolicyRule, Route, TargetMatch};
use hermes_rules::shadow::{Shadow, shadowed_rules, shadows};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use super::Compiled;
use super::draft::OVERLAY;
use super::slices;

/// Begins the names of parts that are left of the document before.
const BEFORE: &str = "before";

/// Begins the names of parts that change in a later turn.
const LATER: &str = "later";

/// Begins the subjects that are slices.
const SLICE: &str = "slice ";

/// The document `after` of a node, with the names and peers that its document `before` knows besides.
pub fn between(before: &Compiled, after: &Compiled) -> Compiled {
    // Where no node has sent, none does so now, and devices enter by the next document.
    if !has_senders(&before.document) {
        return after.clone();
    }
    let mut merged = Merge {
        before: &before.document,
        document: after.document.clone(),
        prefix: BEFORE,
    };
    // Nodes that send here before the change may do so until it is over.
    merged.fill("peers");
    let kept = kept_routes(&before.document, &after.document);
    if !kept.is_empty() {
        merged.routes(kept);
        merged.fill("plugs");
        merged.rules();
        merged.fill("groups");
    }
    // Parts that are left of the document before may name its secrets.
    let mut secrets = before.secrets.clone();
    secrets.extend(after.secrets.clone());
    Compiled {
        document: merged.document,
        secrets,
        ..after.clone()
    }
}

/// A document with the decisions of `after` for some subjects, and those of `before` for all others.
pub fn mixed(before: &Compiled, after: &Compiled, decided: &BTreeSet<String>) -> Compiled {
    let is_for = |route: &Json| subjects_of([route].into_iter()).is_subset(decided);
    let mut merged = Merge {
        before: &before.document,
        document: after.document.clone(),
        prefix: LATER,
    };
    let own = elements(&after.document, "routes");
    let own = own.filter(|route| route.get("attach").is_some() || is_for(route));
    merged.document["routes"] = own.cloned().collect();
    let kept = elements(&before.document, "routes");
    let kept = kept.filter(|route| route.get("attach").is_none() && !is_for(route));
    merged.routes(kept.cloned().collect());
    merged.rules();
    merged.fill("peers");
    merged.fill("groups");
    merged.unused_upstreams(&after.document);
    if elements(&merged.document, "routes").next().is_none() {
        merged.document["routes"] = json!([super::routes::nothing()]);
    }
    // Names that move later may have secrets that they have no more afterwards.
    let mut secrets = before.secrets.clone();
    secrets.extend(after.secrets.clone());
    Compiled {
        document: merged.document,
        secrets,
        ..after.clone()
    }
}

/// Whether other nodes send to the node of a document.
fn has_senders(document: &Json) -> bool {
    let peers = document.get("peers").and_then(Json::as_object);
    peers.is_some_and(|peers| peers.keys().any(|name| name.starts_with("node-")))
}

/// The routes that the next document has not.
fn kept_routes(before: &Json, after: &Json) -> Vec<Json> {
    let known: Vec<&Json> = elements(after, "routes")
        .map(|route| &route["match"])
        .collect();
    let subjects = subjects_of(elements(after, "routes"));
    let is_ingress = after["peers"].get("devices").is_some();
    let is_kept = |route: &&Json| {
        let own = subjects_of([*route].into_iter());
        // A route for any target would need rules about all targets.
        let is_fit =
            route.get("attach").is_none() && !own.is_empty() && !known.contains(&&route["match"]);
        // Devices would get by the next rules to a name that they had under the rules before.
        is_fit && !(is_ingress && own.iter().any(|subject| subjects.contains(subject)))
    };
    elements(before, "routes")
        .filter(is_kept)
        .cloned()
        .collect()
}

/// The subjects of routes: their targets, in lower case, and [`slice`]s.
pub(super) fn subjects_of<'a>(routes: impl Iterator<Item = &'a Json>) -> BTreeSet<String> {
    let subjects = routes.flat_map(|route| {
        let targets = texts(route["match"].get("target")).into_iter();
        targets.map(str::to_lowercase).chain(slice(route))
    });
    subjects.collect()
}

/// The slice of a route or rule, as a subject, with a space: it is no target.
fn slice(element: &Json) -> Option<String> {
    let name = element["match"]["fields"][slices::FIELD].as_str()?;
    Some(format!("{SLICE}{name}"))
}

/// Whether a subject is a slice.
pub(super) fn is_slice(subject: &str) -> bool {
    subject.starts_with(SLICE)
}

/// The elements of a list of a document.
pub(super) fn elements<'a>(document: &'a Json, section: &str) -> impl Iterator<Item = &'a Json> {
    document
        .get(section)
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
}

/// The names of the upstreams that routes name.
fn upstreams_of(document: &Json) -> BTreeSet<String> {
    let routes = elements(document, "routes");
    let named = routes.flat_map(|route| [route["to"].as_str(), route["terminate"].as_str()]);
    named.flatten().map(str::to_owned).collect()
}

/// Text, or a list of texts.
fn texts(value: Option<&Json>) -> Vec<&str> {
    match value {
        Some(Json::String(text)) => vec![text],
        Some(Json::Array(texts)) => texts.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

fn typed<T: DeserializeOwned>(list: &[Json]) -> Vec<T> {
    let typed = list
        .iter()
        .map(|element| serde_json::from_value(element.clone()));
    typed.collect::<Result<_, _>>().unwrap_or_default()
}

/// Removes elements that can never match.
fn without_dead(list: &mut Vec<Json>, found: &[Shadow]) {
    let dead: BTreeSet<usize> = found.iter().map(|shadow| shadow.dead).collect();
    let mut index = 0..;
    list.retain(|_| index.next().is_none_or(|index| !dead.contains(&index)));
}

/// A document that gets parts of another one.
struct Merge<'a> {
    before: &'a Json,
    document: Json,
    /// Begins the names of its parts.
    prefix: &'static str,
}

impl Merge<'_> {
    /// Adds routes behind the others, and the upstreams that they name.
    fn routes(&mut self, kept: Vec<Json>) {
        let own = elements(&self.document, "routes");
        // The route of a node that knows no name takes everything; others that respond end the names of tenants.
        let takes_everything = |route: &&Json| {
            route.get("respond").is_some() && route["match"].get("target").is_none()
        };
        let mut routes: Vec<Json> = own
            .filter(|route| !takes_everything(route))
            .cloned()
            .collect();
        for mut route in kept {
            for key in ["to", "terminate"] {
                if let Some(upstream) = route.get(key).and_then(Json::as_str) {
                    route[key] = self.upstream(upstream).into();
                }
            }
            route["name"] = self.renamed(&route["name"]);
            routes.push(route);
        }
        let found = shadows(&typed::<Route>(&routes));
        without_dead(&mut routes, &found);
        self.document["routes"] = routes.into();
    }

    /// Adds an upstream of the document before; returns its name, which is another one where the next document has it for others.
    fn upstream(&mut self, name: &str) -> String {
        let upstream = self.before["upstreams"][name].clone();
        let known = self.document["upstreams"].get(name);
        let name = match known {
            Some(known) if *known != upstream => format!("{}-{name}", self.prefix),
            _ => name.to_owned(),
        };
        self.document["upstreams"][&name] = upstream;
        name
    }

    /// Adds the rules of the document before, for subjects that only that one knew: about these they decide alone.
    fn rules(&mut self) {
        let routes = elements(&self.document, "routes");
        let is_kept = |route: &&Json| {
            let name = route["name"].as_str();
            name.is_some_and(|name| name.starts_with(self.prefix))
        };
        let (kept, own): (Vec<&Json>, Vec<&Json>) = routes.partition(is_kept);
        let own = subjects_of(own.into_iter());
        let kept = subjects_of(kept.into_iter());
        let kept = kept.difference(&own).cloned();
        let (slices, targets): (BTreeSet<String>, BTreeSet<String>) =
            kept.partition(|subject| is_slice(subject));
        if slices.is_empty() && targets.is_empty() {
            return;
        }

        let is_of_listener = |rule: &&Json| rule["match"]["listener"] == OVERLAY;
        let next = elements(&self.document["policy"], "rules");
        let (first, last): (Vec<&Json>, Vec<&Json>) = next.partition(is_of_listener);
        let mut rules = self.rules_of_slices(&slices);
        rules.extend(first.into_iter().cloned());
        rules.extend(self.rules_of_targets(&targets));
        rules.extend(last.into_iter().cloned());
        let found = shadowed_rules(&typed::<PolicyRule>(&rules));
        without_dead(&mut rules, &found);
        self.document["policy"]["rules"] = rules.into();
    }

    /// The rules of the document before about some slices.
    fn rules_of_slices(&self, slices: &BTreeSet<String>) -> Vec<Json> {
        let is_denial = |rule: &Json| rule["name"] == slices::DENIAL;
        let next = elements(&self.document["policy"], "rules");
        // The next rules may have one, behind slices of their own.
        let is_denied = next.into_iter().any(is_denial);
        let before = elements(&self.before["policy"], "rules");
        let meant = before.filter(|rule| match slice(rule) {
            Some(slice) => slices.contains(&slice),
            None => is_denial(rule) && !slices.is_empty() && !is_denied,
        });
        let renamed = meant.map(|rule| {
            let mut renamed = rule.clone();
            renamed["name"] = self.renamed(&rule["name"]);
            renamed
        });
        renamed.collect()
    }

    /// The rules of the document before for some targets alone.
    fn rules_of_targets(&self, targets: &BTreeSet<String>) -> Vec<Json> {
        if targets.is_empty() {
            return Vec::new();
        }
        let before = elements(&self.before["policy"], "rules");
        let before = before.filter(|rule| rule["match"]["listener"] != OVERLAY);
        let narrowed = before.filter_map(|rule| {
            let mut narrowed = narrowed(rule, targets)?;
            narrowed["name"] = self.renamed(&rule["name"]);
            Some(narrowed)
        });
        let mut rules: Vec<Json> = narrowed.collect();
        // The next rules say nothing of these targets, or mean something else by silence.
        let rest = format!("{}/rest", self.prefix);
        rules.push(json!({ "name": rest, "match": { "target": targets }, "deny": true }));
        rules
    }

    fn renamed(&self, name: &Json) -> Json {
        let name = name.as_str().unwrap_or_default();
        format!("{}/{name}", self.prefix).into()
    }

    /// Removes the upstreams of routes of the next document that are not there yet.
    fn unused_upstreams(&mut self, after: &Json) {
        let now = upstreams_of(&self.document);
        let later = upstreams_of(after);
        let upstreams = self.document.get_mut("upstreams");
        if let Some(upstreams) = upstreams.and_then(Json::as_object_mut) {
            upstreams.retain(|name, _| now.contains(name) || !later.contains(name));
        }
    }

    /// Adds the entries of a map of the document before that the next one lacks.
    fn fill(&mut self, section: &str) {
        let Some(before) = self.before.get(section).and_then(Json::as_object) else {
            return;
        };
        let mut entries: Map<String, Json> = self
            .document
            .get(section)
            .and_then(Json::as_object)
            .cloned()
            .unwrap_or_default();
        for (name, entry) in before {
            entries.entry(name.clone()).or_insert_with(|| entry.clone());
        }
        self.document[section] = Json::Object(entries);
    }
}

/// A rule for these targets alone; `None` if it is about none of them.
fn narrowed(rule: &Json, targets: &BTreeSet<String>) -> Option<Json> {
    let own = texts(rule["match"].get("target"));
    let both = own
        .iter()
        .flat_map(|own| targets.iter().filter_map(|target| narrower(own, target)));
    let meant: BTreeSet<String> = match own.is_empty() {
        true => targets.clone(),
        false => both.collect(),
    };
    if meant.is_empty() {
        return None;
    }
    let mut narrowed = rule.clone();
    narrowed["match"]["target"] = json!(meant);
    Some(narrowed)
}

/// The one of two targets that is within the other; `None` if neither is.
fn narrower(one: &str, other: &str) -> Option<String> {
    if one.eq_ignore_ascii_case(other) {
        return Some(other.to_owned());
    }
    let within = |inner: &str, outer: &str| {
        let inner: Option<TargetMatch> = inner.parse().ok();
        let outer: Option<TargetMatch> = outer.parse().ok();
        match (inner, outer) {
            (
                Some(TargetMatch {
                    host: HostMatch::Exact(host),
                    port,
                }),
                Some(outer),
            ) => outer.matches(&host, port),
            _ => false,
        }
    };
    let found = [(one, other), (other, one)]
        .into_iter()
        .find(|(inner, outer)| within(inner, outer));
    found.map(|(inner, _)| inner.to_owned())
}
