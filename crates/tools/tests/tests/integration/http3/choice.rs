//! Which version is used, where there are several.

use std::net::UdpSocket;

use hermes_tests::{Node, Pki, curl, eventually, origins};

use crate::http3::overlay::{end, upstream};

/// A node that forwards for programs here to `next`.
fn entry(next: &str) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ to: next }} ]
        upstreams: {{ next: {next} }}
        workers: 1
        "#
    );
    Node::start("entry", &yaml)
}

/// What the entry says of HTTP/3 to its upstream.
fn http3(node: &Node) -> String {
    node.status()["upstreams"][0]["endpoints"][0]["http3"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn http3_is_used_where_it_is_preferred_and_works() {
    let (pki, origin) = (Pki::new(), origins::http());
    let end = Node::start("end", &end(&pki.issue(&["127.0.0.1"]).yaml()));
    for (http, protocol) in [
        ("[3, 2, 1]", "h3"),
        ("[2, 3]", "h2"),
        ("[3, 1]", "h3"),
        ("2", "h2"),
    ] {
        // On a machine that is busy with other things, the handshake may take longer than its head start.
        let spoken = eventually("the preferred version", || {
            let entry = entry(&upstream(&pki, end.address("web"), http));
            let path = format!("{protocol}/{}", entry.pid());
            let got = curl(&[
                "-x",
                &entry.url("web"),
                &format!("http://{}/{path}", origin.address()),
            ]);
            assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
            let record = end.record(|record| {
                record["target"]
                    .as_str()
                    .is_some_and(|target| target.ends_with(&path))
            });
            let spoken = record["protocol"].as_str().unwrap().to_owned();
            (spoken == protocol).then_some(spoken)
        });
        assert_eq!(spoken, protocol, "http: {http}");
    }
}

#[test]
fn where_udp_leads_nowhere_the_next_version_is_used_and_that_is_remembered() {
    let (pki, origin) = (Pki::new(), origins::http());
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let end = Node::start("end", &end(&tls).replace("tls:", "versions: [1, 2], tls:"));
    // Packets arrive and no one answers.
    let silent = UdpSocket::bind(end.address("web")).unwrap();
    let entry = entry(&upstream(&pki, end.address("web"), "[3, 2]"));
    assert_eq!(http3(&entry), "not tried yet");
    for _ in 0..3 {
        let got = curl(&[
            "-x",
            &entry.url("web"),
            &format!("http://{}/", origin.address()),
        ]);
        assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    }
    let record = end.record(|record| record["event"] == "end");
    assert_eq!(record["protocol"], "h2");
    assert!(
        http3(&entry).starts_with("left out for "),
        "{}",
        http3(&entry)
    );
    drop(silent);
}

#[test]
fn without_another_version_a_silent_port_is_a_failure_of_the_connection() {
    let (pki, origin) = (Pki::new(), origins::http());
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let next = upstream(&pki, silent.local_addr().unwrap(), "3")
        .replace("tls:", "timeouts: { connect: 500ms }, tls:");
    let entry = entry(&next);
    let got = curl(&[
        "-x",
        &entry.url("web"),
        &format!("http://{}/", origin.address()),
    ]);
    assert_eq!((got.exit, got.status), (0, 504), "{got:?}");
    assert!(
        got.field("proxy-status")
            .unwrap()
            .contains("error=connection_timeout"),
        "{got:?}"
    );
}

#[test]
fn a_gateway_says_over_tcp_that_it_speaks_http3() {
    let (pki, origin) = (Pki::new(), origins::http());
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let gateway = |versions: &str| {
        let yaml = format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0, gateway: true, {versions} tls: {{ {tls} }} }}
              clear: {{ http: 127.0.0.1:0, gateway: true }}
            routes: [ {{ match: {{ path: /gone }}, respond: {{ status: 410 }} }}, {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        );
        Node::start("gate", &yaml)
    };
    let ca = pki.ca();
    let ask = |url: String| curl(&["--cacert", ca.to_str().unwrap(), &url]);
    let node = gateway("");
    let address = node.address("web");
    let expected = format!("h3=\":{}\"; ma=86400", address.port());
    for path in ["/", "/gone"] {
        assert_eq!(
            ask(format!("https://{address}{path}")).field("alt-svc"),
            Some(expected.clone())
        );
    }
    assert_eq!(
        ask(format!("{}/", node.url("clear"))).field("alt-svc"),
        None
    );
    for (alt_svc, expected) in [
        ("alt_svc: 443,", Some("h3=\":443\"; ma=86400".to_owned())),
        ("alt_svc: false,", None),
    ] {
        let node = gateway(alt_svc);
        let url = format!("https://{}/", node.address("web"));
        assert_eq!(ask(url).field("alt-svc"), expected);
    }
    let node = gateway("versions: [1, 2],");
    assert_eq!(
        ask(format!("https://{}/", node.address("web"))).field("alt-svc"),
        None
    );
}

#[test]
fn only_http3_means_that_no_tcp_port_is_open() {
    let (pki, origin) = (Pki::new(), origins::http());
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let end = Node::start("end", &end(&tls).replace("tls:", "versions: 3, tls:"));
    let address = end.address("web");
    assert!(std::net::TcpStream::connect(address).is_err());
    let entry = entry(&upstream(&pki, address, "3"));
    let got = eventually("an answer over HTTP/3", || {
        let got = curl(&[
            "-x",
            &entry.url("web"),
            &format!("http://{}/", origin.address()),
        ]);
        (got.status == 200).then_some(got)
    });
    assert_eq!(got.exit, 0);
}
