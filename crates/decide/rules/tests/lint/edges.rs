//! Findings of PROXY headers, POST tunnels and proxy.pac.

use serde_json::{Value, json};

use super::finds;

#[test]
fn proxy_headers_need_to_come_from_somewhere() {
    finds(
        json!({ "listeners": { "web": { "proxy_protocol": "accept", "proxy_protocol_from": ["10.0.0.7/32"] } } }),
        &[],
    );
    finds(
        json!({ "listeners": { "web": { "proxy_protocol": "accept", "http": "unix:web.sock" } } }),
        &[],
    );
    finds(
        json!({ "listeners": { "web": { "proxy_protocol": "accept" } } }),
        &[
            "listeners.web.proxy_protocol: no client can connect: there is no prefix from which PROXY headers are accepted; \
           name your load balancers in `proxy_protocol_from: [10.0.0.7/32]`",
        ],
    );
    finds(
        json!({ "listeners": { "web": { "proxy_protocol_from": ["10.0.0.7/32"] } } }),
        &[
            "listeners.web.proxy_protocol_from: `proxy_protocol_from` does nothing: no PROXY header is read here; \
           add `proxy_protocol: accept`, or remove it",
        ],
    );
}

#[test]
fn a_tunnel_has_a_path_and_goes_somewhere() {
    finds(
        json!({ "routes": [{ "to": "next", "tunnel": "post" }] }),
        &[],
    );
    finds(
        json!({ "routes": [{ "terminate": true, "tunnel": { "post": "/tunnel?x" } }] }),
        &[],
    );
    finds(
        json!({ "routes": [{ "to": "next", "tunnel": "connect-tcp" }] }),
        &[],
    );
    finds(
        json!({ "routes": [{ "terminate": true, "tunnel": "connect-tcp" }] }),
        &[
            "routes[0].tunnel: the form of a tunnel that leaves is of no use where it ends; \
           remove it: every form is taken here",
        ],
    );
    finds(
        json!({ "routes": [{ "to": "next", "tunnel": { "post": "tunnel" } }] }),
        &["routes[0].tunnel.post: `tunnel` is not a path; write one such as `/tunnel`"],
    );
    finds(
        json!({ "routes": [{ "respond": { "status": 404 }, "tunnel": "post" }] }),
        &[
            "routes[0].tunnel: `tunnel` is for routes that carry one; remove it, or give `to` or `terminate`",
        ],
    );
}

#[test]
fn tunnels_are_resumed_where_they_leave_unchanged() {
    let route = |route: Value| json!({ "routes": [route] });
    finds(
        route(json!({ "to": "next", "tunnel": { "resume": true } })),
        &[],
    );
    finds(
        route(
            json!({ "to": "next", "tunnel": { "form": "connect-tcp", "resume": { "window": "64KiB", "keep_for": "1h" } } }),
        ),
        &[],
    );
    finds(
        route(json!({ "to": "next", "tunnel": { "resume": { "window": "1KiB" } } })),
        &[
            "routes[0].tunnel.resume.window: with so small a window the two ends could wait for each other; write at least 64KiB",
        ],
    );
    finds(
        route(json!({ "terminate": true, "tunnel": { "resume": true } })),
        &[
            "routes[0].tunnel.resume: tunnels that end here are resumed without being asked for it; \
             remove it; it is for routes with `to`",
        ],
    );
    finds(
        route(json!({ "to": "next", "through": ["compress"], "tunnel": { "resume": true } })),
        &[
            "routes[0].tunnel.resume: tunnels whose bytes are changed on their way cannot be resumed; remove it, or `through`",
        ],
    );
    finds(
        route(json!({ "terminate": true, "tunnel": { "resume": false } })),
        &[],
    );
}

#[test]
fn clients_that_share_the_fate_of_the_target_hear_of_no_success_before() {
    let file = |answer: &str| {
        json!({
            "listeners": { "db": { "tcp": "127.0.0.1:0", "ingress": "fate" } },
            "routes": [{ "match": { "listener": "db" }, "to": "next", "tunnel": { "answer": answer } }],
        })
    };
    finds(file("opened"), &[]);
    finds(
        file("early"),
        &[
            "routes[0].tunnel.answer: clients of listener `db` share the fate of the target, which an early answer hides; \
             remove it, or the listener from `match`",
        ],
    );
}

#[test]
fn what_carries_no_tunnel_changes_no_bytes() {
    finds(
        json!({ "routes": [{ "respond": { "status": 204 }, "through": ["compress"] }] }),
        &[
            "routes[0].through: `through` is for routes that carry tunnels; remove it, or give `to` or `terminate`",
        ],
    );
}

#[test]
fn a_field_with_addresses_counts_from_proxies_that_are_named() {
    let finds = |listener: Value, expected: &[&str]| {
        finds(json!({ "listeners": { "web": listener } }), expected);
    };
    finds(
        json!({ "client_address": { "field": "X-Forwarded-For", "from": ["10.0.0.7/32"] } }),
        &[],
    );
    finds(
        json!({ "http": "unix:web.sock", "client_address": { "field": "forwarded" } }),
        &[],
    );
    finds(
        json!({ "client_address": { "field": "forwarded" } }),
        &[
            "listeners.web.client_address: the field counts from no one: no proxy is named that writes it; \
           name your proxies in `from: [10.0.0.7/32]`",
        ],
    );
    finds(
        json!({ "insecure_trust": ["10.0.0.0/8"], "client_address": { "field": "host", "from": ["::/0"] } }),
        &[
            "listeners.web.client_address.field: `host` belongs to the connection or to the proxy and cannot be changed; remove it",
            "listeners.web.client_address.from[0]: everyone could claim any address; name your proxies alone",
            "listeners.web.client_address: an address in a field cannot be one that `insecure_trust` trusts about every user; \
             remove one of the two",
        ],
    );
}

#[test]
fn alt_svc_is_for_gateways_that_speak_http3() {
    let reason = "listeners.web.alt_svc: only a `gateway` that speaks HTTP/3 says so in `Alt-Svc`; remove it";
    for (listener, found) in [
        (json!({ "gateway": true, "alt_svc": 443 }), true),
        (
            json!({ "tls": { "cert_file": "/c", "key_file": "/k" }, "alt_svc": false }),
            true,
        ),
        (
            json!({ "gateway": true, "tls": { "cert_file": "/c", "key_file": "/k" }, "alt_svc": 443 }),
            false,
        ),
    ] {
        let expected: &[&str] = if found { &[reason] } else { &[] };
        finds(json!({ "listeners": { "web": listener } }), expected);
    }
}
