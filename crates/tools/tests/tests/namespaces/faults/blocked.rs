//! UDP that is blocked on the way while everything runs, and let through again.

use hermes_tests::eventually::{eventually, found};
use hermes_tests::raw::{End, Raw};
use serde_json::Value;

use super::super::within;
use super::load::{Load, MIXED};
use super::row::{Row, TUNNEL};

/// What the router is told, so that UDP vanishes on it.
const BLOCK: &str = "rule add pref 100 ipproto udp type blackhole";
const UNBLOCK: &str = "rule del pref 100";

/// Rounds of blocking; more with `HERMES_BLOCKS`, which also says how long each takes.
const ROUNDS: u64 = 1;

/// What waits at most when UDP becomes blocked, in milliseconds: asked of the long form, on a quiet machine.
const WAITS: f64 = 2000.0;

/// Requests of which the first proxy has the record, by the version that they came over.
fn pages(row: &Row, version: &str) -> usize {
    let is_page = |record: &&Value| {
        record["target"]
            .as_str()
            .is_some_and(|target| target.contains("PAGE"))
    };
    row.near
        .access()
        .iter()
        .filter(is_page)
        .filter(|record| record["protocol"] == version)
        .count()
}

/// A tunnel over HTTP/3. On a machine that is busy with other things, a worker's first handshake may take longer than its head start.
fn tunnel(row: &Row) -> Raw {
    eventually("a tunnel over HTTP/3", || {
        let mut tunnel = within(&row.topology, "client", || {
            Raw::connect(TUNNEL.parse().unwrap())
        });
        assert_eq!(tunnel.exchange(b"before").unwrap(), b"before");
        let exchanges = row.near.exchanges();
        let newest = exchanges
            .iter()
            .rfind(|one| one["kind"] == "connect")
            .unwrap();
        (newest["protocol"] == "h3").then_some(tunnel)
    })
}

/// The longest that a request of the client has taken so far, by the records of its node.
fn longest(row: &Row, after: usize) -> f64 {
    let records = row.entry.access();
    let times = records
        .iter()
        .skip(after)
        .filter(|record| record["kind"] == "http");
    times
        .filter_map(|record| record["duration_ms"].as_f64())
        .fold(0.0, f64::max)
}

#[test]
fn udp_that_is_blocked_and_let_through_again_costs_tunnels_only() {
    let row = Row::by_router("[3, 2]");
    let asked = std::env::var("HERMES_BLOCKS").ok();
    let rounds = asked
        .as_ref()
        .map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let load = Load {
        tunnels: 0,
        ..MIXED
    };
    load.during(&row, |progress| {
        for round in 0..rounds {
            let mut tunnel = tunnel(&row);
            let (before, began) = (pages(&row, "h2"), row.entry.access().len());
            row.ip("road", &[BLOCK]);
            eventually("requests fall to HTTP/2", || {
                (pages(&row, "h2") > before + 5).then_some(())
            });
            progress.more(10);
            assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
            let took = longest(&row, began);
            if asked.is_some() {
                eprintln!("a request waited {took} ms");
                assert!(took < WAITS, "{took} ms");
            }
            let way = row.way();
            assert_eq!(
                (&way["http"], &way["http_because"]),
                (&2.into(), &"UDP became silent".into()),
                "{way:#}"
            );
            assert!(
                way["http3"].as_str().unwrap().contains("UDP became silent"),
                "{way:#}"
            );
            assert!(way["http3_again_in_seconds"].as_u64().is_some(), "{way:#}");
            row.ip("road", &[UNBLOCK]);
            let before = pages(&row, "h3");
            // It rests twice as long each time.
            let back = || found(|| (pages(&row, "h3") > before + 5).then_some(())).is_some();
            assert!(
                (0..1 << round).any(|_| back()),
                "requests come back to HTTP/3: {:#}",
                row.way()
            );
            progress.more(10);
            let way = row.way();
            assert_eq!(
                (&way["http"], &way["http_because"]),
                (&3.into(), &"it answered again, twice".into()),
                "{way:#}"
            );
        }
    });
    assert_eq!(
        row.echo.sockets().len(),
        load.sessions,
        "UDP sessions keep their sockets"
    );
    let log = row.entry.log();
    assert_eq!(
        log.matches("HTTP/3 is left out").count() as u64,
        rounds,
        "{log}"
    );
    let records = row.entry.access();
    let reasons = records
        .iter()
        .filter(|record| record["kind"] == "connect" && record["reason"] != "done");
    let reasons: Vec<_> = reasons
        .map(|record| record["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons.len() as u64, rounds, "{reasons:?}");
    assert!(
        reasons
            .iter()
            .all(|reason| reason.contains("UDP became blocked")),
        "{reasons:?}"
    );
}
