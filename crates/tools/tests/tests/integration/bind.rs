//! CONNECT-UDP Bind (draft-ietf-masque-connect-udp-listen): one tunnel, many peers, through real processes.

use std::net::{SocketAddr, UdpSocket};

use hermes_tests::capsules::{DATAGRAM, UdpTunnel};
use hermes_tests::eventually::PATIENCE;
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, origins};

const ASSIGN: u64 = 0x11;
const ACK: u64 = 0x12;
const CLOSE: u64 = 0x13;

/// The path of no target.
const ANY: &str = "/.well-known/masque/udp/%2A/%2A/";

/// What asks for it.
const ASKS: &str = "Connect-UDP-Bind: ?1\r\n";

/// A node that binds sockets for its clients; peers on 127.0.0.2 are denied.
fn end(tls: &str) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 {tls} }} }}
        routes: [ {{ terminate: true, bind: {{ listen: 127.0.0.1 }} }} ]
        egress: {{ allow: [127.0.0.0/8], deny: [127.0.0.2/32] }}
        "#
    );
    Node::start("end", &yaml)
}

/// The address that the client was told.
fn public(text: &str) -> SocketAddr {
    text.trim_matches('"').parse().unwrap()
}

/// An open tunnel, and where its socket is.
fn open(proxy: SocketAddr) -> (UdpTunnel, SocketAddr) {
    let mut raw = Raw::connect(proxy);
    raw.send(format!(
        "GET {ANY} HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n{ASKS}\r\n"
    ));
    let head = raw.head();
    assert_eq!(head.status(), 101, "{head:?}");
    assert_eq!(head.field("connect-udp-bind").as_deref(), Some("?1"));
    assert_eq!(head.field("capsule-protocol").as_deref(), Some("?1"));
    let address = public(&head.field("proxy-public-address").unwrap());
    (UdpTunnel::of(raw), address)
}

fn peer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// What came, and from where.
fn heard(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut bytes = [0; 2000];
    let (length, from) = socket.recv_from(&mut bytes).unwrap();
    (bytes[..length].to_vec(), from)
}

/// Version, address and port, as they are written in capsules.
fn written(address: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(address) = address else {
        panic!("{address} is of IPv4")
    };
    [
        &[4][..],
        &address.ip().octets(),
        &address.port().to_be_bytes(),
    ]
    .concat()
}

fn assign(tunnel: &mut UdpTunnel, context: u8, to: Option<SocketAddr>) -> (u64, Vec<u8>) {
    tunnel.send_capsule(
        ASSIGN,
        &[vec![context], to.map_or_else(|| vec![0], written)].concat(),
    );
    tunnel.capsule()
}

fn send(tunnel: &mut UdpTunnel, context: u8, rest: &[&[u8]]) {
    tunnel.send_capsule(DATAGRAM, &[&[context][..], &rest.concat()].concat());
}

/// The draft's example, with peers on loopback.
fn example(proxy: SocketAddr) {
    let (mut tunnel, public) = open(proxy);
    let (first, second) = (peer(), peer());
    let (at_first, at_second) = (first.local_addr().unwrap(), second.local_addr().unwrap());

    assert_eq!(assign(&mut tunnel, 2, None), (ACK, vec![2]));
    first.send_to(b"hello", public).unwrap();
    assert_eq!(
        tunnel.capsule(),
        (DATAGRAM, [&[2][..], &written(at_first), b"hello"].concat())
    );
    send(&mut tunnel, 2, &[&written(at_first), b"and to you"]);
    assert_eq!(heard(&first), (b"and to you".to_vec(), public));

    second.send_to(b"me too", public).unwrap();
    assert_eq!(
        tunnel.capsule(),
        (
            DATAGRAM,
            [&[2][..], &written(at_second), b"me too"].concat()
        )
    );
    assert_eq!(assign(&mut tunnel, 4, Some(at_second)), (ACK, vec![4]));
    send(&mut tunnel, 4, &[b"short"]);
    assert_eq!(heard(&second), (b"short".to_vec(), public));
    second.send_to(b"answer", public).unwrap();
    assert_eq!(tunnel.capsule(), (DATAGRAM, b"\x04answer".to_vec()));

    // Who is not known is not heard any more.
    tunnel.send_capsule(CLOSE, &[2]);
    assert_eq!(
        assign(&mut tunnel, 6, Some("127.0.0.1:9".parse().unwrap())),
        (ACK, vec![6])
    );
    first.send_to(b"lost", public).unwrap();
    second.send_to(b"heard", public).unwrap();
    assert_eq!(tunnel.capsule(), (DATAGRAM, b"\x04heard".to_vec()));
    tunnel.finish();
    assert_eq!(tunnel.rest(), Some(vec![]));
}

#[test]
fn the_example_of_the_draft() {
    let end = end("");
    example(end.address("web"));
    let record = end.record(|record| record["event"] == "end");
    assert_eq!(
        (&record["kind"], &record["target"]),
        (&"connect-udp".into(), &"*:0".into()),
        "{record:#}"
    );
    assert_eq!(record["datagrams"]["dropped"], 1, "{record:#}");
}

/// A firewall's EPERM, in other words: the kernel sends no one a broadcast who did not ask to send some.
#[test]
fn a_datagram_that_this_machine_drops_is_lost_alone_and_counted() {
    let end = end("");
    let (mut tunnel, public) = open(end.address("web"));
    let peer = peer();
    let at = peer.local_addr().unwrap();
    let dropped: SocketAddr = "127.255.255.255:9".parse().unwrap();
    assert_eq!(assign(&mut tunnel, 2, None), (ACK, vec![2]));
    for round in 0..3 {
        send(&mut tunnel, 2, &[&written(dropped), b"lost"]);
        send(&mut tunnel, 2, &[&written(at), b"heard"]);
        assert_eq!(heard(&peer), (b"heard".to_vec(), public), "{round}");
    }
    tunnel.finish();
    assert_eq!(tunnel.rest(), Some(vec![]));
    let record = end.record(|record| record["event"] == "end");
    assert_eq!(record["datagrams"]["dropped"], 3, "{record:#}");
}

#[test]
fn contexts_pass_through_other_nodes_over_every_version() {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let end = end(&format!(", tls: {{ {tls} }}"));
    for version in [1, 2, 3] {
        let forwarder = |name: &str, next: SocketAddr, version: u8| {
            let yaml = format!(
                r#"
                listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }}, plain: {{ http: 127.0.0.1:0 }} }}
                routes: [ {{ to: next }} ]
                upstreams: {{ next: {{ endpoints: ["{next}"], http: {version}, tls: {{ ca_file: {} }} }} }}
                "#,
                pki.ca().display()
            );
            Node::start(name, &yaml)
        };
        let middle = forwarder("middle", end.address("web"), version);
        example(middle.address("plain"));
        let entry = forwarder("entry", middle.address("web"), 3);
        example(entry.address("plain"));
    }
}

#[test]
fn peers_that_egress_denies_are_neither_written_to_nor_heard() {
    let end = end("");
    let (mut tunnel, public) = open(end.address("web"));
    let denied = UdpSocket::bind("127.0.0.2:0").unwrap();
    denied.set_nonblocking(true).unwrap();
    let (allowed, at) = (peer(), denied.local_addr().unwrap());
    assert_eq!(assign(&mut tunnel, 2, Some(at)), (CLOSE, vec![2]));
    assert_eq!(
        assign(&mut tunnel, 4, Some("10.0.0.1:53".parse().unwrap())),
        (CLOSE, vec![4])
    );
    assert_eq!(
        assign(&mut tunnel, 6, Some(end.address("web"))),
        (CLOSE, vec![6]),
        "the node itself"
    );
    assert_eq!(assign(&mut tunnel, 8, None), (ACK, vec![8]));
    send(&mut tunnel, 8, &[&written(at), b"denied"]);
    send(
        &mut tunnel,
        8,
        &[&written(allowed.local_addr().unwrap()), b"allowed"],
    );
    assert_eq!(heard(&allowed).0, b"allowed");
    assert!(denied.recv_from(&mut [0; 10]).is_err());
    denied.send_to(b"denied", public).unwrap();
    allowed.send_to(b"allowed", public).unwrap();
    let (_, datagram) = tunnel.capsule();
    assert!(datagram.ends_with(b"allowed"), "{datagram:?}");
}

#[test]
fn only_a_route_that_says_so_binds() {
    let end = end("");
    let plain = Node::start(
        "plain",
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: true } ]\negress: { allow: [127.0.0.0/8] }\n",
    );
    let refused = |node: &Node, path: &str, fields: &str| {
        UdpTunnel::h1_at(node.address("web"), path, fields)
            .unwrap_err()
            .status()
    };
    assert_eq!(refused(&plain, ANY, ASKS), 403);
    for (path, fields) in [
        (ANY, ""),
        (ANY, "Connect-UDP-Bind: ?0\r\n"),
        (ANY, "Connect-UDP-Bind: ?1\r\nConnect-UDP-Bind: ?1\r\n"),
        ("/.well-known/masque/udp/%2A/53/", ASKS),
        ("/.well-known/masque/udp/127.0.0.1/%2A/", ASKS),
    ] {
        assert_eq!(refused(&end, path, fields), 400, "{path} {fields}");
    }
}

#[test]
fn with_a_target_the_client_gets_a_tunnel_for_it_alone() {
    let (end, echo) = (end(""), origins::udp_echo(origins::V4));
    let client = Client::connect(end.address("web"));
    let uri = format!(
        "http://{}/.well-known/masque/udp/127.0.0.1/{}/",
        end.address("web"),
        echo.port()
    );
    let stream = client
        .extended(
            "connect-udp",
            &uri,
            &[("capsule-protocol", "?1"), ("connect-udp-bind", "?1")],
        )
        .unwrap();
    assert!(stream.fields.get("connect-udp-bind").is_none());
}

#[test]
fn what_is_malformed_ends_its_own_tunnel() {
    let end = end("");
    let (mut good, _) = open(end.address("web"));
    assert_eq!(assign(&mut good, 2, None), (ACK, vec![2]));
    let capsules: [(u64, &[u8]); 8] = [
        (ASSIGN, b""),
        (ASSIGN, b"\x02\x05"),
        (ASSIGN, b"\x00\x00"),
        (ASSIGN, b"\x03\x00"),
        (ACK, b"\x02"),
        (CLOSE, b"\x00"),
        (DATAGRAM, b"\x00context zero"),
        (DATAGRAM, b""),
    ];
    for (kind, value) in capsules {
        let (mut bad, _) = open(end.address("web"));
        bad.send_capsule(kind, value);
        assert_eq!(bad.rest(), None, "{kind:#x} {value:?}");
    }
    good.send_capsule(0x1234, b"unknown");
    let echo = origins::udp_echo(origins::V4);
    send(&mut good, 2, &[&written(echo.address()), b"still here"]);
    assert!(good.capsule().1.ends_with(b"still here"));
}

#[test]
fn more_contexts_than_there_may_be_are_refused() {
    let end = end("");
    let (mut tunnel, _) = open(end.address("web"));
    for number in 0..300_u16 {
        let context = [
            0x40 | ((2 * (number + 1)) >> 8) as u8,
            (2 * (number + 1)) as u8,
        ];
        let to = SocketAddr::from(([127, 0, 0, 1], 20_000 + number));
        tunnel.send_capsule(ASSIGN, &[&context[..], &written(to)].concat());
        let expected = if number < 256 { ACK } else { CLOSE };
        assert_eq!(tunnel.capsule().0, expected, "context {number}");
    }
}

#[test]
fn a_reload_that_binds_no_more_ends_the_tunnel() {
    let end = end("");
    let (mut tunnel, _) = open(end.address("web"));
    assert_eq!(assign(&mut tunnel, 2, None), (ACK, vec![2]));
    let (status, answer) = end.reload(
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: true } ]\negress: { allow: [127.0.0.0/8] }\n",
    );
    assert_eq!(status, 200, "{answer}");
    assert_eq!(tunnel.rest(), None);
    let record = end.record(|record| record["event"] == "end");
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("policy_changed"),
        "{record:#}"
    );
}
