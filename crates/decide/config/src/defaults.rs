//! `defaults` written out: each entry gets the values that it leaves to the node, as if the file
//! had them there.
//!
//! Time-outs are not written out: they are overlaid where an exchange asks for them, so that an
//! error can name the key that set the limit.

use serde_json::{Map, Value as Json, json};

use crate::path::{Step, child, steps};
use crate::tree::Node;
use crate::{Places, Problem};

/// Files shown to the other side: a certificate and its key belong together.
const SHOWN: [&str; 2] = ["cert_file", "key_file"];

/// Files that the other side is checked against: lists of revoked certificates belong to the
/// authorities that issue them.
const BELIEVED: [&str; 2] = ["ca_file", "crl_file"];
const BELIEVED_OF_CLIENTS: [&str; 2] = ["client_ca_file", "crl_file"];

type Object = Map<String, Json>;

/// Writes the defaults of the JSON of a document out; returns which listeners say `tls: true` without there being a certificate.
pub(crate) fn write_out(root: &mut Object, tree: &Node) -> Vec<Problem> {
    let defaults = root
        .get("defaults")
        .and_then(Json::as_object)
        .cloned()
        .unwrap_or_default();
    let part = |path: [&str; 2]| {
        defaults
            .get(path[0])
            .and_then(|part| part.get(path[1]))
            .and_then(Json::as_object)
    };

    let tls = defaults
        .get("tls")
        .and_then(Json::as_object)
        .cloned()
        .unwrap_or_default();
    for (_, upstream) in entries(root, "upstreams") {
        if let Some(own) = upstream.get_mut("tls") {
            connecting(own, &tls);
        }
        limits(upstream, part(["limits", "upstreams"]));
    }

    for authorize in root
        .get_mut("authorize")
        .and_then(Json::as_array_mut)
        .into_iter()
        .flatten()
    {
        of_url(authorize, "url", &tls);
    }

    if let Some(trace) = root.get_mut("trace") {
        of_url(trace, "otlp", &tls);
    }
    if let Some(decisions) = decisions(root) {
        of_url(decisions, "url", &tls);
    }

    let mut problems = Vec::new();
    for (name, listener) in entries(root, "listeners") {
        limits(listener, part(["limits", "listeners"]));
        if listener_tls(listener, &tls) {
            continue;
        }

        listener.remove("tls");
        let path = child(&child("listeners", name), "tls");
        let reason = "`tls: true` takes its certificate from `defaults.tls`, which names none";
        let remedy = "give `defaults.tls` a `cert_file` and a `key_file`, or write them here";
        let problem = Problem::new(path, reason).remedy(remedy);
        problems.push(Places::new(tree.clone()).placed(problem));
    }

    problems
}

/// Takes the values out of the JSON of a document that [`write_out`] would write into it again.
pub(crate) fn take_back(root: &mut Object) {
    let defaults = root
        .get("defaults")
        .and_then(Json::as_object)
        .cloned()
        .unwrap_or_default();
    let part = |pointer: &str| {
        let defaults = Json::Object(defaults.clone());
        let part = defaults.pointer(pointer).and_then(Json::as_object);
        part.cloned().unwrap_or_default()
    };

    let tls = part("/tls");
    let of_upstreams = part("/limits/upstreams");
    let of_listeners = part("/limits/listeners");

    for (_, upstream) in entries(root, "upstreams") {
        unlimited(upstream, &of_upstreams);
        if let Some(own) = upstream.get("tls").and_then(Json::as_object) {
            let short = without(own, &tls);
            let short = if short.is_empty() {
                json!(true)
            } else {
                Json::Object(short)
            };

            try_tls(upstream, Some(short), |upstream| {
                upstream
                    .get_mut("tls")
                    .into_iter()
                    .for_each(|own| connecting(own, &tls));
            });
        }
    }

    for (_, listener) in entries(root, "listeners") {
        unlimited(listener, &of_listeners);
        if listener.contains_key("tls") {
            try_tls(listener, Some(json!(true)), |listener| {
                listener_tls(listener, &tls);
            });
        }
    }

    let servers = root.get_mut("authorize").and_then(Json::as_array_mut);
    for server in servers
        .into_iter()
        .flatten()
        .filter_map(Json::as_object_mut)
    {
        shorten_url(server, "url", &tls);
    }

    if let Some(trace) = root.get_mut("trace").and_then(Json::as_object_mut) {
        shorten_url(trace, "otlp", &tls);
    }
    if let Some(decisions) = decisions(root).and_then(Json::as_object_mut) {
        shorten_url(decisions, "url", &tls);
    }
}

/// Removes the bounds that the entry has from the defaults.
fn unlimited(entry: &mut Object, defaults: &Object) {
    let Some(own) = entry.get_mut("limits").and_then(Json::as_object_mut) else {
        return;
    };
    own.retain(|key, value| defaults.get(key) != Some(value));
    if own.is_empty() {
        entry.remove("limits");
    }
}

/// The TLS keys that differ from the files of the defaults.
fn without(own: &Object, defaults: &Object) -> Object {
    let others = |(key, value): &(&String, &Json)| defaults.get(*key) != Some(value);
    own.iter()
        .filter(others)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Gives the entry the shorter TLS, if `write_out` restores the present value.
fn try_tls(entry: &mut Object, short: Option<Json>, write_out: impl Fn(&mut Object)) {
    let mut shortened = entry.clone();
    match short {
        Some(short) => drop(shortened.insert("tls".to_owned(), short)),
        None => drop(shortened.remove("tls")),
    }

    let mut again = shortened.clone();
    write_out(&mut again);
    if again == *entry {
        *entry = shortened;
    }
}

/// The same for an entry with an `https` or `h3` url.
fn shorten_url(entry: &mut Object, key: &str, defaults: &Object) {
    let Some(own) = entry.get("tls").and_then(Json::as_object) else {
        return;
    };
    let short = without(own, defaults);
    let short = (!short.is_empty()).then_some(Json::Object(short));
    try_tls(entry, short, |entry| {
        let mut whole = Json::Object(std::mem::take(entry));
        of_url(&mut whole, key, defaults);
        if let Json::Object(whole) = whole {
            *entry = whole;
        }
    });
}

fn entries<'a>(
    root: &'a mut Object,
    section: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Object)> {
    let entries = root
        .get_mut(section)
        .and_then(Json::as_object_mut)
        .into_iter()
        .flatten();
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

/// Gives the TLS of an outgoing connection the files that it does not name.
fn connecting(tls: &mut Json, defaults: &Object) {
    if defaults.is_empty() {
        return;
    }
    if *tls == json!(true) {
        *tls = json!({});
    }

    let Some(own) = tls.as_object_mut() else {
        return;
    };
    if !SHOWN.iter().any(|key| own.contains_key(*key)) {
        fill(own, defaults, SHOWN.into_iter());
    }

    if !own.contains_key("ca_file") && defaults.contains_key("ca_file") {
        fill(own, defaults, BELIEVED.into_iter());
    }
}

/// The same for an entry with an `https` or `h3` url.
fn of_url(entry: &mut Json, key: &str, defaults: &Object) {
    let Some(entry) = entry.as_object_mut() else {
        return;
    };
    let url = entry.get(key).and_then(Json::as_str).unwrap_or_default();
    if url
        .get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
        && !defaults.is_empty()
    {
        connecting(entry.entry("tls").or_insert_with(|| json!({})), defaults);
    }
}

/// The log of decisions.
fn decisions(root: &mut Object) -> Option<&mut Json> {
    root.get_mut("log")?.get_mut("decisions")
}

/// Gives a listener the certificate for `tls: true`; false if there is no certificate.
fn listener_tls(listener: &mut Object, defaults: &Object) -> bool {
    match listener.get_mut("tls") {
        Some(Json::Bool(false)) => drop(listener.remove("tls")),
        Some(tls) if tls.is_boolean() => {
            let mut own = Object::new();
            fill(&mut own, defaults, SHOWN.into_iter());
            if defaults.contains_key("client_ca_file") {
                fill(&mut own, defaults, BELIEVED_OF_CLIENTS.into_iter());
            }

            let whole = own.contains_key("cert_file") && own.contains_key("key_file");
            *tls = Json::Object(own);
            return whole;
        }
        _ => {}
    }
    true
}

impl Places {
    /// The path at which the value of `path` was written: the same, or that of the default that it
    /// comes from.
    pub fn origin_of(&self, path: &str) -> String {
        let steps = steps(path);
        let keys: Vec<&str> = steps.iter().map(Step::key).collect();
        let default = match keys.as_slice() {
            ["listeners" | "upstreams" | "authorize", _, "tls", key, ..]
            | ["trace", "tls", key, ..] => child("defaults.tls", key),
            [side @ ("listeners" | "upstreams"), _, "limits", key, ..] => {
                child(&format!("defaults.limits.{side}"), key)
            }
            _ => return path.to_owned(),
        };

        if !self.has(path) && self.has(&default) {
            default
        } else {
            path.to_owned()
        }
    }
}
