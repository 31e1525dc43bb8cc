//! Checks of balance, health and limits.

use serde_json::{Value, json};

use super::finds;

/// Asserts the findings after a change to the upstream.
#[track_caller]
fn finds_in(changes: Value, expected: &[&str]) {
    finds(json!({ "upstreams": { "next": changes } }), expected);
}

#[test]
fn a_hash_is_clear_and_used() {
    finds_in(
        json!({ "balance": "ring_hash", "hash": { "user": true } }),
        &[],
    );
    finds_in(
        json!({ "balance": "ring_hash", "hash": { "field": "x-session" } }),
        &[],
    );
    finds_in(
        json!({ "balance": "ring_hash" }),
        &[
            "upstreams.next.hash: `balance: ring_hash` has nothing to go by; add `hash`, such as `hash: { user: true }`",
        ],
    );
    finds_in(
        json!({ "hash": { "user": true } }),
        &[
            "upstreams.next.hash: only `balance: ring_hash` goes by it; write `balance: ring_hash`, or remove `hash`",
        ],
    );
    for hash in [
        json!({}),
        json!({ "user": true, "source": true }),
        json!({ "user": false }),
    ] {
        finds_in(
            json!({ "balance": "ring_hash", "hash": hash }),
            &[
                "upstreams.next.hash: the key of the hash is not clear; write exactly one of `field`, `cookie`, `source: true` and `user: true`",
            ],
        );
    }
    finds_in(
        json!({ "balance": "ring_hash", "hash": { "field": "x session" } }),
        &["upstreams.next.hash.field: `x session` is not a name; write a token (RFC 9110)"],
    );
}

#[test]
fn a_check_has_the_keys_of_its_kind() {
    finds_in(
        json!({ "health": { "kind": "http", "path": "/healthz", "expect": ["200-299"] } }),
        &[],
    );
    finds_in(json!({ "health": { "kind": "udp", "send": "ping" } }), &[]);
    finds_in(
        json!({ "health": { "kind": "tcp", "path": "/", "send": "x" } }),
        &[
            "upstreams.next.health.path: only checks of `kind: http` have it; remove it, or write `kind: http`",
            "upstreams.next.health.send: only checks of `kind: udp` have it; remove it, or write `kind: udp`",
        ],
    );
    finds_in(
        json!({ "health": { "kind": "http", "path": "x", "expect": [] } }),
        &[
            "upstreams.next.health.path: `x` is not a path; begin it with `/`",
            "upstreams.next.health.expect: no status is healthy; remove it for the default, or give one",
        ],
    );
    finds_in(
        json!({ "endpoints": ["unix:/s"], "health": { "kind": "udp" } }),
        &[
            "upstreams.next.health.kind: UDP reaches neither a Unix socket nor an endpoint behind `via`; write `kind: tcp` or `kind: http`",
        ],
    );
}

#[test]
fn numbers_of_zero() {
    finds_in(
        json!({ "health": { "kind": "tcp", "interval": "0s", "timeout": "0s", "healthy": 0, "unhealthy": 0 } }),
        &[
            "upstreams.next.health.interval: zero leaves no time for a check; give a longer one, or remove it for the default",
            "upstreams.next.health.timeout: zero leaves no time for a check; give a longer one, or remove it for the default",
            "upstreams.next.health.healthy: no check would be needed; write 1 or more",
            "upstreams.next.health.unhealthy: no check would be needed; write 1 or more",
        ],
    );
    finds_in(
        json!({ "eject": { "consecutive": 0, "for": "0s" } }),
        &[
            "upstreams.next.eject.consecutive: no failure would be needed; write 1 or more",
            "upstreams.next.eject.for: zero ejects nothing; give a longer time, or remove `eject`",
        ],
    );
    finds_in(
        json!({ "limits": { "connections": 0, "streams": 0, "pending": 0 } }),
        &[
            "upstreams.next.limits.connections: a limit of zero lets nothing through; write 1 or more",
            "upstreams.next.limits.streams: a limit of zero lets nothing through; write 1 or more",
        ],
    );
}

#[test]
fn only_links_are_kept() {
    finds_in(json!({ "http": 2, "warm": 1, "keepalive": {} }), &[]);
    finds_in(json!({ "tls": true, "warm": 1, "keepalive": {} }), &[]);
    finds_in(
        json!({ "warm": 1, "keepalive": { "every": "0s" } }),
        &[
            "upstreams.next.warm: only HTTP/2 and HTTP/3 have links that are kept; write `http: 2`, or remove `warm`",
            "upstreams.next.keepalive: PINGs are sent on links of HTTP/2; QUIC keeps those of HTTP/3 alive by itself; add 2 to `http`, or remove `keepalive`",
            "upstreams.next.keepalive.every: zero leaves no time for an answer; give a longer one, or remove it for the default",
        ],
    );
}
