//! Checks of attachments.

use serde_json::{Value, json};

use super::finds;

/// Asserts the findings about one more listener that attaches, on a node of Alice's.
#[track_caller]
fn finds_of(listener: Value, expected: &[&str]) {
    finds(
        json!({ "identity": { "user": "alice" }, "listeners": { "reach": listener } }),
        expected,
    );
}

#[test]
fn attachments_that_hold() {
    finds_of(json!({ "attach": "next" }), &[]);
    finds_of(
        json!({ "attach": { "to": "next", "as": "printer-7", "connections": 1 }, "insecure_trust": ["10.0.0.0/8"] }),
        &[],
    );
    finds(
        json!({
            "routes": [{ "match": { "protocol": "ptth" }, "attach": true }, { "to": "users" }],
            "upstreams": { "users": { "attached": "{target.host}", "limits": { "streams": 9 }, "tls": false } },
        }),
        &[],
    );
}

#[test]
fn attached_to_nothing() {
    finds_of(
        json!({ "attach": "nxt" }),
        &["listeners.reach.attach: there is no upstream `nxt`; did you mean `next`?"],
    );
    finds(
        json!({
            "identity": { "user": "alice" },
            "listeners": { "reach": { "attach": { "to": "users" } } },
            "upstreams": { "users": { "attached": "bob" } },
        }),
        &[
            "listeners.reach.attach.to: upstream `users` is for users attached here: it cannot be attached to; name an upstream with `endpoints`",
        ],
    );
}

#[test]
fn attached_as_no_one() {
    finds(
        json!({ "listeners": { "reach": { "attach": "next" } } }),
        &[
            "listeners.reach.attach: the listener does not say under which name it attaches; write `{ to: UPSTREAM, as: NAME }`, or give the node an `identity`",
        ],
    );
    for name in ["Alice", "", "a b", "ä"] {
        let expected = format!(
            "listeners.reach.attach.as: attaching as `{name}` is not possible; write 1 to 256 visible characters of ASCII, without capitals"
        );
        finds_of(
            json!({ "attach": { "to": "next", "as": name } }),
            &[&expected],
        );
    }
    for (name, host) in [("alice.", "alice"), ("::ffff:192.0.2.1", "192.0.2.1")] {
        let expected = format!(
            "listeners.reach.attach.as: attaching as `{name}` is not possible: targets of that name are compared as `{host}`; write `{host}`, here \
             and wherever that user is named"
        );
        finds_of(
            json!({ "attach": { "to": "next", "as": name } }),
            &[&expected],
        );
    }
    finds_of(
        json!({ "attach": { "to": "next", "connections": 17 } }),
        &[
            "listeners.reach.attach.connections: 17 is not a number of attachments; write one from 1 to 16",
        ],
    );
}

#[test]
fn keys_that_say_nothing_where_one_attaches() {
    finds_of(
        json!({ "attach": "next", "public": true, "user": "bob" }),
        &[
            "listeners.reach.user: `user` says nothing where one attaches: incoming exchanges belong to the users that a peer speaks for; remove it",
            "listeners.reach.public: `public` says nothing where one attaches: no stranger can reach it; remove it",
        ],
    );
}

#[test]
fn routes_that_would_take_what_does_not_ask() {
    let route = |route: Value| json!({ "routes": [route, { "to": "next" }] });
    finds(
        route(json!({ "match": { "protocol": ["ptth", "websocket"] }, "attach": true })),
        &[
            "routes[0].attach: a route with `attach` would take requests that do not ask for it; add `match: { protocol: ptth }`",
        ],
    );
    finds(
        route(json!({ "match": { "protocol": "ptth" }, "attach": false })),
        &[
            "routes[0].attach: `attach: false` is not an action; write `true`, names, or another action",
        ],
    );
    finds(
        route(json!({ "match": { "protocol": "ptth" }, "attach": ["door", "Printer"] })),
        &[
            "routes[0].attach: attaching as `Printer` is not possible; write 1 to 256 visible characters of ASCII, without capitals",
        ],
    );
}

#[test]
fn names_that_no_target_has() {
    let said = "attaching as `door.` is not possible: targets of that name are compared as `door`; write `door`, here and wherever that user is named";
    finds(
        json!({
            "routes": [{ "match": { "protocol": "ptth" }, "attach": ["door."] }, { "to": "next" }],
            "upstreams": { "users": { "attached": "door." } },
        }),
        &[
            &format!("routes[0].attach: {said}"),
            &format!("upstreams.users.attached: {said}"),
        ],
    );
}

#[test]
fn keys_of_endpoints_where_nodes_are_attached() {
    finds(
        json!({ "upstreams": { "users": { "attached": "Bob", "tls": true, "warm": 1 } } }),
        &[
            "upstreams.users.tls: `tls` says nothing of nodes that are attached here: they open the connections; remove it, or remove `attached`",
            "upstreams.users.warm: `warm` says nothing of nodes that are attached here: they open the connections; remove it, or remove `attached`",
            "upstreams.users.attached: attaching under a name with capitals is not possible; write it without capitals",
        ],
    );
}

#[test]
fn tunnels_that_would_end_at_attached_nodes() {
    finds(
        json!({ "routes": [{ "terminate": "users" }], "upstreams": { "users": { "attached": "bob" } } }),
        &[
            "routes[0].terminate: the overlay does not end at `users`: attached nodes are proxies; write `to: users`",
        ],
    );
    finds(
        json!({ "upstreams": { "users": { "attached": "bob" }, "next": { "via": "users" } } }),
        &[
            "upstreams.next.via: nodes that are attached are reached for an exchange, not for a connection; name an upstream with `endpoints`",
        ],
    );
}
