//! The proxy in the middle is killed, and starts again after 2 s: what its users notice.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hermes_tests::eventually::eventually;
use hermes_tests::head::Head;
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;

use crate::calls::{Heard, call};
use crate::dns;
use crate::row::{EVERY, PAGE, Row, STREAM, VOICE, VOICE_BEHIND, wait};
use crate::wireguard::{WireGuard, pinging, reached, received};

/// Datagrams of a call.
const DATAGRAMS: u32 = 400;

/// Of those, what may be sent before it is known that the proxy is gone: a round trip and a refused connection, and what a busy
/// machine takes for that. Of 2 s without the proxy, 100 would be lost.
const IN_FLIGHT: usize = 15;

/// Pings of an outage of 2 s that may be lost while the machine is busy: those that were in flight, and what a session waits for its
/// proxy. On a quiet machine it is one.
const PINGS_IN_OUTAGE: u32 = 4;

/// Pings inside WireGuard, one each 0.2 s.
const PINGS: u32 = 45;

/// How long questions may find no answer: the time without the proxy, until one of them is asked again, and a busy machine.
const UNANSWERED: Duration = Duration::from_secs(5);

/// Clients who ask at once: enough that each worker of the node has some.
const CLIENTS: usize = 8;

/// Asks for the page.
fn page() -> (Head, Vec<u8>) {
    let mut raw = Raw::connect(PAGE.parse().unwrap());
    raw.send("GET http://video/page HTTP/1.1\r\nHost: video\r\nConnection: close\r\n\r\n");
    raw.response()
}

/// Calls all the time.
fn calling(row: &Row, address: &'static str) -> JoinHandle<Heard> {
    row.in_client(|| {
        let client = Client::connect(address.parse().unwrap());
        for _ in 0..2 {
            assert_eq!(client.ask([0xff; 4]), [0xff; 4]);
        }
        let mut heard = call(&client, DATAGRAMS, EVERY, Duration::from_secs(3));
        heard.numbers.remove(&u32::MAX);
        heard
    })
}

/// Hears what the target sends all the time.
fn hearing(row: &Row) -> JoinHandle<Heard> {
    row.in_client(|| {
        let client = Client::connect(VOICE.parse().unwrap());
        // A conversation, so that nothing but what is tried here ends it.
        for _ in 0..2 {
            assert_eq!(client.ask([0xff; 4]), [0xff; 4]);
        }
        client.send([STREAM, &DATAGRAMS.to_be_bytes()].concat());
        let mut heard = call(&client, 0, EVERY, Duration::from_secs(3));
        heard.numbers.remove(&u32::MAX);
        heard
    })
}

/// Asks all the time, each time from a fresh port; the longest time without an answer, also at the end.
fn asking(row: &Row) -> JoinHandle<Duration> {
    row.in_client(|| {
        let (began, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
        while began.elapsed() < EVERY * DATAGRAMS {
            if dns::ask(7, Duration::from_millis(200)) {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        }
        longest.max(last.elapsed())
    })
}

fn killed_and_started_again(http: u8) {
    let mut row = Row::start(http, 100);
    let _wireguard = WireGuard::start(&row, &format!("wg{http}"));
    reached(&row);
    eventually("the name server", || {
        row.in_client(|| dns::ask(7, Duration::from_millis(200)))
            .join()
            .unwrap()
            .then_some(())
    });
    let _behind = row.behind();
    let calls = [
        calling(&row, VOICE),
        calling(&row, VOICE_BEHIND),
        hearing(&row),
    ];
    let (asked, pings) = (asking(&row), pinging(&row, PINGS, "0.2"));
    wait("2");
    row.restart_near("2");
    for (call, which) in
        calls
            .into_iter()
            .zip(["a call", "a call through a proxy", "a stream of the target"])
    {
        let heard = call.join().unwrap();
        let lost = DATAGRAMS as usize - heard.numbers.len();
        assert!(
            lost <= IN_FLIGHT,
            "{which}: {lost} of {DATAGRAMS} were lost, and {:?} passed without any",
            heard.gap
        );
    }
    let longest = asked.join().unwrap();
    assert!(longest < UNANSWERED, "{longest:?} without an answer");
    let pinged = received(pings);
    assert!(
        pinged + PINGS_IN_OUTAGE >= PINGS,
        "{pinged} of {PINGS} pings came back"
    );
}

#[test]
fn a_proxy_that_is_killed_and_comes_back_costs_what_was_in_flight_over_http2() {
    killed_and_started_again(2);
}

#[test]
fn a_proxy_that_is_killed_and_comes_back_costs_what_was_in_flight_over_http3() {
    killed_and_started_again(3);
}

/// A page is asked for as soon as the proxy is gone, over a link that no one knows to be dead yet. An attempt that waited for an answer on it
/// would take all of the time for a response head. It ends before that, and who asks again is answered once the proxy is back.
fn asked_after_a_death(http: u8) {
    let mut row = Row::start(http, 100);
    let get = |row: &Row| row.in_client(page);
    for _ in 0..CLIENTS {
        let (head, body) = get(&row).join().unwrap();
        assert_eq!((head.status(), &body[..]), (200, &b"page"[..]));
    }
    row.near.kill();
    let asked: Vec<_> = (0..CLIENTS).map(|_| get(&row)).collect();
    wait("2");
    row.start_near();
    for answer in asked {
        let (head, body) = answer.join().unwrap();
        assert_eq!((head.status(), &body[..]), (200, &b"page"[..]), "{head:?}");
    }
    let metrics = row.entry.metrics();
    assert!(
        !metrics.contains(r#"hermes_retries_total{upstream="near",reason="timeout"}"#),
        "{metrics}"
    );
}

#[test]
fn what_is_asked_first_after_a_death_is_answered_when_the_proxy_is_back_over_http2() {
    asked_after_a_death(2);
}

#[test]
fn what_is_asked_first_after_a_death_is_answered_when_the_proxy_is_back_over_http3() {
    asked_after_a_death(3);
}
