//! Checks of broadcasts.

use serde_json::{Value, json};

use super::finds;

/// The sound document with a route that broadcasts like this.
fn broadcast(rule: Value) -> Value {
    json!({ "routes": [{ "to": "next", "broadcast": rule }] })
}

#[test]
fn a_sound_broadcast_is_not_reported() {
    finds(
        broadcast(json!({ "users": ["*"], "reply": { "quorum": 2 }, "upstreams": "next" })),
        &[],
    );
}

#[test]
fn senders_and_upstreams_that_there_are_not() {
    finds(
        broadcast(json!({})),
        &[
            "routes[0].broadcast: no one may broadcast; name `users` or `peers`, such as users: [\"*\"]",
        ],
    );
    finds(
        broadcast(json!({ "peers": ["dp"], "upstreams": ["nex"] })),
        &[
            "routes[0].broadcast.peers[0]: there is no peer `dp`; define it under `peers`",
            "routes[0].broadcast.upstreams[0]: there is no upstream `nex`; did you mean `next`?",
        ],
    );
}

#[test]
fn routes_that_cannot_broadcast() {
    let rule = json!({ "users": ["*"] });
    finds(
        json!({ "routes": [{ "respond": { "status": 200 }, "broadcast": rule }] }),
        &[
            "routes[0].broadcast: the route sends nothing on; remove it, or give the route `to` or `terminate`",
        ],
    );
    finds(
        json!({ "routes": [{ "terminate": true, "broadcast": rule }] }),
        &[
            "routes[0].broadcast: the route names no endpoints; name the `upstreams` that get the copies",
        ],
    );
    finds(
        json!({ "fields": ["user"], "routes": [{ "to": "next", "broadcast": rule }] }),
        &[
            "routes[0].broadcast: `x-hermes-broadcast` is not an overlay field, so every client could ask for copies; add x-hermes-* to `fields`",
        ],
    );
}

#[test]
fn bounds_that_cannot_be_kept() {
    let rule = json!({
        "users": ["*"], "copies": 300, "reply": { "quorum": 301 }, "request_bytes": "65MiB", "reply_bytes": "1GiB", "time": "0s",
    });
    finds(
        broadcast(rule),
        &[
            "routes[0].broadcast.reply: 301 of at most 300 copies can never succeed; write a smaller quorum, or more `copies`",
            "routes[0].broadcast.copies: too many copies; write at most 256",
            "routes[0].broadcast.request_bytes: the store `memory` keeps no more of one user; write at most 16MiB, or name another `store`",
            "routes[0].broadcast.reply_bytes: all of it is kept in memory; write at most 64MiB",
            "routes[0].broadcast.time: the time cannot be kept; write a time up to 1h",
        ],
    );
}
