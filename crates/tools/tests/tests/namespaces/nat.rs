//! Addresses that are translated: by the node where tunnels end, and by a device whose tunnel has another one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_net::os::masquerades;
use hermes_proto::ip::Packet;
use hermes_proto::ip::checksum::Sum;
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, program};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

use super::packets::start;
use super::{command, within};

/// Alice - edge - server, who has a route to no one but her neighbour; IPv6, too, between the last two.
fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["alice", "edge", "server"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology
        .cable(plug("alice", "10.0.1.1/24"), plug("edge", "10.0.1.2/24"))
        .unwrap();
    topology
        .cable(plug("edge", "10.0.2.1/24"), plug("server", "10.0.2.2/24"))
        .unwrap();
    for (namespace, address, device) in [
        ("edge", "fd02::1/64", "server"),
        ("server", "fd02::2/64", "edge"),
    ] {
        let namespace = topology.namespace(namespace).unwrap();
        let add = ["ip", "address", "add", address, "dev", device, "nodad"];
        namespace.run(&add).unwrap();
    }
    topology
}

/// What ends tunnels at a device.
fn edge(nat: bool) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] }} }}
        routes:
          - match: {{ kind: connect-ip }}
            terminate: {{ tun: hermes1, pool: [10.7.0.0/24, \"fd07::/64\"], nat: {nat} }}
        egress: {{ allow: [10.7.0.1/32, \"fd07::1/128\"] }}
        "
    )
}

/// Alice's machine, whose device is as `device` says beside its routes.
fn alice(device: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, {device} routes: [10.7.0.0/24, 10.0.2.0/24, \"fd07::/64\", \"fd02::/64\"] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: edge }} ]
        upstreams: {{ edge: {{ endpoints: [10.0.1.2:8443], http: 2 }} }}
        "
    )
}

fn again(topology: &Topology, name: &str, node: &mut Node) {
    let hermes = program::path();
    node.restart_by(command(topology, name, hermes.to_str().unwrap()));
}

fn echo(topology: &Topology, from: &str, to: &str) -> bool {
    let from = topology.namespace(from).unwrap();
    from.run(&["ping", "-c", "1", "-W", "1", to]).is_ok()
}

fn reaches(topology: &Topology, from: &str, to: &str) {
    eventually_true(&format!("an echo of {to}"), || echo(topology, from, to));
}

/// The tables of masquerade at the edge.
fn tables(topology: &Topology) -> Vec<String> {
    within(topology, "edge", || masquerades().unwrap())
}

/// What the server saw as the source of a datagram of Alice's, which she heard an answer to.
fn seen_over_udp(topology: &Topology, at: &str) -> String {
    let server = within(topology, "server", || UdpSocket::bind(at).unwrap());
    let any = if at.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    };
    let socket = within(topology, "alice", || UdpSocket::bind(any).unwrap());
    for socket in [&server, &socket] {
        let timeout = Some(Duration::from_secs(10));
        socket.set_read_timeout(timeout).unwrap();
    }

    socket.send_to(b"hello", at).unwrap();
    let mut room = [0; 16];
    let (_, from) = server.recv_from(&mut room).unwrap();
    server.send_to(b"hello yourself", from).unwrap();
    let (length, answered) = socket.recv_from(&mut room).unwrap();
    assert_eq!(
        (&room[..length], answered.to_string()),
        (&b"hello yourself"[..], at.to_owned())
    );
    from.ip().to_string()
}

/// What the server saw as the source of a connection of Alice's, which carries a megabyte there and back.
fn seen_over_tcp(topology: &Topology, at: &str) -> String {
    let listening = within(topology, "server", || TcpListener::bind(at).unwrap());
    let served = thread::spawn(move || {
        let (mut stream, from) = listening.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        from.ip().to_string()
    });

    let mut stream = within(topology, "alice", || TcpStream::connect(at).unwrap());
    let timeout = Some(Duration::from_secs(60));
    stream.set_read_timeout(timeout).unwrap();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    stream.write_all(&sent).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == sent, "{} bytes came back", back.len());
    served.join().unwrap()
}

#[test]
fn without_nat_a_server_that_has_no_route_to_the_pool_does_not_answer() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(false));
    let _alice = start(&topology, "alice", &alice(""));
    reaches(&topology, "alice", "10.7.0.1");
    for to in ["10.0.2.2", "fd02::2"] {
        assert!(!echo(&topology, "alice", to), "{to} has a route");
    }
    assert_eq!(tables(&topology), [""; 0]);
}

#[test]
fn with_nat_the_server_sees_the_node_and_answers() {
    let topology = networks();
    let edge = start(&topology, "edge", &edge(true));
    let _alice = start(&topology, "alice", &alice(""));
    reaches(&topology, "alice", "10.7.0.1");
    for to in ["10.0.2.2", "fd02::2"] {
        reaches(&topology, "alice", to);
    }

    for (server, node) in [("10.0.2.2", "10.0.2.1"), ("[fd02::2]", "fd02::1")] {
        let at = format!("{server}:5000");
        assert_eq!(seen_over_udp(&topology, &at), node);
        assert_eq!(seen_over_tcp(&topology, &at), node);
    }
    assert_eq!(edge.status()["devices"][0]["masquerades"], true);

    // An error finds the socket that it is about: what it quotes was translated, too.
    let socket = within(&topology, "alice", || UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect("10.0.2.2:5999").unwrap();
    eventually("no one listens there", || {
        let _ = socket.send(b"hello");
        let refused = socket.set_read_timeout(Some(Duration::from_secs(1)));
        refused.unwrap();
        let error = socket.recv(&mut [0; 16]).unwrap_err();
        (error.kind() == std::io::ErrorKind::ConnectionRefused).then_some(())
    });
}

#[test]
fn a_masquerade_goes_with_its_node_and_comes_back_once() {
    let topology = networks();
    let mut node = start(&topology, "edge", &edge(true));
    let alice = start(&topology, "alice", &alice(""));
    reaches(&topology, "alice", "10.0.2.2");
    assert_eq!(tables(&topology).len(), 1);

    for _ in 0..2 {
        node.kill();
        assert_eq!(tables(&topology), [""; 0]);
        again(&topology, "edge", &mut node);
        reaches(&topology, "alice", "10.0.2.2");
        assert_eq!(tables(&topology).len(), 1);
    }

    // And with the key.
    for nat in [false, true, false] {
        let (status, said) = node.reload(&edge(nat));
        assert_eq!(status, 200, "{said:#}");
        eventually_true("as many as are wanted", || {
            tables(&topology).len() == usize::from(nat)
        });
        reaches(&topology, "alice", "10.7.0.1");
        eventually_true("the server answers or not", || {
            echo(&topology, "alice", "10.0.2.2") == nat
        });
    }
    drop(alice);
    assert!(node.stop().success());
    assert_eq!(tables(&topology), [""; 0]);
}

/// A header of TCP from port 4000 to 5000 with these flags.
fn segment(flags: u8) -> Vec<u8> {
    let mut header = [&4000_u16.to_be_bytes()[..], &5000_u16.to_be_bytes()].concat();
    header.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    let [from, to] = ["10.7.0.77", "10.0.2.2"].map(|text| text.parse().unwrap());
    let sum = Sum::default().pseudo_header(from, to, 6, header.len());
    let sum = sum.bytes(&header).checksum();
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    header
}

#[test]
fn a_segment_of_no_connection_does_not_leave_with_an_address_of_the_pool() {
    const RST: u8 = 4;
    const SYN: u8 = 2;
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(true));
    let _alice = start(&topology, "alice", &alice("addresses: [10.7.0.77/24],"));
    reaches(&topology, "alice", "10.0.2.2");
    let raw = |namespace| {
        within(&topology, namespace, || {
            Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)).unwrap()
        })
    };
    let mut server = raw("server");
    server
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let alice = raw("alice");

    // The kernel takes no connection from the first, and so translates nothing; the second opens one.
    let to = "10.0.2.2:0".parse::<std::net::SocketAddr>().unwrap().into();
    for flags in [RST, SYN] {
        alice.send_to(&segment(flags), &to).unwrap();
    }
    let mut room = [0; 100];
    let length = server.read(&mut room).unwrap();
    let packet = Packet::parse(&room[..length]).unwrap();
    assert_eq!(packet.source().to_string(), "10.0.2.1");
    assert_eq!(packet.payload()[13], SYN);
}

/// What ends tunnels at another device, with another pool, at the same node.
fn two_ends(nat: bool) -> String {
    format!(
        "
        listeners:
          one: {{ http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] }}
          two: {{ http: 10.0.1.2:8444, public: true, insecure_trust: [10.0.1.0/24] }}
        routes:
          - match: {{ kind: connect-ip, listener: one }}
            terminate: {{ tun: hermes1, pool: [10.7.0.0/24, \"fd07::/64\"], nat: {nat} }}
          - match: {{ kind: connect-ip, listener: two }}
            terminate: {{ tun: hermes2, pool: [10.8.0.0/24, \"fd08::/64\"], nat: {nat} }}
        "
    )
}

/// Alice's machine, which knows both ends.
fn between_two(device: &str, to: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, {device} routes: [10.0.2.0/24, \"fd02::/64\"] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: {to} }} ]
        upstreams:
          one: {{ endpoints: [10.0.1.2:8443], http: 2 }}
          two: {{ endpoints: [10.0.1.2:8444], http: 2 }}
        "
    )
}

/// The addresses of Alice's device, without lengths.
fn addresses(alice: &Node) -> Vec<String> {
    let device = &alice.status()["devices"][0];
    let addresses = device["addresses"].as_array().unwrap().iter();
    let hosts = addresses.map(|net| net.as_str().unwrap().split('/').next().unwrap().to_owned());
    hosts.collect()
}

fn translated(alice: &Node) -> Vec<Value> {
    let device = &alice.status()["devices"][0];
    device["translated"].as_array().unwrap().clone()
}

#[test]
fn a_device_that_translates_keeps_its_addresses_where_its_tunnel_has_others() {
    let topology = networks();
    let _edge = start(&topology, "edge", &two_ends(true));
    let device = "other_address: nat,";
    let alice = start(&topology, "alice", &between_two(device, "one"));
    reaches(&topology, "alice", "10.0.2.2");
    reaches(&topology, "alice", "fd02::2");
    let before = addresses(&alice);
    assert!(before.iter().any(|one| one.starts_with("10.7.0.")));
    assert_eq!(translated(&alice), Vec::<Value>::new());

    let (status, said) = alice.reload(&between_two(device, "two"));
    assert_eq!(status, 200, "{said:#}");
    eventually_true("both are translated", || translated(&alice).len() == 2);
    assert_eq!(addresses(&alice), before);
    let tunnel = translated(&alice)[0]["tunnel"].clone();
    assert!(tunnel.as_str().unwrap().starts_with("10.8.0."), "{tunnel}");
    for server in ["10.0.2.2", "fd02::2"] {
        reaches(&topology, "alice", server);
    }
    assert_eq!(seen_over_udp(&topology, "10.0.2.2:5000"), "10.0.2.1");
    assert_eq!(seen_over_tcp(&topology, "10.0.2.2:5000"), "10.0.2.1");
    assert_eq!(seen_over_tcp(&topology, "[fd02::2]:5000"), "fd02::1");

    // An error of the first node, about a packet that it had translated.
    let network = topology.namespace("alice").unwrap();
    let short = ["ping", "-c", "1", "-W", "1", "-t", "1", "10.0.2.2"];
    let said = network.run(&short).unwrap_err().to_string();
    assert!(said.contains("Time to live exceeded"), "{said}");

    // An error of the last node, about a packet as it was in the tunnel.
    let socket = within(&topology, "alice", || UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect("10.0.2.2:5999").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket.send(b"hello").unwrap();
    let error = socket.recv(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);

    // Back at the first end, which may keep its addresses for connections that had been there.
    let (status, said) = alice.reload(&between_two(device, "one"));
    assert_eq!(status, 200, "{said:#}");
    reaches(&topology, "alice", "10.0.2.2");
    assert_eq!(addresses(&alice), before);
}

#[test]
fn a_device_with_an_address_of_its_own_translates_it_from_the_start() {
    let topology = networks();
    let _edge = start(&topology, "edge", &two_ends(true));
    let device = "addresses: [192.168.7.7/32], other_address: nat,";
    let alice = start(&topology, "alice", &between_two(device, "one"));
    reaches(&topology, "alice", "10.0.2.2");
    assert_eq!(addresses(&alice), ["192.168.7.7"]);
    assert_eq!(translated(&alice)[0]["device"], json!("192.168.7.7"));
    assert_eq!(seen_over_tcp(&topology, "10.0.2.2:5000"), "10.0.2.1");

    // It has no address of IPv6, and gets none.
    assert_eq!(translated(&alice).len(), 1);
}

#[test]
fn a_device_that_refuses_keeps_its_addresses_and_does_not_use_the_tunnel() {
    let topology = networks();
    let _edge = start(&topology, "edge", &two_ends(true));
    let device = "other_address: refuse,";
    let alice = start(&topology, "alice", &between_two(device, "one"));
    reaches(&topology, "alice", "10.0.2.2");
    let before = addresses(&alice);

    let (status, said) = alice.reload(&between_two(device, "two"));
    assert_eq!(status, 200, "{said:#}");
    let why = format!("it has {}/32 and", before[0]);
    eventually_true("the tunnel has ended", || {
        let device = &alice.status()["devices"][0];
        let ended = device["ended"].as_str().unwrap_or_default();
        ended.contains(&why) && ended.contains("was assigned 10.8.0.")
    });
    assert!(!echo(&topology, "alice", "10.0.2.2"));
    assert_eq!(addresses(&alice), before);
    assert!(translated(&alice).is_empty());

    let (status, said) = alice.reload(&between_two(device, "one"));
    assert_eq!(status, 200, "{said:#}");
    reaches(&topology, "alice", "10.0.2.2");
    assert_eq!(addresses(&alice), before);
}

#[test]
fn a_device_that_adopts_gets_the_addresses_of_its_tunnel() {
    let topology = networks();
    let _edge = start(&topology, "edge", &two_ends(true));
    let alice = start(&topology, "alice", &between_two("", "one"));
    reaches(&topology, "alice", "10.0.2.2");
    let (status, said) = alice.reload(&between_two("", "two"));
    assert_eq!(status, 200, "{said:#}");
    eventually_true("the other address", || {
        addresses(&alice)
            .iter()
            .any(|one| one.starts_with("10.8.0."))
    });
    reaches(&topology, "alice", "10.0.2.2");
}
