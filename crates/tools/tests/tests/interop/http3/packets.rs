//! CONNECT-IP with connect-ip-go on both sides of Hermes: addresses, routes and packets pass nodes as they are, in every version of HTTP
//! between them.

use std::net::SocketAddr;

use hermes_tests::shown::shown;
use hermes_tests::{HttpPeer, Node, Pki, Role};
use serde_json::{Value, json};

use super::NAMES;

/// What the proxy gives and advertises; `interop/README.md` says so.
fn offered() -> Value {
    json!({
        "status": 200,
        "addresses": ["10.41.0.2/32", "fd41::2/128"],
        "routes": ["10.41.0.1-10.41.0.1/0", "10.42.0.0-10.42.255.255/0", "fd41::1-fd41::1/0"],
    })
}

/// The same with what an action adds.
fn offered_and(name: &str, value: Value) -> Value {
    let mut offered = offered();
    offered[name] = value;
    offered
}

/// A node that carries packets on to the next one, in this version of HTTP.
fn node(pki: &Pki, name: &str, next: SocketAddr, http: u8) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: next }} ]
        upstreams: {{ next: {{ endpoints: ["{next}"], http: {http}, tls: {{ ca_file: {} }} }} }}
        "#,
        pki.issue(&NAMES).yaml(),
        pki.ca().display()
    );
    Node::start(name, &yaml)
}

fn asks(pki: &Pki, node: &Node, action: &[&str]) -> Value {
    HttpPeer::ConnectIpGo.client(&pki.ca(), node.address("web"), action)
}

#[test]
fn connect_ip_go_passes_a_node_on_both_sides() {
    let pki = Pki::new();
    let proxy = HttpPeer::ConnectIpGo.server(&pki, &[]);
    let node = node(&pki, "entry", proxy.address(), 3);

    assert_eq!(asks(&pki, &node, &["offered"]), offered());
    let requested = asks(&pki, &node, &["request", "10.99.0.9/32"]);
    assert_eq!(requested, offered_and("requested", json!(["10.41.0.2/32"])));
    for (target, lengths) in [("10.42.3.4", ["1", "1200"]), ("fd41::1", ["1", "1200"])] {
        let action = ["packets", target, lengths[0], lengths[1]];
        let got = asks(&pki, &node, &action);
        assert_eq!(got, offered_and("came", json!([1, 1200])), "{target}");
    }

    let record = node.record(|record| record["kind"] == "connect-ip");
    assert_eq!(record["status"], 200, "{record:#}");
    shown(HttpPeer::ConnectIpGo, Role::Client, "packets");
    shown(HttpPeer::ConnectIpGo, Role::Server, "packets");
}

#[test]
fn connect_ip_go_passes_a_chain_of_every_version() {
    let pki = Pki::new();
    let proxy = HttpPeer::ConnectIpGo.server(&pki, &[]);
    let last = node(&pki, "last", proxy.address(), 3);
    let third = node(&pki, "third", last.address("web"), 1);
    let second = node(&pki, "second", third.address("web"), 2);
    let first = node(&pki, "first", second.address("web"), 3);

    let got = asks(&pki, &first, &["packets", "10.42.3.4", "1", "1100"]);
    assert_eq!(got, offered_and("came", json!([1, 1100])));
    let got = asks(&pki, &first, &["packets", "fd41::1", "1", "1100"]);
    assert_eq!(got, offered_and("came", json!([1, 1100])));
}
