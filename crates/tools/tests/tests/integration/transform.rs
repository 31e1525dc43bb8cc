//! Transforms: what changes the bytes of tunnels, on its own node and with a peer.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::origins::{farewell, tcp_speaks_first};
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, Pki};

/// What [`tcp_speaks_first`] says first.
const GREETING: &[u8] = b"hello, who are you?\n";

/// Bytes of text that becomes small.
const LONG: usize = 200_000;

/// Sends a word, then much, then ends: every piece comes back at once, and what is said after the end comes, too.
fn converse(mut client: Raw) {
    assert_eq!(client.exactly(GREETING.len()), GREETING);
    client.send("hello");
    assert_eq!(client.exactly(5), b"hello");
    let long = vec![b'a'; LONG];
    let mut sender = client.other();
    let sent = long.clone();
    let sending = std::thread::spawn(move || {
        sender.send(sent);
        sender.finish();
    });
    assert!(client.exactly(LONG) == long);
    sending.join().unwrap();
    let (rest, end) = client.rest();
    assert_eq!((rest, end), (farewell(LONG + 5).into_bytes(), End::Closed));
}

#[test]
fn two_nodes_compress_a_tunnel_over_every_version_and_in_every_form() {
    let origin = tcp_speaks_first();
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let end = Node::start(
        "end",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8], tls: {{ {tls} }} }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#
        ),
    );
    let address = end.address("web");
    let ca = pki.ca();
    let ca = ca.display();
    let mut yaml = String::from("listeners:\n");
    let ways: Vec<_> = [1, 2, 3]
        .into_iter()
        .flat_map(|version| ["connect", "connect-tcp"].map(|form| (version, form)))
        .collect();
    for (version, form) in &ways {
        yaml += &format!("  v{version}-{form}: {{ http: 127.0.0.1:0 }}\n");
    }
    yaml += "routes:\n";
    for (version, form) in &ways {
        yaml += &format!(
            "  - {{ match: {{ listener: v{version}-{form} }}, to: v{version}, tunnel: {form}, through: [compress] }}\n"
        );
    }
    yaml += "upstreams:\n";
    for version in [1, 2, 3] {
        yaml += &format!(
            "  v{version}: {{ endpoints: [\"{address}\"], http: {version}, tls: {{ ca_file: {ca} }} }}\n"
        );
    }
    let entry = Node::start("entry", &yaml);

    for (version, form) in &ways {
        let listener = format!("v{version}-{form}");
        let target = origin.address().to_string();
        converse(Raw::tunnel(entry.address(&listener), &target, "").unwrap());
        let record = entry.record(|record| record["listener"] == listener.as_str());
        assert_eq!(record["reason"], "done", "{record:#}");
        let left = record["bytes"]["client_to_target"].as_u64().unwrap();
        assert!(left > 0 && left < LONG as u64 / 10, "{record:#}");
    }
    end.idle();
    for record in end.access() {
        assert_eq!(record["reason"], "done", "{record:#}");
        assert_eq!(record["bytes"]["client_to_target"], LONG + 5, "{record:#}");
        let left = record["bytes"]["target_to_client"].as_u64().unwrap();
        assert!(left < LONG as u64 / 10, "{record:#}");
    }
}

/// A node that compresses what it sends to a proxy at this address.
fn entry(next: SocketAddr) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ to: next, through: [compress] }} ]
        upstreams: {{ next: {{ endpoints: ["{next}"] }} }}
        "#
    );
    Node::start("entry", &yaml)
}

/// A client of a node with `through: [compress]`, and the next proxy's connection, which has answered with these fields.
fn tunnel(fields: &str) -> (Node, Raw, Raw) {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = entry(proxy.local_addr().unwrap());
    let address = node.address("web");
    let asking = std::thread::spawn(move || Raw::tunnel(address, "DB:1", "").unwrap());
    let mut next = Raw::from(proxy.accept().unwrap().0);
    let head = next.head();
    assert_eq!(head.field("hermes-transform").as_deref(), Some("compress"));
    next.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
    let client = asking.join().unwrap();
    (node, client, next)
}

#[test]
fn a_peer_that_does_not_know_it_gets_plain_bytes() {
    let (node, mut client, mut next) = tunnel("");
    client.send("hello");
    assert_eq!(next.exactly(5), b"hello");
    next.send("welcome");
    assert_eq!(client.exactly(7), b"welcome");
    client.finish();
    assert_eq!(next.rest(), (Vec::new(), End::Closed));
    drop(next);
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
    node.idle();
    assert_eq!(node.access()[0]["bytes"]["client_to_target"], 5);
}

#[test]
fn bytes_that_mean_nothing_break_the_tunnel_and_are_recorded() {
    let (node, mut client, mut next) = tunnel("hermes-transform: compress\r\n");
    client.send("hello");
    // In a block of DEFLATE, at once.
    assert!(!next.exactly(5).is_empty());
    next.send([0xff; 64]);
    assert_eq!(client.rest().1, End::Reset);
    let record = node.record(|record| record["listener"] == "web");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("compress: it is not DEFLATE"), "{record:#}");
}

#[test]
fn an_end_in_the_middle_breaks_the_tunnel() {
    let (node, mut client, mut next) = tunnel("hermes-transform: compress\r\n");
    next.finish();
    assert_eq!(client.rest().1, End::Reset);
    let record = node.record(|record| record["listener"] == "web");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("compress: it is truncated"), "{record:#}");
}

#[test]
fn a_client_is_not_believed_that_its_bytes_are_changed() {
    let node = Node::forward_proxy();
    let origin = tcp_speaks_first();
    let target = origin.address().to_string();
    let mut client = Raw::connect(node.address("web"));
    client.send(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nhermes-transform: compress\r\n\r\n"
    ));
    let head = client.head();
    assert_eq!((head.status(), head.field("hermes-transform")), (200, None));
    converse(client);
}
