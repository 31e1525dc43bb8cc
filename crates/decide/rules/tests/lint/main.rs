//! The findings of each check, word for word.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod acme;
mod attach;
mod authorize;
mod bind;
mod broadcast;
mod chains;
mod changes;
mod custody;
mod decision_log;
mod direct;
mod edges;
mod fitness;
mod http3;
mod links;
mod listeners;
mod matches;
mod node;
mod peers;
mod policy;
mod ports;
mod retries;
mod routes;
mod split_dns;
mod templates;
mod trace;
mod tun;
mod upstreams;
mod wireguard;

use hermes_config::Problem;
use hermes_config::model::Document;
use hermes_rules::lint;
use serde_json::{Value, json};

/// Findings, as `path: reason; remedy`, of a sound document that was changed: maps are merged, `null` removes, anything else replaces.
fn findings(changes: Value) -> Vec<String> {
    let mut document = json!({
        "version": 1,
        "node": "laptop",
        "listeners": { "web": { "http": "127.0.0.1:8080" } },
        "routes": [{ "to": "next" }],
        "upstreams": { "next": { "endpoints": ["10.0.0.1:443"] } },
    });
    merge(&mut document, changes);
    let document: Document = serde_json::from_value(document).unwrap();
    let words = |problem: Problem| {
        let Problem {
            path,
            reason,
            remedy,
            ..
        } = problem;
        format!("{path}: {reason}; {}", remedy.unwrap_or_default())
    };
    lint(&document).into_iter().map(words).collect()
}

fn merge(into: &mut Value, changes: Value) {
    let (Value::Object(map), Value::Object(changes)) = (&mut *into, &changes) else {
        *into = changes;
        return;
    };
    for (key, change) in changes {
        if change.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key).or_insert(Value::Null), change.clone());
        }
    }
}

/// Asserts that a change of the sound document is found so, and nothing else.
#[track_caller]
fn finds(changes: Value, expected: &[&str]) {
    assert_eq!(findings(changes), expected);
}

#[test]
fn nothing_is_found_in_a_sound_document() {
    finds(json!({}), &[]);
}

#[test]
fn everything_is_found_at_once() {
    let found = findings(json!({
        "node": "a b",
        "listeners": { "web": { "accepts": ["colour"] } },
        "routes": [{ "to": "nex" }, {}],
        "upstreams": { "next": { "endpoints": [] } },
    }));
    let paths: Vec<&str> = found
        .iter()
        .filter_map(|line| line.split(": ").next())
        .collect();
    let expected = [
        "node",
        "listeners.web.accepts[0]",
        "routes[1]",
        "routes[0].to",
        "routes[1]",
        "upstreams.next.endpoints",
    ];
    assert_eq!(paths, expected);
}
