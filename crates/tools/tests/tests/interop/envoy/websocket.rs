//! WebSocket with Envoy on either side.

use std::net::SocketAddr;

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::raw::Raw;
use hermes_tests::{Envoy, origins};

use super::overlay::{Hops, dependent, standalone_for};

/// Frames there and back; then the client breaks off.
fn frames_pass(proxy: SocketAddr, what: &str) {
    let mut client = Raw::connect(proxy);
    client.send(
        "GET http://VIDEO/live HTTP/1.1\r\nHost: VIDEO\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let head = client.head();
    assert_eq!(head.status(), 101, "{what}: {head:?}");
    assert_eq!(
        head.field("sec-websocket-accept").as_deref(),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "{what}"
    );
    for length in [1, 70_000] {
        client.send(vec![b'f'; length]);
        assert!(client.exactly(length) == vec![b'f'; length], "{what}");
    }
    client.reset();
}

#[test]
fn a_websocket_of_envoy_enters_hermes() {
    let origin = origins::tcp_upgrades();
    let sap = standalone_for(origin.address());
    for version in Http::BOTH {
        let listeners = vec![bootstrap::http("web", &bootstrap::forward("sap"))];
        let dp = Envoy::start(
            "dp",
            listeners,
            vec![bootstrap::cluster("sap", sap.address("web"), version)],
        );
        frames_pass(dp.address("web"), version.name());
        // Extended CONNECT succeeds with 200 (RFC 8441, 5).
        let opened = if version == Http::H1 { 101 } else { 200 };
        assert_eq!(
            sap.record(|record| record["protocol"] == version.name())["status"],
            opened
        );
    }
}

#[test]
fn a_websocket_of_hermes_enters_envoy() {
    let origin = origins::tcp_upgrades();
    let listeners = vec![bootstrap::http("web", &bootstrap::forward("origin"))];
    let sap = Envoy::start(
        "sap",
        listeners,
        vec![bootstrap::origin("origin", origin.address())],
    );
    for version in Http::BOTH {
        let dp = dependent(&Hops::all(sap.address("web")), version, "");
        frames_pass(dp.address("web"), version.name());
        dp.record(|record| record["kind"] == "upgrade");
    }
}
