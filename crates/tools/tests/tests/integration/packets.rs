//! CONNECT-IP (RFC 9484): routed by what it asks for, and carried on to other proxies in every version of HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use hermes_tests::capsules::{DATAGRAM, UdpTunnel};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, h2c, h3c};
use serde_json::Value;

use crate::http3::overlay::{VERSIONS, upstream};

/// The path that asks for all packets (RFC 9484, 3).
const ALL: &str = "/.well-known/masque/ip/*/*/";

const YAML: &str = r#"
    listeners: { web: { http: 127.0.0.1:0 } }
    routes:
      - { name: bytes, match: { kind: [http, connect] }, respond: { status: 410 } }
      - { name: lab, match: { kind: connect-ip, target: 10.1.0.0/16 }, respond: { status: 403 } }
      - { name: names, match: { target: "*.example.com" }, respond: { status: 409 } }
      - { name: packets, match: { kind: connect-ip }, to: next }
    upstreams: { next: { endpoints: ["127.0.0.1:9"] } }
"#;

/// What CONNECT-IP with these values is answered over HTTP/1.1.
fn ask(node: &Node, values: &str) -> u16 {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET /.well-known/masque/ip/{values}/ HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade\r\nUpgrade: connect-ip\r\n\
         Capsule-Protocol: ?1\r\n\r\n"
    ));
    raw.head().status()
}

#[test]
fn packets_are_routed_by_kind_prefix_and_name() {
    let node = Node::start("edge", YAML);
    for (values, status, route) in [
        ("10.1.2.3/6", 403, "lab"),
        ("10.1.128.0%2F17/*", 403, "lab"),
        ("10.0.0.0%2F8/*", 502, "packets"),
        ("*/*", 502, "packets"),
        ("vpn.example.com/17", 409, "names"),
        ("2001%3Adb8%3A%3A%2F32/58", 502, "packets"),
    ] {
        assert_eq!(ask(&node, values), status, "{values}");
        let record = node.record(|record| record["status"] == status && record["route"] == route);
        assert_eq!(record["kind"], "connect-ip");
    }
    node.record(|record| record["target"] == "2001:db8::/32 protocol 58");
}

#[test]
fn a_route_that_ends_at_servers_takes_no_packets() {
    let yaml = "
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true } ]
    ";
    let node = Node::start("edge", yaml);
    assert_eq!(ask(&node, "*/*"), 501);
    let record = node.record(|record| record["status"] == 501);
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("no packets are taken"), "{reason}");
}

#[test]
fn what_names_no_packets_is_a_bad_request() {
    let node = Node::start("edge", YAML);
    for (values, status) in [
        ("10.1.2.3%2F16/*", 400),
        ("10.1.0.0%2F33/*", 400),
        ("*/256", 400),
        ("10.1.0.0/16/6", 404),
    ] {
        assert_eq!(ask(&node, values), status, "{values}");
    }
}

#[test]
fn every_version_knows_them() {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let node = Node::start(
        "edge",
        &YAML.replace(
            "web: { http: 127.0.0.1:0 }",
            &format!(
                "web: {{ http: 127.0.0.1:0 }}, tls: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }}"
            ),
        ),
    );

    let client = h2c::Client::connect(node.address("web"));
    let refused = client.extended("connect-ip", &format!("http://proxy{ALL}"), &[]);
    assert_eq!(refused.err().map(|answer| answer.status), Some(502));

    let lines = [
        (":method", "CONNECT"),
        (":protocol", "connect-ip"),
        (":scheme", "https"),
        (":authority", "proxy"),
        (":path", ALL),
        ("capsule-protocol", "?1"),
    ];
    let answer: Value = h3c::ask(&pki.ca(), node.address("tls"), &lines);
    assert_eq!(answer["status"], 502, "{answer}");
}

/// Answers CONNECT-IP over HTTP/1.1 and sends back what comes, capsule by capsule.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }

    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let asks = head.starts_with(&format!("get {ALL} http/1.1\r\n"))
        && head.contains("upgrade: connect-ip\r\n")
        && head.contains("capsule-protocol: ?1\r\n");
    assert!(asks, "{head}");

    stream
        .write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: connect-ip\r\nCapsule-Protocol: ?1\r\n\r\n",
        )
        .unwrap();
    let mut back = stream.try_clone().unwrap();
    // The test may leave first.
    drop(std::io::copy(&mut stream, &mut back));
}

/// Two nodes before [`echo`]: listener `vN` of the first reaches the second in version N.
fn two_nodes() -> [Node; 2] {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let end = Node::start(
        "end",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}\nroutes: [ {{ to: echo }} ]\n\
             upstreams: {{ echo: {{ endpoints: [\"{}\"] }} }}\n",
            echo()
        ),
    );

    let mut listeners = String::from("listeners:\n");
    let mut routes = String::from("routes:\n");
    let mut upstreams = String::from("upstreams:\n");
    for version in VERSIONS {
        let to = upstream(&pki, end.address("web"), &version.to_string());
        listeners += &format!("  v{version}: {{ http: 127.0.0.1:0 }}\n");
        routes += &format!("  - {{ match: {{ listener: v{version} }}, to: e{version} }}\n");
        upstreams += &format!("  e{version}: {to}\n");
    }
    let entry = Node::start("entry", &(listeners + &routes + &upstreams));
    [entry, end]
}

#[test]
fn packets_and_capsules_pass_on_as_they_are_in_every_version() {
    /// ADDRESS_REQUEST (RFC 9484, 4.7.2), and a type that no one knows.
    const OTHERS: [u64; 2] = [0x02, 0x3f_fe];

    let [entry, end] = two_nodes();
    for version in VERSIONS {
        let mut tunnel =
            UdpTunnel::h1_for(entry.address(&format!("v{version}")), "connect-ip", ALL, "")
                .unwrap();
        for length in [20, 1000, 1180] {
            let packet = vec![0x45; length];
            assert_eq!(tunnel.ask(&packet), packet, "HTTP/{version}");
        }

        for kind in OTHERS {
            let value = vec![9; 300];
            tunnel.send_capsule(kind, &value);
            let came = loop {
                // Answers to packets that were asked again.
                let capsule = tunnel.capsule();
                if capsule.0 != DATAGRAM {
                    break capsule;
                }
            };
            assert_eq!(came, (kind, value), "HTTP/{version}");
        }

        drop(tunnel);
        let record = end.record(|record| {
            record["event"] == "end" && record["protocol"] == format!("h{version}")
        });
        assert_eq!(record["kind"], "connect-ip");
        let bytes = record["bytes"]["client_to_target"].as_u64();
        assert!(bytes >= Some(20 + 1000 + 1180), "{record:#}");
    }
}

#[test]
fn a_capsule_that_is_none_ends_its_tunnel_and_nothing_else() {
    let [entry, _end] = two_nodes();
    for version in VERSIONS {
        let open =
            || UdpTunnel::h1_for(entry.address(&format!("v{version}")), "connect-ip", ALL, "");
        let mut hostile = open().unwrap();
        let mut other = open().unwrap();

        // A packet longer than any IP packet.
        hostile.send_capsule(DATAGRAM, &vec![0; 70_000]);
        hostile.finish();
        assert_eq!(other.ask([0x45; 40]), [0x45; 40], "HTTP/{version}");
    }
}
