//! IP packets between nodes that prove who they are, by certificates or by tokens: whose they are decides what passes.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, Pki};
use serde_json::{Value, json};

use super::clients::networks;
use super::packets::start;
use super::tokens::Issuer;
use super::within;

/// What ends tunnels at a device, where everyone may send echoes, and Alice alone may reach a port.
fn edge(listener: &str, more: &str) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: 0.0.0.0:8443, public: true, {listener} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, terminate: {{ tun: hermes1, pool: 10.7.0.0/24 }} }} ]
        egress: {{ allow: [10.7.0.1/32] }}
        policy:
          default: allow
          packets:
            rules:
              - {{ name: echoes, allow: true, to: 10.7.0.1/32, protocol: icmp }}
              - {{ name: web-of-alice, allow: true, user: alice, to: 10.7.0.1/32, protocol: tcp, port: 5000 }}
        {more}
        "
    )
}

/// The machine of a client in this network, which says that it is `user`'s.
fn client(
    topology: &Topology,
    (network, number): (&'static str, u8),
    identity: &str,
    upstream: &str,
) -> Node {
    let yaml = format!(
        "
        identity: {{ {identity} }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, routes: [10.7.0.0/24] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: edge }} ]
        upstreams: {{ edge: {{ endpoints: [\"10.0.{number}.2:8443\"], {upstream} }} }}
        "
    );
    start(topology, network, &yaml)
}

fn echo(topology: &Topology, from: &str) -> bool {
    let from = topology.namespace(from).unwrap();
    from.run(&["ping", "-c", "1", "-W", "1", "10.7.0.1"])
        .is_ok()
}

/// What becomes of a connection through the tunnel.
fn connects(topology: &Topology, from: &str) -> Result<(), ErrorKind> {
    let to = "10.7.0.1:5000".parse().unwrap();
    let connection = within(topology, from, || {
        TcpStream::connect_timeout(&to, Duration::from_secs(60))
    });
    connection.map(drop).map_err(|error| error.kind())
}

/// Alice and Bob have tunnels, each of them under their own name, and the policy holds for each.
fn both_are_served_by_the_policy(topology: &Topology, edge: &Node) {
    for user in ["alice", "bob"] {
        eventually_true(&format!("{user} has a tunnel"), || echo(topology, user));
    }
    let _listening = within(topology, "edge", || {
        TcpListener::bind("10.7.0.1:5000").unwrap()
    });
    assert_eq!(connects(topology, "alice"), Ok(()));
    assert_eq!(connects(topology, "bob"), Err(ErrorKind::HostUnreachable));

    let clients = edge.status()["devices"][0]["clients"].clone();
    let users: Vec<&str> = clients
        .as_array()
        .unwrap()
        .iter()
        .map(|client| client["user"].as_str().unwrap())
        .collect();
    assert_eq!(users, ["alice", "bob"], "{clients:#}");
    let metrics = edge.metrics();
    assert!(
        metrics.contains("rule=\"web-of-alice\",outcome=\"allow\""),
        "{metrics}"
    );
}

/// This machine gets no tunnel, and its node says why in these words.
fn is_refused(topology: &Topology, (network, node): (&str, &Node), edge: &Node, why: &str) {
    let record = node.record(|record| {
        let reason = record["reason"].as_str().unwrap_or_default();
        record["kind"] == "connect-ip" && reason.contains(why)
    });
    assert_eq!(record["event"], "end", "{record:#}");
    assert!(!echo(topology, network));
    assert_eq!(edge.status()["devices"][0]["tunnels"], 2);
}

#[test]
fn certificates_say_whose_packets_they_are_and_a_wrong_key_has_no_tunnel() {
    for version in [2, 3] {
        let topology = networks();
        let [pki, others] = [Pki::new(), Pki::new()];
        let ca = pki.ca().display().to_string();
        let own = pki.issue(&["edge.overlay"]).yaml();
        let peers = "peers: { alice: { certificate: alice.overlay, speaks_for: [alice] }, bob: { certificate: bob.overlay, speaks_for: [bob] } }";
        let edge = edge(
            &format!("auth: mtls, tls: {{ {own}, client_ca_file: {ca} }}"),
            peers,
        );
        let edge = start(&topology, "edge", &edge);

        let upstream = |own: &str| {
            format!("http: {version}, tls: {{ ca_file: {ca}, server_name: edge.overlay, {own} }}")
        };
        let under = |user: &str| upstream(&pki.issue(&[&format!("{user}.overlay")]).yaml());
        let _alice = client(&topology, ("alice", 77), "user: alice", &under("alice"));
        let _bob = client(&topology, ("bob", 78), "user: bob", &under("bob"));
        both_are_served_by_the_policy(&topology, &edge);

        // The right name under another authority's key: no link is made.
        let wrong = upstream(&others.issue(&["alice.overlay"]).yaml());
        let carol = client(&topology, ("carol", 79), "user: alice", &wrong);
        is_refused(&topology, ("carol", &carol), &edge, "tls_");
        drop(carol);

        // The right key of another: Bob's speaks for Bob alone.
        let carol = client(&topology, ("carol", 79), "user: alice", &under("bob"));
        let why = "peer bob does not speak for user alice";
        is_refused(&topology, ("carol", &carol), &edge, why);
        drop(carol);

        // No key at all.
        let carol = client(&topology, ("carol", 79), "user: alice", &upstream(""));
        is_refused(&topology, ("carol", &carol), &edge, "tls_");
    }
}

/// A token in a file that its owner alone reads.
fn token(pki: &Pki, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;

    let file = pki.folder().join(format!("{name}.jwt"));
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    file.display().to_string()
}

#[test]
fn tokens_say_whose_packets_they_are_and_those_of_another_issuer_have_no_tunnel() {
    for version in [2, 3] {
        let topology = networks();
        let pki = Pki::new();
        let [issuer, others] = [Issuer::eddsa(), Issuer::eddsa()];
        let keys = pki.folder().join("keys.json");
        std::fs::write(&keys, issuer.key_set()).unwrap();
        let own = pki.issue(&["edge.overlay"]).yaml();
        let bearer = format!(
            "auth: {{ bearer: {{ jwks_file: {}, issuer: \"https://issuer.test\", audience: hermes }} }}",
            keys.display()
        );
        let edge = edge(&format!("{bearer}, tls: {{ {own} }}"), "");
        let edge = start(&topology, "edge", &edge);

        let ca = pki.ca().display().to_string();
        let upstream =
            format!("http: {version}, tls: {{ ca_file: {ca}, server_name: edge.overlay }}");
        let with = |network, user: &str, issuer: &Issuer, claims: &Value| {
            let file = token(&pki, network, &issuer.token(claims));
            let identity = format!("user: {user}, token_file: {file}");
            let number = match network {
                "alice" => 77,
                "bob" => 78,
                _ => 79,
            };
            client(&topology, (network, number), &identity, &upstream)
        };
        let _alice = with("alice", "alice", &issuer, &issuer.claims("alice"));
        let _bob = with("bob", "bob", &issuer, &issuer.claims("bob"));
        both_are_served_by_the_policy(&topology, &edge);

        // Another issuer's key; an hour that is over; no token.
        let carol = with("carol", "alice", &others, &issuer.claims("alice"));
        is_refused(
            &topology,
            ("carol", &carol),
            &edge,
            "the signature of the token is wrong",
        );
        drop(carol);
        let mut claims = issuer.claims("alice");
        claims["exp"] = json!(1_000_000_000);
        let carol = with("carol", "alice", &issuer, &claims);
        is_refused(&topology, ("carol", &carol), &edge, "the token has expired");
        drop(carol);
        let carol = client(&topology, ("carol", 79), "user: alice", &upstream);
        is_refused(
            &topology,
            ("carol", &carol),
            &edge,
            "no credentials were shown",
        );
    }
}
