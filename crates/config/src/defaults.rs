//! `defaults` written out: each entry says itself what it leaves to the node, as if the file had said it there.
//!
//! Time-outs are not: what is in force is overlaid where an exchange asks for it, so that an error can name the key that counted.

use serde_json::{Map, Value as Json, json};

use crate::path::{Step, child, steps};
use crate::tree::Node;
use crate::{Places, Problem};

/// Keys that upstreams take from `defaults.tls`.
const OF_UPSTREAMS: [&str; 3] = ["ca_file", "cert_file", "key_file"];

/// Those that listeners take.
const OF_LISTENERS: [&str; 3] = ["cert_file", "key_file", "client_ca_file"];

type Object = Map<String, Json>;

/// Writes the defaults of the JSON of a document out; returns which listeners say `tls: true` without there being a certificate.
pub(crate) fn write_out(root: &mut Object, tree: &Node) -> Vec<Problem> {
    let defaults = root.get("defaults").and_then(Json::as_object).cloned().unwrap_or_default();
    let part = |path: [&str; 2]| defaults.get(path[0]).and_then(|part| part.get(path[1])).and_then(Json::as_object);
    let tls = defaults.get("tls").and_then(Json::as_object).cloned().unwrap_or_default();
    for (_, upstream) in entries(root, "upstreams") {
        upstream_tls(upstream, &tls);
        limits(upstream, part(["limits", "upstreams"]));
    }
    let mut problems = Vec::new();
    for (name, listener) in entries(root, "listeners") {
        limits(listener, part(["limits", "listeners"]));
        if listener_tls(listener, &tls) {
            continue;
        }
        listener.remove("tls");
        let path = child(&child("listeners", name), "tls");
        let place = Places::new(tree.clone()).locate(&path);
        let reason = "`tls: true` takes its certificate from `defaults.tls`, which names none".to_owned();
        let remedy = Some("give `defaults.tls` a `cert_file` and a `key_file`, or write them here".to_owned());
        problems.push(Problem { place, path, reason, remedy });
    }
    problems
}

fn entries<'a>(root: &'a mut Object, section: &str) -> impl Iterator<Item = (&'a String, &'a mut Object)> {
    let entries = root.get_mut(section).and_then(Json::as_object_mut).into_iter().flatten();
    entries.filter_map(|(name, entry)| Some((name, entry.as_object_mut()?)))
}

/// Adds the bounds that the entry does not have, key by key.
fn limits(entry: &mut Object, defaults: Option<&Object>) {
    let Some(defaults) = defaults else { return };
    let own = entry.entry("limits").or_insert_with(|| json!({}));
    if let Some(own) = own.as_object_mut() {
        fill(own, defaults, defaults.keys().map(String::as_str));
    }
}

fn fill<'a>(own: &mut Object, defaults: &Object, keys: impl Iterator<Item = &'a str>) {
    for key in keys {
        if let Some(value) = defaults.get(key).filter(|_| !own.contains_key(key)) {
            own.insert(key.to_owned(), value.clone());
        }
    }
}

/// Gives an upstream that has TLS the files that it does not name. A certificate and its key belong together.
fn upstream_tls(upstream: &mut Object, defaults: &Object) {
    let Some(tls) = upstream.get_mut("tls").filter(|_| !defaults.is_empty()) else { return };
    if *tls == json!(true) {
        *tls = json!({});
    }
    let Some(own) = tls.as_object_mut() else { return };
    let shows_another = own.contains_key("cert_file") || own.contains_key("key_file");
    fill(own, defaults, OF_UPSTREAMS.into_iter().filter(|key| *key == "ca_file" || !shows_another));
}

/// Gives a listener the certificate that `tls: true` speaks of; false if there is none.
fn listener_tls(listener: &mut Object, defaults: &Object) -> bool {
    match listener.get_mut("tls") {
        Some(Json::Bool(false)) => drop(listener.remove("tls")),
        Some(tls) if tls.is_boolean() => {
            let mut own = Object::new();
            fill(&mut own, defaults, OF_LISTENERS.into_iter());
            let whole = own.contains_key("cert_file") && own.contains_key("key_file");
            *tls = Json::Object(own);
            return whole;
        }
        _ => {}
    }
    true
}

impl Places {
    /// The path where what stands at `path` was written: the same, or that of the default that it was written out from.
    pub fn origin_of(&self, path: &str) -> String {
        let steps = steps(path);
        let keys: Vec<&str> = steps.iter().map(Step::key).collect();
        let default = match keys.as_slice() {
            ["listeners" | "upstreams", _, "tls", key, ..] => child("defaults.tls", key),
            [side @ ("listeners" | "upstreams"), _, "limits", key, ..] => {
                child(&format!("defaults.limits.{side}"), key)
            }
            _ => return path.to_owned(),
        };
        if !self.has(path) && self.has(&default) { default } else { path.to_owned() }
    }
}
