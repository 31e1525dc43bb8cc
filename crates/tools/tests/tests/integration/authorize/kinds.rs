//! Tunnels of every kind, and ports of TCP and UDP, are decided about as messages are.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::eventually::eventually_true;
use hermes_tests::h2c::Client;
use hermes_tests::origins::{self, Answer, Question, deciding};
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client as UdpClient;
use hermes_tests::{Node, Pki, curl};

/// Allows what is for `good`.
fn good(question: &Question) -> Answer {
    let host = question
        .request
        .field("x-forwarded-host")
        .unwrap_or_default();
    Answer::new(
        if host.starts_with("good:") { 200 } else { 403 },
        &[("x-hermes-lane", "fast")],
    )
}

#[test]
fn tunnels_and_ports_are_decided_about() {
    let server = deciding(good);
    let (tcp, udp) = (origins::tcp_echo(), origins::udp_echo(origins::V4));
    let yaml = format!(
        r#"
        listeners:
          web: {{ http: 127.0.0.1:0 }}
          db: {{ tcp: 127.0.0.1:0, target: "good:5432", user: dave }}
          bad: {{ tcp: 127.0.0.1:0, target: "bad:5432" }}
          voice: {{ udp: 127.0.0.1:0, target: "good:53" }}
          noise: {{ udp: 127.0.0.1:0, target: "bad:53" }}
        authorize: [{{ name: check, upstream: authority, timeout: 5s, allow_fields: [x-hermes-lane] }}]
        routes:
          - {{ match: {{ fields: {{ x-hermes-lane: fast }}, protocol: connect-udp }}, terminate: udp }}
          - {{ match: {{ fields: {{ x-hermes-lane: fast }} }}, terminate: tcp }}
        upstreams:
          authority: {{ endpoints: ["{}"] }}
          tcp: {{ endpoints: ["{}"] }}
          udp: {{ endpoints: ["{}"] }}
        "#,
        server.address(),
        tcp.address(),
        udp.address()
    );
    let node = Node::start("dp", &yaml);
    let web = node.address("web");
    let mut tunnel = Raw::tunnel(web, "good:5432", "").unwrap();
    tunnel.send("ping");
    assert_eq!(tunnel.exactly(4), b"ping");
    assert_eq!(Raw::tunnel(web, "bad:5432", "").unwrap_err().status(), 403);
    let client = Client::connect(web);
    for mut tunnel in [
        UdpTunnel::h1(web, "good", 53, "").unwrap(),
        UdpTunnel::h2(&client, web, "good", 53, &[]).unwrap(),
    ] {
        tunnel.send("x");
        assert_eq!(tunnel.receive(), b"x");
    }
    assert_eq!(UdpTunnel::h1(web, "bad", 53, "").unwrap_err().status(), 403);
    let mut port = Raw::connect(node.address("db"));
    port.send("ping");
    assert_eq!(port.exactly(4), b"ping");
    Raw::connect(node.address("bad")).rest();
    let voice = UdpClient::connect(node.address("voice"));
    voice.send("x");
    assert_eq!(voice.receive(), b"x");
    UdpClient::connect(node.address("noise")).send("x");
    eventually_true("the noise is refused", || {
        node.access()
            .iter()
            .any(|record| record["listener"] == "noise" && record["status"] == 403)
    });
    let asked: Vec<_> = server
        .seen()
        .into_iter()
        .map(|question| question.request)
        .collect();
    let kinds = |kind: &str| {
        asked
            .iter()
            .filter(|request| request.field("x-hermes-kind").as_deref() == Some(kind))
            .count()
    };
    assert_eq!((kinds("connect"), kinds("connect-udp")), (4, 5));
    assert!(
        asked
            .iter()
            .any(|request| request.field("x-forwarded-user").as_deref() == Some("dave"))
    );
    assert!(asked.iter().all(|request| request.method == "GET"));
}

#[test]
fn servers_are_asked_over_http_2_and_tls_on_connections_that_are_kept() {
    let pki = Pki::new();
    let (clear, sealed) = (origins::http(), origins::https(&pki, &["127.0.0.1"]));
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        workers: 1
        authorize:
          - {{ name: clear, upstream: clear, timeout: 5s }}
          - {{ name: sealed, upstream: sealed, timeout: 5s, body: json }}
        routes: [{{ respond: {{ status: 200 }} }}]
        upstreams:
          clear: {{ endpoints: ["{}"], http: 2 }}
          sealed: {{ endpoints: ["{}"], tls: {{ ca_file: "{}" }} }}
        "#,
        clear.address(),
        sealed.address(),
        pki.ca().display()
    );
    let node = Node::start("sap", &yaml);
    for _ in 0..3 {
        assert_eq!(
            curl(&["-x", &node.url("web"), "http://video/a"]).status,
            200
        );
    }
    for (server, method) in [(&clear, "GET"), (&sealed, "POST")] {
        assert_eq!((server.seen().len(), server.connections()), (3, 1));
        let asked = server.last();
        assert_eq!(
            (
                asked.method.as_str(),
                asked.path.as_str(),
                asked.version.as_str()
            ),
            (method, "/a", "HTTP/2.0")
        );
    }
}
