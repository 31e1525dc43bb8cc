//! Checks of the links between upstreams.

use serde_json::{Value, json};

use super::finds;

/// Asserts the findings with these upstreams besides.
#[track_caller]
fn finds_in(upstreams: Value, expected: &[&str]) {
    finds(json!({ "upstreams": upstreams }), expected);
}

#[test]
fn via_that_is_not_defined() {
    finds_in(
        json!({ "egres": { "endpoints": ["a:1"] }, "next": { "via": "egress" } }),
        &["upstreams.next.via: there is no upstream `egress`; did you mean `egres`?"],
    );
}

#[test]
fn via_in_a_circle() {
    finds_in(
        json!({
            "next": { "via": "a" },
            "a": { "endpoints": ["a:1"], "via": "b" },
            "b": { "endpoints": ["b:1"], "via": "a" },
        }),
        &["upstreams.a.via: `via` goes in a circle: a -> b -> a; remove one `via` of the circle"],
    );
    finds_in(
        json!({ "next": { "via": "next" } }),
        &[
            "upstreams.next.via: `via` goes in a circle: next -> next; remove one `via` of the circle",
        ],
    );
}

#[test]
fn via_to_a_unix_socket() {
    finds_in(
        json!({ "next": { "via": "a", "endpoints": ["b:1", "unix:/b"] }, "a": { "endpoints": ["unix:/a"] } }),
        &[
            "upstreams.next.endpoints[1]: a Unix socket cannot be reached through another proxy; remove `via`, or write a host and a port",
        ],
    );
}

#[test]
fn via_to_a_link_of_this_machine() {
    finds_in(
        json!({ "next": { "via": "a", "endpoints": ["[fe80::1%eth0]:1"] }, "a": { "endpoints": ["[fe80::1%eth0]:1"] } }),
        &[
            "upstreams.next.endpoints[0]: `eth0` is an interface of this machine, and the endpoint is reached through another proxy; remove `via`, or write an address that is not link-local",
        ],
    );
}

#[test]
fn token_that_is_not_there() {
    finds_in(
        json!({ "next": { "send_token": true, "tls": true } }),
        &[
            "upstreams.next.send_token: there is no token to send; add `identity.token_file`, or remove `send_token`",
        ],
    );
}

#[test]
fn token_over_a_clear_link() {
    let with = |upstream: Value| json!({ "identity": { "user": "alice", "token_file": "t" }, "upstreams": { "next": upstream } });
    let found = "upstreams.next.send_token: the node's token would be sent over a clear link, where others can read it; add `tls`, or remove `send_token`";
    finds(with(json!({ "send_token": true })), &[found]);
    finds(
        with(json!({ "send_token": true, "endpoints": ["127.0.0.1:1", "proxy:1"] })),
        &[found],
    );
    finds(with(json!({ "send_token": true, "tls": true })), &[]);
    finds(with(json!({ "send_token": false })), &[]);
    finds(with(json!({})), &[]);
    finds(
        with(
            json!({ "send_token": true, "endpoints": ["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/a"] }),
        ),
        &[],
    );
}
