//! Open tunnels are asked about again: after a reload, and when an answer does not count any more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{self, Answer, Origin, Question, deciding};
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Node, curl};
use serde_json::json;

/// A server whose status the test sets, and what it adds to its answers.
fn settable(fields: &'static [(&'static str, &'static str)]) -> (Origin<Question>, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let says = status.clone();
    (
        deciding(move |_| Answer::new(says.load(Ordering::Relaxed), fields)),
        status,
    )
}

/// A datagram, and whose it was.
type Heard = (SocketAddr, Vec<u8>);

/// A node with ports for an echo of each kind; `keys` are further keys of the filter.
fn ports(
    server: &Origin<Question>,
    (tcp, udp): (&Origin<Vec<u8>>, &Origin<Heard>),
    keys: &str,
) -> String {
    format!(
        r#"
        listeners:
          db: {{ tcp: 127.0.0.1:0, target: "DB:1" }}
          voice: {{ udp: 127.0.0.1:0, target: "VOICE:1" }}
        authorize: [{{ name: check, url: "http://{}", timeout: 5s, {keys} }}]
        routes:
          - {{ match: {{ target: VOICE }}, terminate: udp }}
          - {{ match: {{ target: DB }}, terminate: tcp }}
        upstreams:
          tcp: {{ endpoints: ["{}"] }}
          udp: {{ endpoints: ["{}"] }}
        "#,
        server.address(),
        tcp.address(),
        udp.address()
    )
}

fn open(node: &Node) -> Raw {
    let mut tunnel = Raw::connect(node.address("db"));
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    tunnel
}

#[test]
fn a_reload_asks_about_open_tunnels_and_a_denial_ends_them_with_its_reason() {
    let (tcp, udp) = (origins::tcp_echo(), origins::udp_echo(origins::V4));
    let (server, status) = settable(&[]);
    let yaml = ports(&server, (&tcp, &udp), "");
    let node = Node::start("alice", &yaml);
    let mut tunnel = open(&node);
    let voice = Client::connect(node.address("voice"));
    assert_eq!(voice.ask("x"), b"x");
    let asked = json!({ "kept": 0, "outlive": 0, "moved": 0, "ended": 0, "asked": 2 });
    assert_eq!(node.reload(&yaml).1["tunnels"], asked);
    eventually_true("the server is asked about both again", || {
        server.seen().len() == 4
    });
    tunnel.send("y");
    assert_eq!(
        (tunnel.exactly(1), voice.ask("y")),
        (b"y".to_vec(), b"y".to_vec())
    );
    status.store(403, Ordering::Relaxed);
    assert_eq!(node.reload(&yaml).1["tunnels"], asked);
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    for kind in ["connect", "connect-udp"] {
        let record = node.record(|record| record["kind"] == kind);
        assert_eq!(
            record["reason"], "policy_changed: http_request_denied: check denied: 403",
            "{record}"
        );
        assert_eq!(record["filters"], json!(["check denied: 403"]));
    }
    let first = &server.seen()[0].request;
    assert_eq!(
        (first.host().as_deref(), first.path.as_str()),
        (Some("db:1"), "/"),
        "the question is the same each time"
    );
}

#[test]
fn an_answer_counts_for_as_long_as_it_says() {
    let (tcp, udp) = (origins::tcp_echo(), origins::udp_echo(origins::V4));
    let (server, status) = settable(&[("cache-control", "max-age=1")]);
    let node = Node::start("alice", &ports(&server, (&tcp, &udp), ""));
    let mut tunnel = open(&node);
    eventually_true("the server is asked again, twice", || {
        server.seen().len() == 3
    });
    tunnel.send("y");
    assert_eq!(tunnel.exactly(1), b"y");
    status.store(403, Ordering::Relaxed);
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    assert_eq!(
        node.record(|_| true)["reason"],
        "policy_changed: http_request_denied: check denied: 403"
    );
}

#[test]
fn the_file_says_how_long_an_answer_counts_that_does_not_say_so() {
    let (tcp, udp) = (origins::tcp_echo(), origins::udp_echo(origins::V4));
    let (server, status) = settable(&[]);
    let node = Node::start("alice", &ports(&server, (&tcp, &udp), "recheck: 1s"));
    let mut tunnel = open(&node);
    eventually_true("the server is asked again", || server.seen().len() == 2);
    status.store(403, Ordering::Relaxed);
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
}

#[test]
fn a_server_that_gives_no_answer_for_a_while_ends_no_tunnel() {
    let (tcp, udp) = (origins::tcp_echo(), origins::udp_echo(origins::V4));
    let (server, status) = settable(&[]);
    let yaml = |grace: &str| ports(&server, (&tcp, &udp), grace);
    let node = Node::start("alice", &yaml(""));
    let mut tunnel = open(&node);
    status.store(500, Ordering::Relaxed);
    assert_eq!(node.reload(&yaml("")).1["tunnels"]["asked"], 1);
    eventually_true("the server is asked twice in vain", || {
        server.seen().len() == 3
    });
    tunnel.send("y");
    assert_eq!(tunnel.exactly(1), b"y");
    status.store(200, Ordering::Relaxed);
    let allowed =
        "hermes_filter_decisions_total{filter=\"check\",outcome=\"allowed\",remembered=\"no\"} 2";
    eventually_true("it decides again", || node.metrics().contains(allowed));
    tunnel.send("z");
    assert_eq!(tunnel.exactly(1), b"z");
    status.store(500, Ordering::Relaxed);
    assert_eq!(node.reload(&yaml("grace: 0s")).1["tunnels"]["asked"], 1);
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    let record = node.record(|_| true);
    let reason =
        "policy_changed: http_request_denied: check failed_closed: the server answered 500";
    assert_eq!(record["reason"], reason);
}

#[test]
fn a_role_that_changes_moves_datagrams_and_ends_what_it_does_not_allow() {
    let (one, two) = (
        origins::udp_echo(origins::V4),
        origins::udp_echo(origins::V4),
    );
    let role = Arc::new(AtomicU16::new(1));
    let says = role.clone();
    let server = deciding(move |_| Answer {
        fields: vec![("x-role", says.load(Ordering::Relaxed).to_string())],
        ..Answer::new(200, &[])
    });
    let yaml = format!(
        r#"
        fields: [user, service, x-role]
        listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "VOICE:1" }} }}
        authorize: [{{ name: check, url: "http://{}", timeout: 5s, allow_fields: [x-role] }}]
        routes:
          - {{ match: {{ fields: {{ x-role: 1 }} }}, terminate: one }}
          - {{ match: {{ fields: {{ x-role: 2 }} }}, terminate: two }}
        upstreams: {{ one: {{ endpoints: ["{}"] }}, two: {{ endpoints: ["{}"] }} }}
        "#,
        server.address(),
        one.address(),
        two.address()
    );
    let node = Node::start(
        "alice",
        &yaml
            .replace("x-role: 1", "x-role: \"1\"")
            .replace("x-role: 2", "x-role: \"2\""),
    );
    let yaml = std::fs::read_to_string(node.file()).unwrap();
    let voice = Client::connect(node.address("voice"));
    assert_eq!(voice.ask("x"), b"x");
    role.store(2, Ordering::Relaxed);
    assert_eq!(node.reload(&yaml).1["tunnels"]["asked"], 1);
    eventually_true("datagrams go the new way", || {
        assert_eq!(voice.ask("y"), b"y");
        !two.seen().is_empty()
    });
    assert_eq!(node.exchanges().len(), 1, "it is the same exchange");
    role.store(3, Ordering::Relaxed);
    assert_eq!(node.reload(&yaml).1["tunnels"]["asked"], 1);
    assert_eq!(
        node.record(|_| true)["reason"],
        "policy_changed: no route allows it any more"
    );
}

#[test]
fn the_server_sees_the_proxys_credentials_if_they_are_named() {
    let server =
        deciding(
            |question| match question.request.field("proxy-authorization").as_deref() {
                Some("Basic YTpi") => Answer::new(200, &[("user", "carol")]),
                _ => Answer::new(407, &[("proxy-authenticate", "Basic realm=\"here\"")]),
            },
        );
    let ask = |send: &str| {
        let node = super::node(&server, &format!("{send} allow_fields: [user]"));
        curl(&["-x", &node.url("web"), "-U", "a:b", "http://video/"])
    };
    let got = ask("send: [proxy-authorization],");
    assert_eq!((got.status, got.text().as_str()), (200, "carol"));
    for others in ["", "send: [\"*\", authorization],"] {
        let got = ask(others);
        assert_eq!(got.status, 407);
        assert_eq!(
            got.field("proxy-authenticate").as_deref(),
            Some("Basic realm=\"here\"")
        );
    }
}

#[test]
fn a_server_is_named_in_a_line() {
    let server = deciding(|_| Answer::new(200, &[]));
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nauthorize: [{{ name: check, url: \"http://{}/check\", timeout: 5s }}]\n\
         routes: [{{ respond: {{ status: 200 }} }}]\n",
        server.address()
    );
    let node = Node::start("sap", &yaml);
    for _ in 0..3 {
        assert_eq!(
            curl(&["-x", &node.url("web"), "http://video/a"]).status,
            200
        );
    }
    assert_eq!(
        (
            server.last().request.path.as_str(),
            server.connections() <= 2
        ),
        ("/check/a", true)
    );
}
