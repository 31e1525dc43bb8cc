//! The examples and the rules of the draft, byte by byte.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins};

use super::{DATA, END, FINAL_DATA, forwarder, path, read, tunnel};

#[test]
fn the_example_over_http_1() {
    let (end, target) = (Node::start("end", END), origins::tcp_echo());
    let mut raw = Raw::connect(end.address("web"));
    let port = target.address().port();
    raw.send(format!(
        "GET /proxy?target_host=127.0.0.1&target_port={port} HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\n\
         Upgrade: connect-tcp\r\nCapsule-Protocol: ?1\r\n\r\n"
    ));
    let head = raw.head();
    assert_eq!(head.status(), 101, "{head:?}");
    assert_eq!(head.field("upgrade").as_deref(), Some("connect-tcp"));
    assert_eq!(head.field("capsule-protocol").as_deref(), Some("?1"));
    assert_eq!(head.field("proxy-status").as_deref(), Some("end"));
    raw.send(b"\xa0\x28\xd7\xf2\x03abc");
    assert_eq!(raw.exactly(8), b"\xa0\x28\xd7\xf2\x03abc");
    let record = |event| {
        end.record(move |record| record["kind"] == "connect-tcp" && record["event"] == event)
    };
    raw.send(b"\xa0\x28\xd7\xf3\x01d");
    assert_eq!(raw.exactly(6), b"\xa0\x28\xd7\xf2\x01d");
    assert_eq!(raw.exactly(5), b"\xa0\x28\xd7\xf3\x00");
    // Both directions of TCP have ended, and so does the stream.
    assert_eq!(raw.rest().0, b"");
    drop(raw);
    assert_eq!(record("end")["reason"], "done");
    assert_eq!(record("end")["target"], format!("127.0.0.1:{port}"));
}

#[test]
fn the_example_over_http_2() {
    let (end, target) = (Node::start("end", END), origins::tcp_echo());
    let (address, port) = (end.address("web"), target.address().port());
    let client = Client::connect(address);
    let uri = format!("http://{address}/proxy?target_host=127.0.0.1&target_port={port}");
    let stream = client
        .extended("connect-tcp", &uri, &[("capsule-protocol", "?1")])
        .unwrap();
    assert_eq!(stream.fields.get("capsule-protocol").unwrap(), "?1");
    let mut tunnel = UdpTunnel::h2_for(&client, "connect-tcp", &uri).unwrap();
    tunnel.send_capsule(DATA, b"hello");
    tunnel.send_capsule(FINAL_DATA, b" there");
    assert_eq!(read(&mut tunnel), (b"hello there".to_vec(), vec![]));
    assert_eq!(tunnel.rest(), Some(vec![]));
}

#[test]
fn a_target_that_is_not_reached_is_never_accepted() {
    let end = Node::start("end", END);
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let refused =
        |path: &str| UdpTunnel::h1_for(end.address("web"), "connect-tcp", path, "").unwrap_err();
    let head = refused(&path(closed));
    assert_eq!(head.status(), 502);
    assert!(
        head.field("proxy-status")
            .unwrap()
            .starts_with("end; error=connection_refused"),
        "{head:?}"
    );
    assert_eq!(
        refused("/.well-known/masque/tcp/10.0.0.1/80/").status(),
        502
    );
    assert_eq!(
        refused("/.well-known/masque/tcp/127.0.0.1/0/").status(),
        400
    );
    assert_eq!(
        refused("/.well-known/masque/udp/127.0.0.1/80/").status(),
        404
    );
    assert_eq!(refused("/other").status(), 404);
}

#[test]
fn who_expects_it_is_told_that_the_request_has_come() {
    let (end, target) = (Node::start("end", END), origins::tcp_echo());
    let forwarder = forwarder(end.address("web"), 2, "tunnel: connect-tcp");
    for node in [&end, &forwarder] {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "GET {} HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade\r\nUpgrade: connect-tcp\r\nExpect: 100-continue\r\n\r\n",
            path(target.address())
        ));
        assert_eq!(raw.head().status(), 100);
        assert_eq!(raw.head().status(), 101);
    }
}

#[test]
fn capsules_of_other_types_pass_a_forwarder_and_end_at_the_end() {
    let (end, target) = (Node::start("end", END), origins::tcp_echo());
    for version in [1, 2] {
        let node = forwarder(end.address("web"), version, "");
        let mut tunnel = tunnel(node.address("web"), target.address());
        tunnel.send_capsule(0x1234, &[7; 100_000]);
        tunnel.send_capsule(DATA, b"");
        tunnel.send_capsule(DATA, b"here");
        tunnel.send_capsule(0x1235, b"");
        tunnel.send_capsule(FINAL_DATA, b"");
        assert_eq!(read(&mut tunnel), (b"here".to_vec(), vec![]));
    }
}

#[test]
fn a_route_can_tell_connect_tcp_by_its_protocol() {
    let yaml = r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { match: { protocol: connect-tcp, path: "/.well-known/*" }, respond: { status: 418 } }, { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
    "#;
    let (node, target) = (Node::start("end", yaml), origins::tcp_echo());
    let head = UdpTunnel::h1_for(
        node.address("web"),
        "connect-tcp",
        &path(target.address()),
        "",
    )
    .unwrap_err();
    assert_eq!(head.status(), 418);
    assert!(Raw::tunnel(node.address("web"), &target.address().to_string(), "").is_ok());
}
