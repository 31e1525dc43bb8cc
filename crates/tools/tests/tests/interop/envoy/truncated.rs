//! What breaks off at the origin must not look complete to the client, whatever stands between.

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Envoy, curl, eventually, origins};

use super::overlay::{DB, Hops, dependent, standalone_for};

/// Answers that end too soon: with a length, and in chunks.
const BROKEN: [&str; 2] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
];

/// curl gets the half and knows that it is one; or, where the reset overtook the head on the way, a 502 or 503.
fn half_is_known_as_half(proxy: &str) {
    let got = curl(&["-x", proxy, "http://VIDEO/film"]);
    let refused = got.exit == 0 && matches!(got.status, 502 | 503);
    let broken = got.exit != 0 && (got.body.is_empty() || got.body == b"half");
    assert!(refused || broken, "{got:?}");
}

#[test]
fn a_client_of_envoy_knows_that_content_broke_off_behind_hermes() {
    for answer in BROKEN {
        let origin = origins::scripted_once(answer);
        let sap = standalone_for(origin.address());
        for version in Http::BOTH {
            let listeners = vec![bootstrap::http("web", &bootstrap::forward("sap"))];
            let dp = Envoy::start(
                "dp",
                listeners,
                vec![bootstrap::cluster("sap", sap.address("web"), version)],
            );
            half_is_known_as_half(&dp.url("web"));
        }
    }
}

#[test]
fn a_client_of_hermes_knows_that_content_broke_off_behind_envoy() {
    for answer in BROKEN {
        let origin = origins::scripted_once(answer);
        let listeners = vec![bootstrap::http("video", &bootstrap::forward("video"))];
        let sap = Envoy::start(
            "sap",
            listeners,
            vec![bootstrap::origin("video", origin.address())],
        );
        for version in Http::BOTH {
            let dp = dependent(&Hops::all(sap.address("video")), version, "");
            half_is_known_as_half(&dp.url("web"));
        }
    }
}

#[test]
fn a_reset_behind_hermes_ends_the_tunnel_of_envoy() {
    for version in Http::BOTH {
        let origin = origins::tcp_resets();
        let sap = standalone_for(origin.address());
        let listeners = vec![bootstrap::tcp("db", "sap", DB)];
        let dp = Envoy::start(
            "dp",
            listeners,
            vec![bootstrap::cluster("sap", sap.address("web"), version)],
        );
        let mut client = Raw::connect(dp.address("db"));
        assert_eq!(client.exactly(4), b"half");
        origin.release();
        assert_eq!(client.rest().0, b"");
        let record = sap.record(|record| record["kind"] == "connect");
        assert!(
            record["reason"]
                .as_str()
                .unwrap()
                .starts_with("target_reset"),
            "{record}"
        );
    }
}

#[test]
fn a_reset_behind_envoy_reaches_the_client_of_hermes_as_a_reset_over_h2() {
    let origin = origins::tcp_resets();
    let listeners = vec![bootstrap::http(
        "db",
        &bootstrap::terminate("CONNECT", "db"),
    )];
    let sap = Envoy::start(
        "sap",
        listeners,
        vec![bootstrap::origin("db", origin.address())],
    );
    let dp = dependent(&Hops::all(sap.address("db")), Http::H2, "");
    let mut client = Raw::connect(dp.address("db"));
    assert_eq!(client.exactly(4), b"half");
    origin.release();
    assert_eq!(client.rest(), (Vec::new(), End::Reset));
}

#[test]
fn a_client_that_resets_ends_the_tunnel_to_the_far_end() {
    for version in Http::BOTH {
        let origin = origins::tcp_speaks_first();
        let sap = standalone_for(origin.address());
        let listeners = vec![bootstrap::http("web", &bootstrap::forward("sap"))];
        let middle = Envoy::start(
            "middle",
            listeners,
            vec![bootstrap::cluster("sap", sap.address("web"), version)],
        );
        let dp = dependent(&Hops::all(middle.address("web")), version, "");
        let mut client = Raw::connect(dp.address("db"));
        client.exactly(origins::GREETING.len());
        client.send("some");
        assert_eq!(client.exactly(4), b"some");
        client.reset();
        eventually("the far end hears of it", || origin.seen().pop());
        sap.idle();
        dp.idle();
    }
}
