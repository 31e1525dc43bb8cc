//! Checks of listeners.

use serde_json::{Value, json};

use super::{findings, finds};

/// Asserts the findings in one more listener.
#[track_caller]
fn finds_in(listener: Value, expected: &[&str]) {
    finds(json!({ "listeners": { "more": listener } }), expected);
}

const STRANGERS: &str = "and no authentication is configured";

#[test]
fn port_without_target() {
    for kind in ["tcp", "udp"] {
        finds_in(
            json!({ kind: "127.0.0.1:1" }),
            &[
                "listeners.more: the listener does not say what its exchanges are for; add `target: HOST:PORT`",
            ],
        );
    }
}

#[test]
fn several_paths_where_no_client_connects() {
    for listener in [
        json!({ "udp": "127.0.0.1:1", "target": "a:1", "multipath": true }),
        json!({ "http": "unix:/tmp/a", "multipath": true }),
    ] {
        finds_in(
            listener,
            &[
                "listeners.more.multipath: no client connects here by TCP; remove it, or give an IP address to `http`, `tcp` or `socks`",
            ],
        );
    }
    finds_in(json!({ "socks": "127.0.0.1:1", "multipath": true }), &[]);
}

#[test]
fn congestion_control_where_no_client_connects() {
    for listener in [
        json!({ "udp": "127.0.0.1:1", "target": "a:1", "congestion": "bbr" }),
        json!({ "http": "unix:/tmp/a", "congestion": "cubic" }),
    ] {
        finds_in(
            listener,
            &[
                "listeners.more.congestion: no client connects here by TCP or QUIC; remove it, or give an IP address to `http`, `tcp` or `socks`",
            ],
        );
    }
    finds_in(json!({ "socks": "127.0.0.1:1", "congestion": "bbr" }), &[]);
    finds_in(json!({ "http": "127.0.0.1:1", "congestion": "bbr" }), &[]);
}

#[test]
fn udp_on_a_unix_socket() {
    finds_in(
        json!({ "udp": "unix:/tmp/a", "target": "a:1" }),
        &["listeners.more.udp: a Unix socket is not a UDP port; write an IP address and a port"],
    );
}

#[test]
fn auth_that_names_no_way() {
    finds_in(
        json!({ "http": "127.0.0.1:1", "auth": {} }),
        &[
            "listeners.more.auth: `auth` names no way to authenticate; give `basic`, `bearer` or `mtls: true`, or write `auth: none`",
        ],
    );
}

#[test]
fn http_that_strangers_reach_unasked() {
    for auth in [Value::Null, json!("none")] {
        finds_in(
            json!({ "http": "192.0.2.1:80", "auth": auth }),
            &[&format!(
                "listeners.more.http: strangers can reach 192.0.2.1:80, {STRANGERS}; add `auth`, or listen on 127.0.0.1:80, or write `public: true`"
            )],
        );
    }
}

#[test]
fn ports_that_strangers_reach() {
    for (kind, address) in [("tcp", "[::]:80"), ("udp", "[2001:db8::1]:80")] {
        finds_in(
            json!({ kind: address, "target": "a:1" }),
            &[&format!(
                "listeners.more.{kind}: strangers can reach {address}, {STRANGERS}; listen on [::1]:80, or write `public: true`"
            )],
        );
    }
}

#[test]
fn listeners_that_strangers_may_reach() {
    finds_in(json!({ "http": "0.0.0.0:80", "public": true }), &[]);
    finds_in(
        json!({ "http": "0.0.0.0:80", "auth": { "basic": { "file": "f" } } }),
        &[],
    );
    finds_in(
        json!({ "tcp": "0.0.0.0:80", "target": "a:1", "public": true }),
        &[],
    );
    finds_in(json!({ "http": "unix:/tmp/a" }), &[]);
    finds_in(json!({ "http": "127.0.0.2:80" }), &[]);
    finds_in(json!({ "http": "[::1]:80" }), &[]);
    finds_in(json!({ "http": "[::ffff:127.0.0.1]:80" }), &[]);
}

#[test]
fn mtls_without_authorities() {
    let reason = "listeners.more.auth: `mtls` needs to know whose client certificates are accepted";
    let tls = json!({ "cert_file": "c", "key_file": "k" });
    for auth in [json!("mtls"), json!({ "mtls": true })] {
        finds_in(
            json!({ "http": "127.0.0.1:1", "auth": auth }),
            &[&format!(
                "{reason}; add `tls` with `cert_file`, `key_file` and `client_ca_file`"
            )],
        );
        finds_in(
            json!({ "http": "127.0.0.1:1", "auth": auth, "tls": tls }),
            &[&format!("{reason}; add `tls.client_ca_file`")],
        );
    }
    let tls = json!({ "cert_file": "c", "key_file": "k", "client_ca_file": "a" });
    finds_in(
        json!({ "http": "127.0.0.1:1", "auth": "mtls", "tls": tls }),
        &[],
    );
}

#[test]
fn accepted_field_that_is_not_declared() {
    finds_in(
        json!({ "http": "127.0.0.1:1", "accepts": ["service", "user", "x-*", "colour"] }),
        &[
            "listeners.more.accepts[3]: `colour` has no effect: it is neither an overlay field nor in `provenance`, and other fields pass anyway; remove it, or declare it in `fields`",
        ],
    );
}

#[test]
fn limits_of_zero() {
    for key in [
        "head_bytes",
        "fields",
        "head_time",
        "idle_time",
        "connections",
        "streams",
    ] {
        let zero = match key {
            "head_bytes" => json!("0B"),
            "head_time" | "idle_time" => json!("0s"),
            _ => json!(0),
        };
        finds_in(
            json!({ "http": "127.0.0.1:1", "limits": { key: zero } }),
            &[&format!(
                "listeners.more.limits.{key}: a limit of zero lets nothing in; give a larger one, or remove it for the default"
            )],
        );
    }
}

#[test]
fn an_ingress_is_for_tcp_and_knows_the_target() {
    finds(
        json!({ "listeners": { "door": { "tcp": "127.0.0.1:1", "ingress": "socks" } } }),
        &[],
    );
}

#[test]
fn socks_that_strangers_reach_unasked() {
    finds_in(
        json!({ "socks": "192.0.2.1:1080" }),
        &[&format!(
            "listeners.more.socks: strangers can reach 192.0.2.1:1080, {STRANGERS}; add `auth: {{ basic: {{ file: FILE }} }}`, or listen on 127.0.0.1:1080, or write `public: true`"
        )],
    );
    for listener in [
        json!({ "socks": "127.0.0.1:1080" }),
        json!({ "socks": "unix:/tmp/socks" }),
        json!({ "socks": "192.0.2.1:1080", "auth": { "basic": { "file": "users" } } }),
    ] {
        finds_in(listener, &[]);
    }
}

#[test]
fn socks_has_no_way_to_show_tokens_and_certificates() {
    for auth in [
        json!({ "basic": { "file": "users" }, "bearer": { "jwks_file": "keys", "issuer": "i", "audience": "a" } }),
        json!({ "basic": { "file": "users" }, "mtls": true }),
    ] {
        let more = json!({ "socks": "127.0.0.1:1080", "auth": auth });
        let found = "listeners.more.auth: clients of SOCKS can show a password alone; write `basic` alone, or `auth: none`";
        let all = findings(json!({ "listeners": { "more": more } }));
        assert!(all.iter().any(|one| one == found), "{all:?}");
    }
}

#[test]
fn capture_of_no_one() {
    finds_in(
        json!({ "capture": { "host": { "only": { "users": [] } } } }),
        &[
            "listeners.more.capture.host: the listener does not say whose traffic it captures; add `interfaces`, or `only` with `users` or `cgroups`",
        ],
    );
    finds_in(
        json!({ "capture": { "host": { "interfaces": "lan0" } } }),
        &[],
    );
    finds_in(
        json!({ "capture": { "host": { "only": { "users": "1000-1999" } } } }),
        &[],
    );
}

#[test]
fn capture_at_what_is_no_interface() {
    for name in ["", "lan 0", "a-name-that-is-too-long", "../lan0"] {
        let reason = format!(
            "listeners.more.capture.host.interfaces: `{name}` is no name of an interface; write one that `ip link` shows"
        );
        finds_in(
            json!({ "capture": { "host": { "interfaces": [name] } } }),
            &[&reason],
        );
    }
    finds_in(
        json!({ "capture": { "host": { "interfaces": "lo" } } }),
        &[
            "listeners.more.capture.host.interfaces: traffic within this machine does not come by an interface; name its senders in `only`",
        ],
    );
}

#[test]
fn capture_that_refuses_a_protocol_that_it_leaves_alone() {
    finds_in(
        json!({ "capture": { "host": { "interfaces": "lan0", "protocols": "tcp", "refuse": ["udp/443"] } } }),
        &[
            "listeners.more.capture.host.refuse: `udp/443` is of a protocol that is not captured; remove it, or add the protocol to `protocols`",
        ],
    );
}

#[test]
fn a_port_that_holds_beginnings_has_a_number_and_a_target_alone() {
    let port = |keys: Value| {
        let mut port = json!({ "tcp": "127.0.0.1:5432", "target": "db:5432", "split": true });
        super::merge(&mut port, keys);
        port
    };
    finds_in(port(json!({})), &[]);
    for address in ["127.0.0.1:0", "unix:/tmp/a"] {
        finds_in(
            port(json!({ "tcp": address })),
            &[
                "listeners.more.split: beginnings of connections are held at an IP address and a port; write both, or remove `split`",
            ],
        );
    }
    finds_in(
        port(json!({ "proxy_protocol": "accept", "proxy_protocol_from": "127.0.0.1/32" })),
        &[
            "listeners.more.split: the target of a connection is not known before it is accepted; give `target` alone, or remove `split`",
        ],
    );
}
