//! Checks of addresses that are listened on.

use serde_json::json;

use super::{findings, finds};

#[test]
fn same_address_twice() {
    finds(
        json!({ "listeners": { "more": { "tcp": "127.0.0.1:8080", "target": "a:1" } } }),
        &[
            "listeners.more.tcp: listeners.web.http listens on 127.0.0.1:8080 already; choose another address or port",
        ],
    );
}

#[test]
fn wildcard_that_includes_an_address() {
    finds(
        json!({ "listeners": { "more": { "http": "[::]:8080", "public": true } } }),
        &[
            "listeners.more.http: listeners.web.http listens on 127.0.0.1:8080, which includes it or is part of it; choose another address or port",
        ],
    );
}

#[test]
fn addresses_conflict_by_port_transport_and_reach() {
    for (one, two, conflict) in [
        ("0.0.0.0:1", "127.0.0.1:1", true),
        ("127.0.0.1:1", "0.0.0.0:1", true),
        ("[::]:1", "0.0.0.0:1", true),
        ("[::]:1", "127.0.0.1:1", true),
        ("[::]:1", "[::1]:1", true),
        ("[::ffff:127.0.0.1]:1", "127.0.0.1:1", true),
        ("0.0.0.0:1", "[::1]:1", false),
        ("127.0.0.1:1", "[::1]:1", false),
        ("127.0.0.1:1", "127.0.0.2:1", false),
        ("127.0.0.1:1", "127.0.0.1:2", false),
        ("127.0.0.1:0", "127.0.0.1:0", false),
        ("unix:/a", "unix:/a", true),
        ("unix:/a", "unix:/b", false),
    ] {
        let found = findings(json!({
            "listeners": { "one": { "http": one, "public": true }, "two": { "http": two, "public": true } },
        }));
        assert_eq!(!found.is_empty(), conflict, "{one} {two}: {found:?}");
    }
}

#[test]
fn udp_and_tcp_do_not_conflict() {
    finds(
        json!({ "listeners": { "more": { "udp": "127.0.0.1:8080", "target": "a:1" } } }),
        &[],
    );
}

#[test]
fn admin_addresses_conflict_too() {
    finds(
        json!({
            "admin": { "metrics": "127.0.0.1:8080", "socket": "/a" },
            "listeners": { "more": { "http": "unix:/a" } },
        }),
        &[
            "admin.metrics: listeners.web.http listens on 127.0.0.1:8080 already; choose another address or port",
            "admin.socket: listeners.more.http listens on unix:/a already; choose another address or port",
        ],
    );
}
