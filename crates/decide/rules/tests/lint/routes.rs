//! Checks of routes.

use serde_json::{Value, json};

use super::finds;

/// Asserts the findings when these are the routes.
#[track_caller]
fn finds_in(routes: Value, expected: &[&str]) {
    finds(json!({ "routes": routes }), expected);
}

#[test]
fn route_without_action() {
    finds_in(
        json!([{}]),
        &[
            "routes[0]: the route does nothing; give one of `to`, `terminate`, `attach`, `respond`, `redirect` and `handle`",
        ],
    );
}

#[test]
fn route_with_several_actions() {
    finds_in(
        json!([{ "to": "next", "terminate": true, "respond": { "status": 200 } }]),
        &[
            "routes[0].terminate: the route has several actions: to, terminate, respond; keep one of them",
        ],
    );
}

#[test]
fn terminate_false() {
    finds_in(
        json!([{ "terminate": false }]),
        &[
            "routes[0].terminate: `terminate: false` is not an action; write `true`, the name of an upstream, an address, or another action",
        ],
    );
}

#[test]
fn upstreams_that_are_not_defined() {
    finds_in(
        json!([{ "match": { "port": 1 }, "to": "nxet" }]),
        &["routes[0].to: there is no upstream `nxet`; did you mean `next`?"],
    );
    finds_in(
        json!([{ "to": { "next": 1, "elsewhere": 1 } }]),
        &["routes[0].to.elsewhere: there is no upstream `elsewhere`; upstreams are: next"],
    );
    finds(
        json!({ "routes": [{ "terminate": "origin" }], "upstreams": null }),
        &["routes[0].terminate: there is no upstream `origin`; define it under `upstreams`"],
    );
}

#[test]
fn weights_that_are_all_zero() {
    for split in [json!({ "next": 0 }), json!({})] {
        finds_in(
            json!([{ "to": split }]),
            &[
                "routes[0].to: no upstream of the split has a weight above zero; give at least one of them a weight",
            ],
        );
    }
}

#[test]
fn status_of_a_response() {
    for status in [101, 199, 600, 0] {
        finds_in(
            json!([{ "respond": { "status": status } }]),
            &[&format!(
                "routes[0].respond.status: {status} is not the status of a final response; write one from 200 to 599"
            )],
        );
    }
    finds_in(json!([{ "respond": { "status": 599 } }]), &[]);
}

#[test]
fn status_of_a_redirect() {
    for status in [200, 300, 304, 305, 306] {
        finds_in(
            json!([{ "redirect": { "location": "https://{target.host}{path}", "status": status } }]),
            &[&format!(
                "routes[0].redirect.status: {status} is not the status of a redirect; write 301, 302, 303, 307 or 308"
            )],
        );
    }
    finds_in(json!([{ "redirect": { "location": "/" } }]), &[]);
}

#[test]
fn name_given_twice() {
    finds_in(
        json!([
            { "name": "a", "match": { "port": 1 }, "to": "next" },
            { "match": { "port": 2 }, "to": "next" },
            { "name": "a", "to": "next" },
        ]),
        &["routes[2].name: routes[0] has the name `a` already; give each route a name of its own"],
    );
}

#[test]
fn exposed_field_that_is_not_declared() {
    finds_in(
        json!([{ "terminate": true, "expose": ["colour", "user"] }]),
        &[
            "routes[0].expose[0]: `colour` has no effect: it is not an overlay field, and other fields pass anyway; remove it, or declare it in `fields`",
        ],
    );
}

#[test]
fn route_that_can_never_match() {
    finds_in(
        json!([
            { "match": { "port": 80 }, "to": "next" },
            { "name": "all", "match": { "target": "*.example.com" }, "to": "next" },
            { "match": { "target": ["a.example.com", "b.example.com:80"] }, "to": "next" },
            { "match": { "target": "VIDEO:80" }, "to": "next" },
        ]),
        &[
            "routes[2]: the route can never match: routes[1] (all) takes everything that it would; move it before routes[1], or remove it",
            "routes[3]: the route can never match: routes[0] takes everything that it would; move it before routes[0], or remove it",
        ],
    );
}

#[test]
fn timeouts_of_zero() {
    for key in ["connect", "header", "idle", "udp"] {
        finds_in(
            json!([{ "to": "next", "timeouts": { key: "0ms" } }]),
            &[&format!(
                "routes[0].timeouts.{key}: a time-out of zero lets nothing happen; give a longer one, or remove it for the default"
            )],
        );
    }
}
