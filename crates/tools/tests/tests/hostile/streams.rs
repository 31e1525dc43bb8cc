//! Clients of HTTP/3 that stop reading, break off what they ask for, or send datagrams that no one takes.

use std::path::{Path, PathBuf};

use hermes_tests::{Node, Pki, eventually, h3flood, runtime};
use tokio::net::TcpListener;

use crate::standing::{self, MIB, generous, settled};

/// A QUIC connection that carries a flood is to be ended with this (RFC 9114, 8.1).
const EXCESSIVE_LOAD: u64 = 0x107;

/// A node for strangers over HTTP/3 with these `routes` and more, and whom they trust.
fn edge(rest: &str) -> (Node, PathBuf, Pki) {
    let pki = Pki::new();
    let yaml = format!(
        r#"
        workers: 1
        listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }}, limits: {{ min_rate: 0B }} }} }}
        egress: {{ allow: [127.0.0.0/8] }}
        {rest}
        "#,
        pki.issue(&["127.0.0.1"]).yaml()
    );
    (Node::start("edge", &yaml), pki.ca(), pki)
}

/// That someone else gets what he asks for.
fn others_are_served(node: &Node, ca: &Path) {
    let proxy = format!("https://{}", node.address("web"));
    standing::others_are_served(
        node,
        &["--proxy-cacert", ca.to_str().unwrap(), "-x", &proxy],
    );
}

#[test]
fn clients_of_http_3_that_confirm_nothing_cost_what_a_connection_may_hold() {
    let (node, ca, _pki) =
        edge("routes: [ { terminate: true } ]\n        memory: { connection: 1MiB }");
    let before = node.peak();
    let flood = h3flood::start(&ca, node.address("web"), &generous(), "stop", 8, 50);
    eventually("the exchanges", || {
        (node.exchanges().len() >= 300).then_some(())
    });
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < 32 * MIB, "{cost} bytes: {:#}", node.status());
    others_are_served(&node, &ca);
    drop(flood);
}

#[test]
fn where_all_hold_too_much_those_of_http_3_that_stand_still_are_ended() {
    let (node, ca, _pki) =
        edge("routes: [ { terminate: true } ]\n        memory: { total: 1MiB, connection: 8MiB }");
    let flood = h3flood::start(&ca, node.address("web"), &generous(), "stop", 3, 20);
    eventually("a warning", || {
        node.log().contains("memory.total").then_some(())
    });
    let record = node.record(|record| record.to_string().contains("memory.total"));
    assert!(record.to_string().contains("takes nothing"), "{record:#}");
    others_are_served(&node, &ca);
    drop(flood);
}

#[test]
fn a_client_of_http_3_that_breaks_off_what_it_asks_for_is_ended() {
    let (node, ca, _pki) = edge("routes: [ { terminate: true } ]");
    let before = node.peak();
    let flood = h3flood::start(&ca, node.address("web"), &generous(), "reset", 1, 20_000);
    assert_eq!(flood.said["code"], EXCESSIVE_LOAD, "{}", flood.said);
    node.idle();
    let cost = node.peak().saturating_sub(before);
    assert!(cost < 64 * MIB, "{cost} bytes");
    others_are_served(&node, &ca);
}

#[test]
fn datagrams_that_no_one_takes_are_dropped() {
    let silent = runtime::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let next = silent.local_addr().unwrap();
    let (node, ca, _pki) = edge(&format!(
        "routes: [ {{ match: {{ protocol: connect-udp }}, to: next }}, {{ terminate: true }} ]\n        \
         upstreams: {{ next: {{ endpoints: [\"{next}\"] }} }}"
    ));
    let before = node.peak();
    let flood = h3flood::start(&ca, node.address("web"), "127.0.0.1:9", "datagrams", 1, 20);
    let cost = node.peak().saturating_sub(before);
    assert!(cost < 24 * MIB, "{cost} bytes");
    others_are_served(&node, &ca);
    drop(flood);
}
