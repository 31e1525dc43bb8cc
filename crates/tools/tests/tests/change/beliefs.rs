//! What an open tunnel rests on: passwords, keys, authorities and what the listener says. What is revoked ends it, with the
//! reason; what did not change keeps it.

use std::fs;
use std::path::Path;

use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Node, Pki, origins};

use super::tunnels::{counts, reload};
use crate::tokens::Issuer;

/// Reloads and finds the tunnel ended for this reason.
fn ends(node: &Node, yaml: &str, tunnel: &mut Raw, reason: &str) {
    assert_eq!(reload(node, yaml), counts(0, 0, 0, 1));
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    let record = node.record(|record| {
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("policy_changed")
    });
    assert_eq!(
        record["reason"],
        format!("policy_changed: {reason}"),
        "{record}"
    );
}

/// A listener with these keys, before an echo.
fn before(origin: std::net::SocketAddr, keys: &str) -> String {
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, {keys} }} }}\nroutes: [ {{ terminate: db }} ]\n\
         upstreams: {{ db: {{ endpoints: [\"{origin}\"] }} }}\n"
    )
}

#[test]
fn a_changed_password_ends_what_the_old_one_opened() {
    let (origin, folder) = (origins::tcp_echo(), tempfile::tempdir().unwrap());
    let users = folder.path().join("users");
    let line =
        |user: &str, password: &str| format!("{user}:{}\n", bcrypt::hash(password, 4).unwrap());
    let (alice, bob) = (line("alice", "old"), line("bob", "b"));
    fs::write(&users, format!("{alice}{bob}")).unwrap();
    let yaml = before(origin.address(), "auth: { basic: { file: users } }");
    let node = Node::start_in(folder, "edge", &yaml, &[]);
    // printf alice:old | base64; printf bob:b | base64
    let tunnel = |pair: &str| {
        let field = format!("proxy-authorization: Basic {pair}\r\n");
        Raw::tunnel(node.address("web"), "DB:1", &field).unwrap()
    };
    let (mut of_alice, mut of_bob) = (tunnel("YWxpY2U6b2xk"), tunnel("Ym9iOmI="));
    fs::write(&users, format!("# reordered\n{bob}{alice}")).unwrap();
    assert_eq!(reload(&node, &yaml), counts(2, 0, 0, 0));
    fs::write(&users, format!("{bob}{}", line("alice", "new"))).unwrap();
    assert_eq!(reload(&node, &yaml), counts(1, 0, 0, 1));
    assert_eq!(of_alice.rest(), (Vec::new(), End::Reset));
    let record = node.record(|record| record["user"] == "alice");
    assert_eq!(
        record["reason"], "policy_changed: the user's password has changed",
        "{record}"
    );
    of_bob.send("x");
    assert_eq!(of_bob.exactly(1), b"x");
    fs::write(&users, &alice).unwrap();
    assert_eq!(reload(&node, &yaml), counts(0, 0, 0, 1));
    let record = node.record(|record| record["user"] == "bob");
    assert_eq!(
        record["reason"], "policy_changed: the user is not known any more",
        "{record}"
    );
}

/// A tunnel of a token's, and its node.
fn of_token(issuer: &Issuer, yaml: &str) -> (Node, Raw) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("keys.json"), issuer.key_set()).unwrap();
    let node = Node::start_in(folder, "edge", yaml, &[]);
    let field = format!(
        "proxy-authorization: Bearer {}\r\n",
        issuer.token(&issuer.claims("alice"))
    );
    let tunnel = Raw::tunnel(node.address("web"), "DB:1", &field).unwrap();
    (node, tunnel)
}

#[test]
fn a_key_that_is_withdrawn_ends_what_its_tokens_opened() {
    let (issuer, other, origin) = (Issuer::eddsa(), Issuer::eddsa(), origins::tcp_echo());
    let yaml = |audience: &str| {
        let bearer =
            format!("jwks_file: keys.json, issuer: \"https://issuer.test\", audience: {audience}");
        before(
            origin.address(),
            &format!("auth: {{ bearer: {{ {bearer} }} }}"),
        )
    };
    let (node, mut tunnel) = of_token(&issuer, &yaml("hermes"));
    assert_eq!(reload(&node, &yaml("hermes")), counts(1, 0, 0, 0));
    // The same name, another key.
    fs::write(node.folder().join("keys.json"), other.key_set()).unwrap();
    ends(
        &node,
        &yaml("hermes"),
        &mut tunnel,
        "the key of the token is not known any more",
    );
    let (node, mut tunnel) = of_token(&issuer, &yaml("hermes"));
    ends(
        &node,
        &yaml("others"),
        &mut tunnel,
        "the token is not for this audience",
    );
}

/// A node that asks for certificates of the authority in `ca`, with these further keys; and one that shows one and has a port
/// that leads to it.
fn certified(pki: &Pki, ca: &Path, http: u8, more: &str) -> (String, String) {
    let server = pki.issue(&["127.0.0.1"]);
    let client = pki.issue(&["alice.overlay"]);
    let edge = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, auth: mtls, tls: {{ {}, client_ca_file: {} }} }} }}\n{more}\n",
        server.yaml(),
        ca.display()
    );
    let dependent = format!(
        "listeners: {{ db: {{ tcp: 127.0.0.1:0, target: \"DB:1\", user: alice }} }}\nroutes: [ {{ to: edge }} ]\n\
         upstreams: {{ edge: {{ endpoints: [\"EDGE\"], http: {http}, tls: {{ ca_file: {}, {} }} }} }}\n",
        pki.ca().display(),
        client.yaml()
    );
    (edge, dependent)
}

#[test]
fn an_authority_that_is_no_longer_believed_ends_what_its_certificates_opened() {
    let (pki, other, origin) = (Pki::new(), Pki::new(), origins::tcp_echo());
    let ca = pki.folder().join("clients.pem");
    let peers = [
        "",
        "\npeers: { dp: { certificate: alice.overlay, speaks_for: [alice] } }",
    ];
    for (peers, http) in peers.into_iter().flat_map(|peers| [(peers, 2), (peers, 3)]) {
        fs::copy(pki.ca(), &ca).unwrap();
        let more = format!(
            "routes: [ {{ terminate: db }} ]\nupstreams: {{ db: {{ endpoints: [\"{}\"] }} }}{peers}",
            origin.address()
        );
        let (yaml, dependent) = certified(&pki, &ca, http, &more);
        let edge = Node::start("edge", &yaml);
        let node = Node::start(
            "alice",
            &dependent.replace("EDGE", &edge.address("web").to_string()),
        );
        let mut tunnel = Raw::connect(node.address("db"));
        tunnel.send("x");
        assert_eq!(tunnel.exactly(1), b"x");
        // Another authority beside it changes nothing.
        let both = format!(
            "{}{}",
            fs::read_to_string(other.ca()).unwrap(),
            fs::read_to_string(pki.ca()).unwrap()
        );
        fs::write(&ca, both).unwrap();
        assert_eq!(reload(&edge, &yaml), counts(1, 0, 0, 0));
        fs::copy(other.ca(), &ca).unwrap();
        assert_eq!(
            reload(&edge, &yaml),
            counts(0, 0, 0, 1),
            "{peers}, HTTP/{http}"
        );
        assert_eq!(tunnel.rest().1, End::Reset);
        let record = edge.record(|_| true);
        let reason = record["reason"].as_str().unwrap();
        let expected = "policy_changed: its certificate is not accepted any more: ";
        assert!(reason.starts_with(expected), "{record}");
    }
}

/// A node whose ports belong to `user` and set `service`, before another proxy.
fn labelled(edge: &Node, user: &str, service: &str) -> String {
    let keys = format!("user: {user}, set: {{ service: {service} }}");
    format!(
        "listeners:\n  db: {{ tcp: 127.0.0.1:0, target: \"DB:1\", {keys} }}\n  \
         voice: {{ udp: 127.0.0.1:0, target: \"VOICE:1\", {keys} }}\nroutes: [ {{ to: edge }} ]\n\
         upstreams: {{ edge: {{ endpoints: [\"{}\"] }} }}\n",
        edge.address("web")
    )
}

#[test]
fn what_the_listener_says_now_of_user_and_fields_counts_for_open_tunnels_too() {
    let (tcp, udp) = (origins::tcp_echo(), origins::udp_echo(origins::V4));
    let edge = Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}\nroutes:\n  \
             - {{ name: new, match: {{ target: VOICE, fields: {{ service: new }} }}, terminate: udp }}\n  \
             - {{ name: old, match: {{ target: VOICE }}, terminate: udp }}\n  - {{ terminate: tcp }}\nupstreams:\n  \
             tcp: {{ endpoints: [\"{}\"] }}\n  udp: {{ endpoints: [\"{}\"] }}\n",
            tcp.address(),
            udp.address()
        ),
    );
    let node = Node::start("dp", &labelled(&edge, "alice", "old"));
    let client = Client::connect(node.address("voice"));
    assert_eq!(client.ask("first"), b"first");
    let mut tunnel = Raw::connect(node.address("db"));
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    assert_eq!(
        reload(&node, &labelled(&edge, "alice", "old")),
        counts(2, 0, 0, 0)
    );
    // Datagrams move to a tunnel that says so; bytes cannot.
    assert_eq!(
        reload(&node, &labelled(&edge, "alice", "new")),
        counts(0, 1, 1, 0)
    );
    hermes_tests::eventually::eventually_true("the next proxy is told", || {
        assert_eq!(client.ask("again"), b"again");
        edge.exchanges()
            .iter()
            .any(|exchange| exchange["route"] == "new")
    });
    tunnel.send("y");
    assert_eq!(tunnel.exactly(1), b"y");
    assert_eq!(
        reload(&node, &labelled(&edge, "bob", "new")),
        counts(0, 0, 0, 2)
    );
    assert_eq!(tunnel.rest().1, End::Reset);
    let record = node.record(|record| record["kind"] == "connect");
    assert_eq!(
        record["reason"], "policy_changed: it would be user bob's now, not user alice's",
        "{record}"
    );
    assert_eq!(
        client.ask("once more"),
        b"once more",
        "the next datagram opens bob's tunnel"
    );
    assert_eq!(node.exchanges()[0]["user"], "bob");
}
