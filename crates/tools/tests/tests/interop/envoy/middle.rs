//! Envoy between two nodes: Hermes is the dependent and the standalone proxy.

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::raw::Raw;
use hermes_tests::{Envoy, Node, origins};

use super::overlay::{DB, Hops, Origins, dependent, standalone_for};
use super::payloads;

/// Hermes, Envoy, Hermes: in front of origins, with a version of HTTP for each link.
struct Chain {
    dp: Node,
    _middle: Envoy,
    sap: Node,
}

impl Chain {
    fn start(origins: &Origins, first: Http, second: Http) -> Self {
        let sap = origins.standalone();
        let listeners = vec![bootstrap::http("web", &bootstrap::forward("sap"))];
        let middle = Envoy::start(
            "middle",
            listeners,
            vec![bootstrap::cluster("sap", sap.address("web"), second)],
        );
        let dp = dependent(&Hops::all(middle.address("web")), first, "");
        Self {
            dp,
            _middle: middle,
            sap,
        }
    }
}

/// Each version on each link.
fn each_pair(check: impl Fn(&Origins, &Chain)) {
    let origins = Origins::start();
    for first in Http::BOTH {
        for second in Http::BOTH {
            check(&origins, &Chain::start(&origins, first, second));
        }
    }
}

#[test]
fn requests_pass_envoy_between_two_nodes() {
    each_pair(|origins, chain| {
        let got = payloads::messages(&chain.dp.url("web"), origins);
        let via = got.field("via").unwrap_or_default();
        assert!(via.contains("sap") && via.contains("dp"), "{via}");
    });
}

#[test]
fn connect_passes_envoy_between_two_nodes() {
    each_pair(|origins, chain| {
        payloads::sealed(&chain.dp.url("web"), origins);
        assert_eq!(
            chain.sap.record(|record| record["kind"] == "connect")["target"],
            "SECURE:443"
        );
    });
}

#[test]
fn a_half_closed_connection_passes_envoy_between_two_nodes_over_h2() {
    let origins = Origins::start();
    let chain = Chain::start(&origins, Http::H2, Http::H2);
    payloads::conversation(chain.dp.address("db"));
    assert_eq!(
        chain.sap.record(|record| record["kind"] == "connect")["target"],
        DB
    );
}

// Envoy rewrites the authority of a CONNECT-UDP to the target that its path names; Hermes reads the target from the path.
#[test]
fn connect_udp_passes_envoy_between_two_nodes() {
    each_pair(|_, chain| {
        payloads::datagrams(chain.dp.address("echo"));
        let live = chain.sap.exchanges();
        assert!(
            live.iter()
                .any(|exchange| exchange["target"] == "ECHO:7000"),
            "{live:?}"
        );
    });
}

#[test]
fn a_websocket_passes_envoy_between_two_nodes() {
    let origin = origins::tcp_upgrades();
    let sap = standalone_for(origin.address());
    for first in Http::BOTH {
        for second in Http::BOTH {
            let listeners = vec![bootstrap::http("web", &bootstrap::forward("sap"))];
            let middle = Envoy::start(
                "middle",
                listeners,
                vec![bootstrap::cluster("sap", sap.address("web"), second)],
            );
            let dp = dependent(&Hops::all(middle.address("web")), first, "");
            let mut client = Raw::connect(dp.address("web"));
            client.send(
                "GET http://VIDEO/live HTTP/1.1\r\nHost: VIDEO\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            );
            let head = client.head();
            assert_eq!(
                head.status(),
                101,
                "{} {}: {head:?}",
                first.name(),
                second.name()
            );
            client.send("frames");
            assert_eq!(
                client.exactly(6),
                b"frames",
                "{} {}",
                first.name(),
                second.name()
            );
        }
    }
}
