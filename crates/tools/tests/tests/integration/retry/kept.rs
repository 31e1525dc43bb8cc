//! Requests that are tried again for a time, over an outage of any length.

use std::thread::scope;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::raw::{End, Raw};
use hermes_tests::{free, origins};

use super::gateway;

/// Attempts that no number of them would allow.
const MANY: u64 = 12;

const KEPT: &str = ", retry: { keep_for: 10m, attempts: 1, backoff: { base: 1ms, max: 5ms }, budget: { min: 1000 per second } }";

#[test]
fn a_request_is_answered_once_its_origin_is_back_and_hears_of_its_progress() {
    let address = free::tcp();
    let node = gateway(&[address], KEPT);
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET /late HTTP/1.1\r\nHost: origin\r\nHermes-Progress: ?1\r\n\r\n");

    let waiting = eventually("many attempts", || {
        let live = node.exchanges();
        let one = live.first()?.clone();
        (one["attempts"].as_u64()? > MANY).then_some(one)
    });
    let waits = waiting["waits"].as_str().unwrap();
    assert!(waits.contains("connection_refused"), "{waits}");

    let _origin = origins::http_on(address);
    let progress = raw.head();
    assert_eq!(progress.status(), 102);
    let says = progress.field("proxy-status").unwrap();
    assert!(says.contains("attempt 1 failed"), "{says}");

    let mut head = raw.head();
    while head.status() == 102 {
        head = raw.head();
    }
    assert_eq!(head.status(), 200);
    let record = node.record(|record| record["status"] == 200);
    assert!(record["attempts"].as_u64() > Some(MANY), "{record}");
}

#[test]
fn a_client_that_asks_for_nothing_hears_of_no_progress() {
    let address = free::tcp();
    let node = gateway(&[address], KEPT);
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET /late HTTP/1.1\r\nHost: origin\r\n\r\n");
    eventually_true("many attempts", || {
        let live = node.exchanges();
        live.first().and_then(|one| one["attempts"].as_u64()) > Some(MANY)
    });
    let _origin = origins::http_on(address);
    assert_eq!(raw.head().status(), 200);
}

#[test]
fn what_may_have_been_processed_is_not_kept() {
    let origin = origins::acting(&[origins::Act::Reset, origins::Act::status(200, "")]);
    let node = gateway(&[origin.address()], KEPT);
    let mut raw = Raw::connect(node.address("web"));
    raw.send("POST /once HTTP/1.1\r\nHost: origin\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(raw.head().status(), 502);
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn a_client_that_goes_is_not_waited_for() {
    let node = gateway(&[free::tcp()], KEPT);
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET /late HTTP/1.1\r\nHost: origin\r\n\r\n");
    eventually_true("an attempt", || {
        let live = node.exchanges();
        live.first().and_then(|one| one["attempts"].as_u64()) > Some(1)
    });
    raw.reset();
    eventually_true("it is over", || node.exchanges().is_empty());
}

#[test]
fn the_time_that_a_request_is_kept_has_an_end() {
    let keys = ", retry: { keep_for: 300ms, backoff: { base: 1ms, max: 5ms }, budget: { min: 1000 per second } }";
    let node = gateway(&[free::tcp()], keys);
    scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                let mut raw = Raw::connect(node.address("web"));
                raw.send("GET / HTTP/1.1\r\nHost: origin\r\nConnection: close\r\n\r\n");
                assert_eq!(raw.head().status(), 502);
                assert_eq!(raw.rest().1, End::Closed);
            });
        }
    });
}
