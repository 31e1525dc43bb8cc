//! CONNECT and CONNECT-UDP: tunnels that a client asks for.

use std::time::Duration;

use hermes_tests::capsules::{UdpTunnel, path};
use hermes_tests::eventually::eventually_true;
use hermes_tests::h2c::Client;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, Pki, curl, eventually, origins};

#[test]
fn curl_reaches_an_https_origin_through_a_tunnel() {
    let (node, pki) = (Node::forward_proxy(), Pki::new());
    let origin = origins::https(&pki, &["127.0.0.1"]);
    let (ca, url) = (pki.ca(), format!("https://{}/a", origin.address()));
    let got = curl(&[
        "--http1.1",
        "--cacert",
        ca.to_str().unwrap(),
        "-x",
        &node.url("web"),
        &url,
    ]);
    assert_eq!(
        (got.exit, got.status, got.connect_status),
        (0, 200, 200),
        "{got:?}"
    );
    assert_eq!(
        got.json()["fields"].get("via"),
        None,
        "no one looks into the tunnel: {got:?}"
    );
    let record = node.record(|_| true);
    assert_eq!(
        (&record["kind"], &record["method"]),
        (&"connect".into(), &"CONNECT".into())
    );
    assert_eq!(record["target"], origin.address().to_string());
}

#[test]
fn http_2_passes_through_a_tunnel() {
    let (node, pki) = (Node::forward_proxy(), Pki::new());
    let origin = origins::https(&pki, &["127.0.0.1"]);
    let (ca, url) = (
        pki.ca(),
        format!("https://{}/bytes/2000000", origin.address()),
    );
    let got = curl(&[
        "--http2",
        "--cacert",
        ca.to_str().unwrap(),
        "-x",
        &node.url("web"),
        &url,
    ]);
    assert_eq!(
        (got.exit, got.version.as_str(), got.body.len()),
        (0, "2", 2_000_000),
        "{}",
        got.stderr
    );
}

#[test]
fn the_server_may_speak_first_and_last() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_speaks_first());
    let mut raw = Raw::tunnel(node.address("web"), &origin.address().to_string(), "").unwrap();
    assert_eq!(
        raw.exactly(origins::GREETING.len()),
        origins::GREETING.as_bytes()
    );
    raw.send("hello");
    raw.finish();
    let expected = format!("hello{}", origins::farewell(5));
    assert_eq!(raw.rest(), (expected.into_bytes(), End::Closed));
}

#[test]
fn what_is_sent_with_the_request_enters_the_tunnel() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_echo());
    let mut raw = Raw::connect(node.address("web"));
    let authority = origin.address();
    raw.send(format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\nearly"
    ));
    let head = raw.head();
    assert_eq!(head.status(), 200);
    assert_eq!(
        (
            head.field("content-length"),
            head.field("transfer-encoding")
        ),
        (None, None),
        "RFC 9110, 9.3.6"
    );
    raw.finish();
    assert_eq!(raw.rest(), (b"early".to_vec(), End::Closed));
}

#[test]
fn a_tunnel_over_http_2_closes_its_halves_one_by_one() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_speaks_first());
    let client = Client::connect(node.address("web"));
    let mut stream = client.tunnel(&origin.address().to_string(), &[]).unwrap();
    stream.send("hello");
    stream.finish();
    let expected = format!("{}hello{}", origins::GREETING, origins::farewell(5));
    assert_eq!(String::from_utf8(stream.rest().unwrap()).unwrap(), expected);
}

#[test]
fn many_tunnels_share_one_http_2_connection() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_echo());
    let client = Client::connect(node.address("web"));
    let authority = origin.address().to_string();
    let mut tunnels: Vec<_> = (0..20)
        .map(|_| client.tunnel(&authority, &[]).unwrap())
        .collect();
    for (number, tunnel) in tunnels.iter_mut().enumerate() {
        tunnel.send(format!("tunnel {number:02}"));
    }
    for (number, tunnel) in tunnels.iter_mut().enumerate() {
        assert_eq!(
            tunnel.exactly(9),
            format!("tunnel {number:02}").into_bytes()
        );
    }
    assert_eq!(node.exchanges().len(), 20);
    tunnels
        .iter_mut()
        .for_each(hermes_tests::h2c::Stream::finish);
    tunnels
        .iter_mut()
        .for_each(|tunnel| assert_eq!(tunnel.rest().unwrap(), b""));
    node.idle();
}

#[test]
fn a_reset_by_the_target_is_a_reset_for_the_client() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_resets());
    let authority = origin.address().to_string();
    let mut raw = Raw::tunnel(node.address("web"), &authority, "").unwrap();
    assert_eq!(raw.exactly(4), b"half");
    origin.release();
    assert_eq!(raw.rest(), (Vec::new(), End::Reset));
    let mut stream = Client::connect(node.address("web"))
        .tunnel(&authority, &[])
        .unwrap();
    assert_eq!(stream.exactly(4), b"half");
    origin.release();
    let error = stream.rest().unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::CONNECT_ERROR), "{error}");
    let record = node.record(|record| record["protocol"] == "h2");
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("target_reset"),
        "{record}"
    );
}

#[test]
fn a_reset_by_the_client_is_a_reset_for_the_target() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_echo());
    let authority = origin.address().to_string();
    let mut raw = Raw::tunnel(node.address("web"), &authority, "").unwrap();
    raw.send("ping");
    assert_eq!(raw.exactly(4), b"ping");
    raw.reset();
    let end = eventually("the target sees the end", || origin.seen().pop());
    assert_eq!(String::from_utf8(end).unwrap(), "ConnectionReset");
    let mut stream = Client::connect(node.address("web"))
        .tunnel(&authority, &[])
        .unwrap();
    stream.send("ping");
    assert_eq!(stream.exactly(4), b"ping");
    stream.reset();
    eventually_true("the target sees a second end", || origin.seen().len() == 2);
    assert_eq!(String::from_utf8(origin.last()).unwrap(), "ConnectionReset");
}

#[test]
fn tunnels_leave_no_descriptor_behind() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_echo());
    let (authority, before) = (origin.address().to_string(), node.fds());
    for number in 0..50 {
        let mut raw = Raw::tunnel(node.address("web"), &authority, "").unwrap();
        raw.send("x");
        assert_eq!(raw.exactly(1), b"x");
        if number % 2 == 0 {
            raw.reset()
        } else {
            drop(raw)
        }
    }
    eventually_true("descriptors are given back", || node.fds() <= before);
    node.idle();
}

#[test]
fn a_target_that_no_one_serves_is_a_bad_gateway_with_the_reason() {
    let node = Node::forward_proxy();
    let unserved = origins::Unserved::new();
    let gone = unserved.address();
    let head = Raw::tunnel(node.address("web"), &gone.to_string(), "").unwrap_err();
    assert_eq!(head.status(), 502);
    let status = head.field("proxy-status").unwrap();
    assert!(
        status.starts_with("alice; error=connection_refused;"),
        "{status}"
    );
}

#[test]
fn datagrams_pass_over_http_1() {
    let (node, origin) = (Node::forward_proxy(), origins::udp_echo(origins::V4));
    let mut tunnel = UdpTunnel::h1(node.address("web"), "127.0.0.1", origin.port(), "").unwrap();
    for size in [0, 1, 1200, 9000, 60_000] {
        let datagram = vec![b'd'; size];
        tunnel.send(&datagram);
        assert_eq!(tunnel.receive(), datagram);
    }
}

#[test]
fn datagrams_pass_over_http_2() {
    let (node, origin) = (Node::forward_proxy(), origins::udp_echo(origins::V6));
    let client = Client::connect(node.address("web"));
    assert!(client.extended_connect(), "RFC 8441, 3");
    let mut tunnel =
        UdpTunnel::h2(&client, node.address("web"), "::1", origin.port(), &[]).unwrap();
    for size in [0, 1, 1200, 9000, 60_000] {
        let datagram = vec![b'd'; size];
        tunnel.send(&datagram);
        assert_eq!(tunnel.receive(), datagram);
    }
    assert_eq!(node.exchanges()[0]["kind"], "connect-udp");
    assert_eq!(node.exchanges()[0]["datagrams_in"], 5);
    tunnel.finish();
    tunnel.rest();
    node.idle();
}

#[test]
fn unknown_capsules_and_contexts_are_passed_over() {
    let (node, origin) = (Node::forward_proxy(), origins::udp_echo(origins::V4));
    let mut tunnel = UdpTunnel::h1(node.address("web"), "127.0.0.1", origin.port(), "").unwrap();
    tunnel.send_capsule(0x2f3a, b"grease");
    tunnel.send_capsule(0, b"\x02other context");
    tunnel.send("known");
    assert_eq!(tunnel.receive(), b"known");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn a_capsule_that_lies_about_its_length_ends_the_tunnel() {
    let (node, origin) = (Node::forward_proxy(), origins::udp_echo(origins::V4));
    let mut tunnel = UdpTunnel::h1(node.address("web"), "127.0.0.1", origin.port(), "").unwrap();
    tunnel.send_bytes(&[0, 0x40, 0x10, 0, b'x']);
    tunnel.finish();
    assert_ne!(tunnel.rest(), Some(b"x".to_vec()));
    node.idle();
    assert!(origin.seen().is_empty());
}

#[test]
fn a_udp_path_that_is_no_target_is_a_bad_request() {
    let node = Node::forward_proxy();
    let proxy = node.address("web");
    for path in [
        "/.well-known/masque/udp/127.0.0.1/0/",
        "/.well-known/masque/udp//53/",
        "/.well-known/masque/udp/a/99999/",
    ] {
        let mut raw = Raw::connect(proxy);
        raw.send(format!(
            "GET http://{proxy}{path} HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\
             Capsule-Protocol: ?1\r\n\r\n"
        ));
        assert_eq!(raw.head().status(), 400, "{path}");
    }
    assert_eq!(path("::1", 53), "/.well-known/masque/udp/%3A%3A1/53/");
}

#[test]
fn a_udp_session_ends_when_it_is_silent() {
    let origin = origins::udp_echo(origins::V4);
    let node = Node::start(
        "alice",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true, timeouts: { udp: 300ms } } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let mut tunnel = UdpTunnel::h1(node.address("web"), "127.0.0.1", origin.port(), "").unwrap();
    tunnel.send("x");
    assert_eq!(tunnel.receive(), b"x");
    tunnel.rest();
    let record = node.record(|_| true);
    assert!(
        record["reason"].as_str().unwrap().starts_with("idle"),
        "{record}"
    );
    assert_eq!(record["datagrams"]["client_to_target"], 1);
    assert_eq!(record["datagrams"]["target_to_client"], 1);
}

#[test]
fn a_websocket_is_upgraded_at_the_origin() {
    let node = Node::forward_proxy();
    let origin = origins::tcp_upgrades();
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://{authority}/chat HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ));
    let head = raw.head();
    assert_eq!(
        (head.status(), head.field("upgrade").as_deref()),
        (101, Some("websocket")),
        "{head:?}"
    );
    raw.send("frames");
    assert_eq!(raw.exactly(6), b"frames");
}

#[test]
fn a_slow_reader_slows_the_sender() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://{authority}/bytes/200000000 HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    assert_eq!(raw.head().status(), 200);
    // No one reads: what the node has taken stops growing, below what kernel buffers and its own hold.
    let taken = || node.exchanges()[0]["target_to_client"].as_u64().unwrap();
    let mut last = 0;
    eventually("the transfer stands still", || {
        std::thread::sleep(Duration::from_millis(100));
        let now = taken();
        (std::mem::replace(&mut last, now) == now && now > 0).then_some(())
    });
    assert!(last < 100_000_000, "{last}");
    raw.reset();
    node.idle();
}
