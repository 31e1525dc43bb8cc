//! Checks of the conditions of routes.

use serde_json::{Value, json};

use super::finds;

/// Asserts the findings in a route's conditions.
#[track_caller]
fn finds_in(matches: Value, expected: &[&str]) {
    finds(
        json!({ "routes": [{ "match": matches, "to": "next" }] }),
        expected,
    );
}

#[test]
fn listener_that_is_not_defined() {
    finds_in(
        json!({ "listener": ["web", "wbe"] }),
        &["routes[0].match.listener[1]: there is no listener `wbe`; did you mean `web`?"],
    );
}

#[test]
fn methods_that_cannot_match() {
    finds_in(
        json!({ "method": ["GET", "get", "a b", ""] }),
        &[
            "routes[0].match.method[1]: method `get` would not match: methods are in capitals; write GET",
            "routes[0].match.method[2]: `a b` cannot be a method; write one such as GET or CONNECT",
            "routes[0].match.method[3]: `` cannot be a method; write one such as GET or CONNECT",
        ],
    );
}

#[test]
fn names_that_no_field_has() {
    finds_in(
        json!({ "fields": { "Service": "db", ":path": true, "a b": true } }),
        &[
            "routes[0].match.fields.:path: `:path` cannot be a field's name; match `method`, `path`, `authority` or `protocol` instead",
            "routes[0].match.fields[\"a b\"]: `a b` cannot be a field's name; write a name of letters, digits and `-`",
        ],
    );
}

#[test]
fn paths_that_are_always_refused() {
    finds_in(
        json!({ "path": ["/a/../b", "/%2e/*", "/a.b"] }),
        &[
            "routes[0].match.path[0]: `/a/../b` never matches: dot segments are resolved before, or refused; write the path without `.` and `..`",
            "routes[0].match.path[1]: `/%2e/*` never matches: dot segments are resolved before, or refused; write the path without `.` and `..`",
        ],
    );
}

#[test]
fn lists_that_match_nothing() {
    for key in [
        "target",
        "port",
        "authority",
        "path",
        "method",
        "protocol",
        "user",
        "source",
        "listener",
    ] {
        finds_in(
            json!({ key: [] }),
            &[&format!(
                "routes[0].match.{key}: an empty list matches nothing; remove it to match anything"
            )],
        );
    }
}
