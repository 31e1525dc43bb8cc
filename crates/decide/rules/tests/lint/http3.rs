//! Checks of HTTP versions against TLS, UDP and proxies on the way.

use hermes_config::model::{Document, HttpVersion};
use serde_json::{Value, json};

use super::finds;

fn tls() -> Value {
    json!({ "cert_file": "a.pem", "key_file": "a.key" })
}

/// The versions of listener `web`, of a document with these listeners.
fn versions(listeners: Value) -> Vec<u8> {
    let document: Document =
        serde_json::from_value(json!({ "version": 1, "listeners": listeners })).unwrap();
    let spoken = hermes_rules::versions(&document, &document.listeners["web"]);
    spoken.into_iter().map(HttpVersion::number).collect()
}

#[test]
fn a_listener_speaks_http3_where_its_port_can_carry_it() {
    let web = |listener: Value| versions(json!({ "web": listener }));
    assert_eq!(web(json!({ "http": "[::1]:443" })), [1, 2]);
    assert_eq!(web(json!({ "http": "[::1]:443", "tls": tls() })), [1, 2, 3]);
    assert_eq!(
        web(json!({ "http": "[::1]:443", "tls": tls(), "versions": [3, 1] })),
        [1, 3]
    );
    assert_eq!(web(json!({ "http": "unix:a.sock", "tls": tls() })), [1, 2]);
    assert_eq!(
        web(json!({ "http": "[::1]:443", "tls": tls(), "proxy_protocol": "accept" })),
        [1, 2]
    );
    assert_eq!(
        web(json!({ "tcp": "[::1]:443", "target": "A:1" })),
        [] as [u8; 0]
    );
    let beside = |udp: &str| {
        versions(json!({
            "web": { "http": "0.0.0.0:443", "tls": tls() },
            "game": { "udp": udp, "target": "GAME:1" },
        }))
    };
    assert_eq!(
        (beside("127.0.0.1:443"), beside("127.0.0.1:444")),
        (vec![1, 2], vec![1, 2, 3])
    );
}

#[test]
fn versions_of_listeners() {
    let listener = |listener: Value, expected: &[&str]| {
        finds(json!({ "listeners": { "web": listener } }), expected)
    };
    listener(json!({ "tls": tls(), "versions": 3 }), &[]);
    listener(
        json!({ "versions": [1, 2] }),
        &[
            "listeners.web.versions: without TLS no version can be agreed on: the client sends HTTP/1.1 or HTTP/2 as it likes; remove `versions`, or add `tls`",
        ],
    );
    listener(
        json!({ "tls": tls(), "versions": [] }),
        &[
            "listeners.web.versions: no HTTP version is left; remove `versions` for the default, or give one",
        ],
    );
    listener(
        json!({ "tls": tls(), "versions": [3, 3] }),
        &["listeners.web.versions[1]: HTTP version 3 is listed twice; remove one"],
    );
    listener(
        json!({ "http": "unix:a.sock", "tls": tls(), "versions": [1, 3] }),
        &[
            "listeners.web.versions: HTTP/3 needs a UDP port, not a Unix socket; remove 3, or listen on an IP address",
        ],
    );
    listener(
        json!({ "tls": tls(), "versions": [1, 3], "proxy_protocol": "accept", "proxy_protocol_from": ["10.0.0.7/32"] }),
        &[
            "listeners.web.versions: HTTP/3 has no PROXY headers: its clients would not be introduced; remove 3, or make a listener of its own for HTTP/3",
        ],
    );
}

#[test]
fn http3_and_a_udp_listener_on_one_port() {
    finds(
        json!({ "listeners": {
            "web": { "tls": tls(), "versions": [2, 3] },
            "game": { "udp": "127.0.0.1:8080", "target": "GAME:1" },
        } }),
        &[
            "listeners.game.udp: listeners.web.versions listens on 127.0.0.1:8080 already; choose another address or port",
        ],
    );
    finds(
        json!({ "listeners": {
            "web": { "tls": tls(), "versions": 3 },
            "db": { "tcp": "127.0.0.1:8080", "target": "DB:1" },
        } }),
        &[],
    );
}

#[test]
fn early_data() {
    let listener = |listener: Value, expected: &[&str]| {
        finds(json!({ "listeners": { "web": listener } }), expected)
    };
    let early = |ca: Value| json!({ "cert_file": "a.pem", "key_file": "a.key", "client_ca_file": ca, "early_data": true });
    listener(json!({ "tls": early(Value::Null) }), &[]);
    listener(
        json!({ "tls": early(json!("ca.pem")) }),
        &[
            "listeners.web.tls.early_data: early data comes before a client has shown its certificate; remove `early_data`, or `client_ca_file`",
        ],
    );
    listener(
        json!({ "tls": early(Value::Null), "versions": [1, 2] }),
        &[
            "listeners.web.tls.early_data: early data is taken over HTTP/3 only, which the listener does not speak; add 3 to `versions`, or remove `early_data`",
        ],
    );
}

#[test]
fn early_data_to_an_upstream() {
    let upstream =
        |next: Value, expected: &[&str]| finds(json!({ "upstreams": { "next": next } }), expected);
    upstream(json!({ "http": 3, "tls": true, "early_data": true }), &[]);
    let elsewhere = "upstreams.next.early_data: early data is sent over HTTP/3 only, without a fallback to another version; set `http: 3`, or remove `early_data`";
    upstream(
        json!({ "http": [3, 2], "tls": true, "early_data": true }),
        &[elsewhere],
    );
    upstream(json!({ "tls": true, "early_data": true }), &[elsewhere]);
    finds(
        json!({
            "identity": { "user": "alice" },
            "listeners": { "reach": { "attach": "next" } },
            "upstreams": { "next": { "http": 3, "tls": true, "early_data": true } },
        }),
        &[
            "upstreams.next.early_data: a listener attaches to it, and `early_data` cannot be used with `attach`; remove `early_data`, or attach to an upstream of its own",
        ],
    );
}

#[test]
fn upstreams_over_http3() {
    let upstream =
        |next: Value, expected: &[&str]| finds(json!({ "upstreams": { "next": next } }), expected);
    upstream(json!({ "http": [3, 2, 1], "tls": true }), &[]);
    upstream(json!({ "http": 3, "tls": true, "warm": 1 }), &[]);
    upstream(
        json!({ "http": 3 }),
        &[
            "upstreams.next.http: HTTP/3 is always encrypted, and this upstream has no TLS; add `tls`, or remove 3",
        ],
    );
    upstream(
        json!({ "http": [3, 1], "tls": true, "proxy_protocol": 2 }),
        &["upstreams.next.http: HTTP/3 has no PROXY headers; remove 3, or remove `proxy_protocol`"],
    );
    upstream(
        json!({ "http": [3, 1], "tls": true, "endpoints": ["unix:a.sock"] }),
        &[
            "upstreams.next.http: HTTP/3 does not reach a Unix socket; remove 3, or make an upstream of the other endpoints",
        ],
    );
    finds(
        json!({ "upstreams": {
            "next": { "http": [3, 1], "tls": true, "via": "office" },
            "office": { "endpoints": ["10.0.0.1:3128"] },
        } }),
        &[],
    );
}
