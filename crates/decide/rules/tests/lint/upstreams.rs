//! Checks of upstreams.

use serde_json::{Value, json};

use super::finds;

/// Asserts the findings after a change to the upstream.
#[track_caller]
fn finds_in(changes: Value, expected: &[&str]) {
    finds(json!({ "upstreams": { "next": changes } }), expected);
}

#[test]
fn upstream_without_endpoints() {
    finds_in(
        json!({ "endpoints": [] }),
        &[
            "upstreams.next.endpoints: the upstream has no endpoint; give one, such as `10.0.0.1:443`",
        ],
    );
}

#[test]
fn weights_out_of_range() {
    finds_in(
        json!({ "endpoints": [
            { "address": "a:1", "weight": 0 }, { "address": "b:1", "weight": 1001 }, { "address": "c:1", "weight": 1000 },
        ] }),
        &[
            "upstreams.next.endpoints[0].weight: 0 is not a weight; write one from 1 to 1000",
            "upstreams.next.endpoints[1].weight: 1001 is not a weight; write one from 1 to 1000",
        ],
    );
}

#[test]
fn names_in_certificates_without_tls() {
    finds_in(
        json!({ "endpoints": ["a:1", { "address": "b:1", "server_name": "b.example" }] }),
        &[
            "upstreams.next.endpoints[1].server_name: no certificate is asked for without TLS; add `tls`, or remove it",
        ],
    );
}

#[test]
fn http_version_listed_twice() {
    finds_in(
        json!({ "http": [2, 2] }),
        &["upstreams.next.http[1]: HTTP version 2 is listed twice; remove one"],
    );
    finds_in(
        json!({ "http": [] }),
        &[
            "upstreams.next.http: no HTTP version is left; remove `http` for the default, or give one",
        ],
    );
}

#[test]
fn two_http_versions_without_tls() {
    for tls in [Value::Null, json!(false)] {
        finds_in(
            json!({ "http": [1, 2], "tls": tls }),
            &[
                "upstreams.next.http: without TLS no version can be agreed on: only HTTP version 1 would be used; write `http: 1`, or add `tls`",
            ],
        );
        finds_in(json!({ "http": [2, 1], "tls": tls }), &[]);
    }
    for http in [[2, 1], [1, 2]] {
        finds_in(json!({ "http": http, "tls": true }), &[]);
        finds_in(json!({ "http": http, "tls": { "ca_file": "a" } }), &[]);
    }
    finds_in(json!({ "http": 2 }), &[]);
}

#[test]
fn half_of_a_client_certificate() {
    finds_in(
        json!({ "tls": { "cert_file": "c" } }),
        &["upstreams.next.tls.cert_file: the client certificate has no key; add `key_file`"],
    );
    finds_in(
        json!({ "tls": { "key_file": "k" } }),
        &["upstreams.next.tls.key_file: the key has no client certificate; add `cert_file`"],
    );
    finds_in(json!({ "tls": { "cert_file": "c", "key_file": "k" } }), &[]);
}

#[test]
fn timeouts_of_zero() {
    finds_in(
        json!({ "timeouts": { "idle": "0s" } }),
        &[
            "upstreams.next.timeouts.idle: a time-out of zero lets nothing happen; give a longer one, or remove it for the default",
        ],
    );
}

#[test]
fn no_congestion_control_over_tcp() {
    let found = [
        "upstreams.next.congestion: only QUIC goes without congestion control, and this upstream may be reached over TCP; set `http: 3`, or remove `congestion`",
    ];
    finds_in(json!({ "congestion": "off" }), &found);
    finds_in(
        json!({ "congestion": "off", "http": [3, 2], "tls": true }),
        &found,
    );
    finds_in(json!({ "congestion": "off", "http": 3, "tls": true }), &[]);
    finds_in(json!({ "congestion": "cubic", "http": 2 }), &[]);
    finds_in(
        json!({ "congestion": "bbr", "http": [3, 2], "tls": true }),
        &[],
    );
}

#[test]
fn several_paths_over_http3() {
    let found = [
        "upstreams.next.multipath: HTTP/3 does not go over TCP, whose connections alone may use several paths; let `http` have 2 or 1, or remove `multipath`",
    ];
    finds_in(json!({ "multipath": true, "http": 3, "tls": true }), &found);
    finds_in(
        json!({ "multipath": true, "http": [3, 2], "tls": true }),
        &[],
    );
}

#[test]
fn credentials_that_cannot_be_shown() {
    finds(
        json!({ "identity": { "user": "a", "token_file": "/t" }, "upstreams": { "next": {
            "endpoints": ["a:1"],
            "tls": true,
            "send_token": true,
            "credentials": { "user": "a:b", "password_file": "/p" },
            "fields": { "Authorization": "x", "host": "y", "x y": "z", "x-key": "a\u{7}b", "x-fine": { "file": "/k" } },
        } } }),
        &[
            "upstreams.next.credentials.user: this can be no user's name: it is empty, or has a colon or a control character; write the name alone, and the password in its file",
            "upstreams.next.send_token: a request shows either the node's token or `credentials`; remove one of the two",
            "upstreams.next.fields.Authorization: origins of this upstream are shown `credentials` in this field; remove one of the two",
            "upstreams.next.fields.host: `host` belongs to the connection or to the proxy and cannot be changed; remove it",
            "upstreams.next.fields[\"x y\"]: `x y` cannot be a field's name; write a name of letters, digits and `-`",
            "upstreams.next.fields.x-key: the value holds a control character; remove it",
        ],
    );
}

#[test]
fn ends_of_this_machine_that_cannot_be() {
    finds(
        json!({
            "upstreams": {
                "next": { "endpoints": ["a:1"], "local_address": ["10.0.0.7", "::ffff:10.0.0.8", "eth0", "0.0.0.0"], "interface": "a/b" },
                "behind": { "endpoints": ["b:1"], "via": "next", "local_address": "2001:db8::7" },
            },
            "routes": [{ "to": "behind" }],
            "egress": { "local_address": ["10.0.0.7", "2001:db8::7"], "interface": "an-interface-with-a-long-name" },
        }),
        &[
            "egress.interface: this can be no interface's name; write one such as eth0",
            "upstreams.next.local_address[1]: there is another one of this family; give one of IPv4 and one of IPv6",
            "upstreams.next.local_address[2]: `eth0` is not an IP address; write one such as 192.0.2.7, without a port",
            "upstreams.next.local_address[3]: 0.0.0.0 is not the address of a machine; write one of this machine",
            "upstreams.next.interface: this can be no interface's name; write one such as eth0",
            "upstreams.behind.local_address: no connection to these endpoints leaves from this machine by itself; write it at the upstream that `via` names, or remove it",
        ],
    );
}

#[test]
fn capitals_where_no_version_has_them() {
    finds_in(
        json!({ "http": [1, 2], "tls": true, "field_case": "preserve" }),
        &[],
    );
    finds_in(
        json!({ "http": 2, "field_case": "preserve" }),
        &[
            "upstreams.next.field_case: names of fields have small letters over HTTP/2 and HTTP/3 (RFC 9113, 8.2); set `http: 1`, or remove `field_case`",
        ],
    );
}

#[test]
fn a_proxy_of_socks_that_would_have_to_speak_http() {
    finds(
        json!({
            "routes": [{ "terminate": "office" }],
            "upstreams": { "office": { "endpoints": ["a:1080"], "socks": 5, "http": 2, "fields": { "x-a": "b" } } },
        }),
        &[
            "upstreams.office.http: this is of HTTP, which a proxy of SOCKS does not speak; remove it, or `socks`",
            "upstreams.office.fields: this is of HTTP, which a proxy of SOCKS does not speak; remove it, or `socks`",
            "routes[0].terminate: a proxy of SOCKS is no end of the overlay: it connects to the targets of tunnels; write `to`",
        ],
    );
}

#[test]
fn a_version_of_socks_that_does_not_fit_its_details() {
    let finds_with = |socks: Value, expected: &[&str]| {
        let document = json!({
            "routes": [{ "to": "office" }],
            "upstreams": { "office": { "endpoints": ["a:1080"], "socks": socks } },
        });
        finds(document, expected);
    };
    finds_with(
        json!({ "version": 6, "experimental": true, "fast_open": true }),
        &[],
    );
    finds_with(
        json!({ "version": 6, "fast_open": true }),
        &[
            "upstreams.office.socks: SOCKS6 is a draft that has expired: it may change, or go; write `{ version: 6, experimental: true }`, or 5",
        ],
    );
    finds_with(
        json!({ "version": 5, "experimental": true }),
        &["upstreams.office.socks.experimental: nothing here is experimental; write `socks: 5`"],
    );
    finds_with(
        json!({ "version": 5, "fast_open": true }),
        &[
            "upstreams.office.socks.fast_open: the first message of SOCKS5 says nothing that a round trip could be saved with; write `{ version: 6, experimental: true, fast_open: true }`, or `socks: 5`",
        ],
    );
}
