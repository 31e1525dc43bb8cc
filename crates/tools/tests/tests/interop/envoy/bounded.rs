//! Envoy on either side of a Hermes whose limits are tight: what is within them passes, what is not is refused with a reason.

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::raw::Raw;
use hermes_tests::{Envoy, Node, curl, eventually, udp};

use super::overlay::{DB, Origins, dependent};
use super::{payloads, standalone};

/// Tight, but enough for the payloads of these tests.
const LIMITS: &str = "limits: { head_bytes: 4KiB, fields: 40, connections: 20, per_source: 20, per_user: 4, \
                      sessions_per_user: 1, streams: 8 }";

/// Hermes ends the overlay for Alice, to whom all belongs.
fn bounded(origins: &Origins) -> Node {
    let listeners = format!(
        "  web: {{ http: 127.0.0.1:0, user: alice, {LIMITS} }}\n  gate: {{ http: 127.0.0.1:0, gateway: true, user: alice, {LIMITS} }}\n"
    );
    origins.standalone_with("sap", &listeners)
}

fn envoy(sap: &Node, version: Http) -> Envoy {
    let listeners = vec![
        bootstrap::http("web", &bootstrap::forward("sap")),
        bootstrap::tcp("db", "sap", DB),
        bootstrap::udp("echo", "sap", "ECHO", 7000),
    ];
    Envoy::start(
        "dp",
        listeners,
        vec![bootstrap::cluster("sap", sap.address("web"), version)],
    )
}

#[test]
fn all_payloads_of_envoy_pass_a_hermes_with_tight_limits() {
    let origins = Origins::start();
    for version in Http::BOTH {
        let sap = bounded(&origins);
        let dp = envoy(&sap, version);
        payloads::messages(&dp.url("web"), &origins);
        payloads::sealed(&dp.url("web"), &origins);
        if version == Http::H2 {
            payloads::conversation(dp.address("db"));
        }
        payloads::datagrams(dp.address("echo"));
    }
}

#[test]
fn what_envoy_asks_above_the_limits_of_a_user_is_refused_with_429() {
    let origins = Origins::start();
    for version in Http::BOTH {
        let sap = bounded(&origins);
        let dp = envoy(&sap, version);
        let held: Vec<Raw> = (0..4)
            .map(|_| Raw::tunnel(dp.address("web"), DB, "").unwrap())
            .collect();
        let got = curl(&["-x", &dp.url("web"), "http://VIDEO/films"]);
        assert_eq!(got.status, 429, "{got:?}");
        assert!(
            got.field("proxy-status")
                .is_some_and(|reason| reason.contains("too many")),
            "{got:?}"
        );
        drop(held);
        eventually("the tunnels are gone", || {
            sap.exchanges().is_empty().then_some(())
        });
        payloads::messages(&dp.url("web"), &origins);
        let first = udp::Client::connect(dp.address("echo"));
        // Twice: a mere question would make room.
        (0..2).for_each(|_| assert_eq!(first.ask("first"), b"first"));
        udp::Client::connect(dp.address("echo")).send("second");
        sap.record(|record| record["kind"] == "connect-udp" && record["status"] == 429);
        assert_eq!(
            first.ask("again"),
            b"again",
            "the session that was there goes on"
        );
    }
}

#[test]
fn all_payloads_pass_from_a_hermes_with_tight_limits_into_envoy() {
    let origins = Origins::start();
    let (_sap, hops) = standalone::envoy(&origins);
    let limits = ", limits: { connections: 2, streams: 2, pending: 2 }, keepalive: { every: 1s, timeout: 5s }";
    let dp = dependent(&hops, Http::H2, limits);
    payloads::messages(&dp.url("web"), &origins);
    payloads::sealed(&dp.url("web"), &origins);
    payloads::conversation(dp.address("db"));
    payloads::datagrams(dp.address("echo"));
}
