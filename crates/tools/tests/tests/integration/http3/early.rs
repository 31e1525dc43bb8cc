//! Requests that a node sends before the handshake has ended (RFC 8470).

use std::net::SocketAddr;
use std::time::Duration;

use hermes_tests::origins::{Origin, Request};
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;
use hermes_tests::{Gate, Node, Pki, curl, eventually, origins};
use serde_json::Value;

use crate::http3::overlay::upstream;

/// Connections to one endpoint at most.
const LINKS: usize = 8;

/// A node that ends what comes early, on connections for one exchange at once, which makes every further one a new connection.
fn end(pki: &Pki) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ streams: 1 }}, tls: {{ {}, early_data: true }} }} }}
        routes: [ {{ match: {{ fields: {{ early-data: "1", refuse: "early" }} }}, respond: {{ status: 425 }} }}, {{ terminate: true }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#,
        pki.issue(&["127.0.0.1"]).yaml()
    );
    Node::start("end", &yaml)
}

/// The path to it, so long that a request sent before the handshake has ended is also read before.
fn long_path(end: &Node) -> Gate {
    let gate = Gate::to(end.address("web"));
    gate.delay_answers(Duration::from_millis(30));
    gate
}

/// A node before it, of two upstreams that lead to the same place and are not the same.
fn entry(pki: &Pki, end: SocketAddr) -> Node {
    let next = upstream(pki, end, "3");
    let early = next.replace("http: 3", "http: 3, early_data: true");
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }}, other: {{ http: 127.0.0.1:0 }}, slow: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ match: {{ listener: other }}, to: other }}, {{ match: {{ listener: slow }}, to: slow }}, {{ to: next }} ]
        upstreams: {{ next: {early}, other: {early}, slow: {next} }}
        workers: 1
        "#
    );
    Node::start("entry", &yaml)
}

/// Asks by connection after connection, each of which its exchange holds until all have their heads; the statuses.
fn ask(entry: &Node, listener: &str, origin: &Origin<Request>, fields: &str) -> Vec<u16> {
    let request = format!(
        "GET http://{0}/slow HTTP/1.1\r\nHost: {0}\r\n{fields}\r\n",
        origin.address()
    );
    let mut held = Vec::new();
    let statuses = (0..LINKS - 1)
        .map(|_| {
            let mut client = Raw::connect(entry.address(listener));
            client.send(&request);
            let status = client.head().status();
            held.push(client);
            status
        })
        .collect();

    for client in &mut held {
        origin.release();
        client.until(|read| read.ends_with(b"last\n\r\n0\r\n\r\n"));
    }
    statuses
}

#[test]
fn a_node_sends_safe_requests_early_where_the_upstream_says_so() {
    let (pki, origin) = (Pki::new(), origins::http());
    let end = end(&pki);
    let path = long_path(&end);
    let entry = entry(&pki, path.address());
    assert_eq!(ask(&entry, "web", &origin, ""), [200; LINKS - 1]);
    let early = || {
        origin
            .seen()
            .iter()
            .filter(|seen| seen.field("early-data").is_some())
            .count()
    };
    assert!(early() > 0, "no request was early");
    origin.forget();
    assert_eq!(ask(&entry, "slow", &origin, ""), [200; LINKS - 1]);
    assert_eq!(early(), 0);
    // The tickets of one upstream are not those of another.
    origin.forget();
    assert_eq!(
        curl(&[
            "-x",
            &entry.url("other"),
            &format!("http://{}/", origin.address())
        ])
        .status,
        200
    );
    assert_eq!(early(), 0);
}

#[test]
fn what_comes_too_early_is_sent_once_more_and_both_are_recorded() {
    let (pki, origin) = (Pki::new(), origins::http());
    let end = end(&pki);
    let path = long_path(&end);
    let entry = entry(&pki, path.address());
    assert_eq!(
        ask(&entry, "web", &origin, "refuse: early\r\n"),
        [200; LINKS - 1]
    );
    assert!(
        origin
            .seen()
            .iter()
            .all(|seen| seen.field("early-data").is_none())
    );
    let refused = end.record(|record: &Value| record["status"] == 425);
    assert_eq!(refused["protocol"], "h3");
    // The client of the entry saw one exchange.
    let seen = entry.record(|record| record["kind"] == "http");
    assert_eq!(
        (&seen["status"], &seen["attempts"]),
        (&200.into(), &1.into()),
        "{seen}"
    );
}

/// Tickets are taken once. The connections must be gone first: as long as they are there, what belongs to them goes to them.
#[test]
fn a_first_flight_that_someone_sends_again_is_not_served_again() {
    let (pki, origin) = (Pki::new(), origins::http());
    let end = end(&pki);
    let gate = Gate::to(end.address("web"));
    let mut entry = entry(&pki, gate.address());
    assert_eq!(ask(&entry, "web", &origin, ""), [200; LINKS - 1]);
    assert!(entry.stop().success());
    let none = "hermes_connections_active{listener=\"web\"} 0\n";
    eventually("the connections are gone", || {
        end.metrics().contains(none).then_some(())
    });
    let (served, sent) = (origin.seen().len(), gate.sent());
    let mut again = 0;
    for client in sent
        .iter()
        .map(|(client, _)| client)
        .collect::<std::collections::BTreeSet<_>>()
    {
        let forger = Client::connect(end.address("web"));
        let flight = || sent.iter().filter(|(from, _)| from == client).take(FLIGHT);
        // It is told what anybody is told that begins a handshake, as soon as what was open has been forgotten.
        eventually("an answer", || {
            flight().for_each(|(_, datagram)| forger.send(datagram));
            forger.receive_within(Duration::from_millis(200))
        });
        again += 1;
    }
    assert!(again >= LINKS - 1, "{again}");
    let other = self::entry(&pki, end.address("web"));
    assert_eq!(
        curl(&[
            "-x",
            &other.url("web"),
            &format!("http://{}/", origin.address())
        ])
        .status,
        200
    );
    assert_eq!(origin.seen().len(), served + 1);
}

/// Datagrams of a client that come before it has heard of the server: a ClientHello, and what is early.
const FLIGHT: usize = 3;
