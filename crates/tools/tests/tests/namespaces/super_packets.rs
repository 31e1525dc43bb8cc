//! Super-packets between two ends that agreed on them, and what becomes of forged ones.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::capsules::UdpTunnel;
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, Pki, program};

use super::packets::{bulk, edge, networks, start};
use super::rehoming::{caller, parrot};
use super::{clients, command, within};

/// The capsule of super-packets, and the context that this client offers.
const SUPER_PACKET: u64 = 0x2d7c_51b0;
const CONTEXT: u8 = 6;

const UDP: u8 = 17;

/// The edge's address on its device.
const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);

/// What ends tunnels at a device, and takes super-packets.
fn agreeing(listener: &str) -> String {
    edge(listener).replace("tun: hermes1,", "tun: hermes1, super_packets: true,")
}

/// Alice's machine, whose device offers super-packets.
fn alice(device: &str, upstream: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, super_packets: true, {device} routes: [10.7.0.0/24, 10.0.2.0/24, \"fd07::/64\"] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: edge }} ]
        upstreams: {{ edge: {{ endpoints: [10.0.1.2:8443], {upstream} }} }}
        "
    )
}

/// How many tunnels of a node's device send super-packets.
fn sending(node: &Node) -> u64 {
    let status = node.status();
    status["devices"][0]["super_packets"].as_u64().unwrap_or(0)
}

fn agree(alice: &Node, edge: &Node) {
    eventually_true("super-packets are agreed on", || {
        sending(alice) == 1 && sending(edge) == 1
    });
}

fn echo(topology: &Topology, from: &str, to: &str) -> bool {
    let from = topology.namespace(from).unwrap();
    from.run(&["ping", "-c", "1", "-W", "1", to]).is_ok()
}

#[test]
fn bulk_crosses_whole_over_any_version_and_is_what_was_sent() {
    for version in [1, 2, 3] {
        let topology = networks();
        let pki = Pki::new();
        let [listener, upstream] = match version {
            3 => [
                format!(", tls: {{ {} }}", pki.issue(&["10.0.1.2"]).yaml()),
                format!("http: 3, tls: {{ ca_file: {} }}", pki.ca().display()),
            ],
            version => [String::new(), format!("http: {version}")],
        };
        let edge = start(&topology, "edge", &agreeing(&listener));
        let alice = start(&topology, "alice", &alice("", &upstream));
        agree(&alice, &edge);

        bulk(&topology, "edge", "10.7.0.1:5000");
        bulk(&topology, "server", "10.0.2.2:5000");
        bulk(&topology, "edge", "[fd07::1]:5000");
        assert!(echo(&topology, "alice", "10.7.0.1"));
    }
}

#[test]
fn an_end_that_did_not_agree_gets_plain_packets() {
    let topology = networks();
    let plain = start(&topology, "edge", &edge(""));
    let offering = start(&topology, "alice", &alice("", "http: 2"));
    bulk_once_it_is_there(&topology);
    assert_eq!([sending(&plain), sending(&offering)], [0, 0]);
    drop(offering);

    // The other way round.
    let (status, said) = plain.reload(&agreeing(""));
    assert_eq!(status, 200, "{said:#}");
    let yaml = alice("", "http: 2").replace("super_packets: true,", "");
    let plain_too = start(&topology, "alice", &yaml);
    bulk_once_it_is_there(&topology);
    assert_eq!([sending(&plain), sending(&plain_too)], [0, 0]);
}

fn bulk_once_it_is_there(topology: &Topology) {
    eventually_true("an echo", || echo(topology, "alice", "10.7.0.1"));
    bulk(topology, "edge", "10.7.0.1:5000");
}

#[test]
fn forwarders_that_know_of_none_pass_them_on() {
    for [first, second] in [[2, 3], [3, 2]] {
        let topology = networks();
        topology.route("alice", "10.0.2.0/24", "10.0.1.2").unwrap();
        topology.route("server", "10.0.1.0/24", "10.0.2.1").unwrap();
        let pki = Pki::new();
        let tls = |version: u8, at| match version {
            3 => format!(", tls: {{ {} }}", pki.issue(&[at]).yaml()),
            _ => String::new(),
        };
        let to = |version: u8| match version {
            3 => format!("http: 3, tls: {{ ca_file: {} }}", pki.ca().display()),
            _ => format!("http: {version}"),
        };

        let end = format!(
            "
            listeners: {{ overlay: {{ http: 10.0.2.2:8443, public: true, insecure_trust: [10.0.2.0/24] {} }} }}
            routes:
              - match: {{ kind: connect-ip }}
                terminate: {{ tun: hermes1, super_packets: true, pool: 10.8.0.0/24 }}
            egress: {{ allow: [10.8.0.1/32] }}
            ",
            tls(second, "10.0.2.2")
        );
        let between = format!(
            "
            listeners: {{ overlay: {{ http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] {} }} }}
            routes: [ {{ match: {{ kind: connect-ip }}, to: end }} ]
            upstreams: {{ end: {{ endpoints: [10.0.2.2:8443], {} }} }}
            ",
            tls(first, "10.0.1.2"),
            to(second)
        );
        let server = start(&topology, "server", &end);
        let between = start(&topology, "edge", &between);
        let yaml = alice("", &to(first)).replace("10.7.0.0/24, 10.0.2.0/24", "10.8.0.0/24");
        let alice = start(&topology, "alice", &yaml);
        agree(&alice, &server);
        bulk(&topology, "server", "10.8.0.1:5000");
        assert!(echo(&topology, "alice", "10.8.0.1"));

        // Every node has counted all bytes, both ways.
        for node in [&alice, &between, &server] {
            let exchange = &node.exchanges()[0];
            for direction in ["client_to_target", "target_to_client"] {
                let bytes = exchange[direction].as_u64().unwrap();
                assert!(bytes > 4_000_000, "{direction}: {exchange:#}");
            }
        }
    }
}

#[test]
fn a_device_whose_addresses_are_translated_sends_and_gets_them() {
    let topology = networks();
    let edge = start(&topology, "edge", &agreeing(""));
    let device = "addresses: [192.168.7.7/24], other_address: nat,";
    let alice = start(&topology, "alice", &alice(device, "http: 2"));
    agree(&alice, &edge);
    eventually_true("an echo", || echo(&topology, "alice", "10.7.0.1"));
    bulk(&topology, "edge", "10.7.0.1:5000");
    bulk(&topology, "server", "10.0.2.2:5000");
}

#[test]
fn a_client_that_agreed_and_one_that_did_not_reach_each_other() {
    let topology = clients::networks();
    let ends = "client_to_client: true, super_packets: true";
    let edge = start(&topology, "edge", &clients::edge(ends, ""));
    let offers = "super_packets: true,";
    let alice = clients::client(&topology, ("alice", 77), offers);
    let _bob = clients::client(&topology, ("bob", 78), "");
    let _carol = clients::client(&topology, ("carol", 79), offers);
    eventually_true("super-packets are agreed on", || {
        sending(&alice) == 1 && sending(&edge) == 2
    });

    for (name, address, at) in [
        ("bob", "10.7.0.78", "10.7.0.78:5000"),
        ("carol", "10.7.0.79", "10.7.0.79:5000"),
    ] {
        eventually_true("an echo", || echo(&topology, "alice", address));
        bulk(&topology, name, at);
    }
}

/// A proxy on the way to one of two ends, beside the first.
fn between(to: &str) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: 10.0.1.2:8444, public: true, insecure_trust: [10.0.1.0/24] }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: {to} }} ]
        upstreams:
          first: {{ endpoints: [10.0.1.2:8443], http: 2 }}
          second: {{ endpoints: [10.0.2.2:8443], http: 2 }}
        "
    )
}

/// Says something long, and hears it back.
fn talks(stream: &mut TcpStream) {
    let said: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let mut writes = stream.try_clone().unwrap();
    let own = said.clone();
    let writer = thread::spawn(move || writes.write_all(&own).unwrap());
    let mut heard = vec![0; said.len()];
    stream.read_exact(&mut heard).unwrap();
    writer.join().unwrap();
    assert!(heard == said);
}

#[test]
fn a_tunnel_that_moves_sends_what_the_new_end_takes_and_its_connections_stay() {
    for takes in [false, true] {
        let topology = networks();
        let server = topology.namespace("server").unwrap();
        server.run(&["ip", "route", "del", "10.7.0.0/24"]).unwrap();
        let first = start(&topology, "edge", &agreeing(""));
        let second = format!(
            "
            listeners: {{ overlay: {{ http: 10.0.2.2:8443, public: true, insecure_trust: [10.0.2.0/24] }} }}
            routes:
              - match: {{ kind: connect-ip }}
                terminate: {{ tun: hermes1, super_packets: {takes}, pool: [10.7.0.0/24, \"fd07::/64\"] }}
            egress: {{ allow: [10.7.0.1/32, \"fd07::1/128\"] }}
            "
        );
        let second = start(&topology, "server", &second);
        let hermes = program::path();
        let proxy = command(&topology, "edge", hermes.to_str().unwrap());
        let proxy = Node::start_by(proxy, "between", &between("first"));
        let upstream = "http: 2";
        let yaml = alice("", upstream).replace("10.0.1.2:8443", "10.0.1.2:8444");
        let alice = start(&topology, "alice", &yaml);
        agree(&alice, &first);
        parrot(&topology, "edge", "10.7.0.1:5000");
        let mut stream = caller(&topology, "10.7.0.1:5000");
        talks(&mut stream);

        assert_eq!(proxy.reload(&between("second")).0, 200);
        let expected = u64::from(takes);
        eventually_true("the tunnel leads to the second end", || {
            let devices = &second.status()["devices"][0];
            devices["tunnels"] == 1 && sending(&alice) == expected && sending(&second) == expected
        });
        talks(&mut stream);
        eventually_true("an echo", || echo(&topology, "alice", "10.7.0.1"));
        bulk(&topology, "server", "10.7.0.1:5001");
        talks(&mut stream);
    }
}

/// A tunnel by hand, which offers super-packets, and its address; the edge has agreed.
fn tunnel(topology: &Topology) -> (UdpTunnel, Ipv4Addr) {
    // The device is made after the listener: the first may come too early.
    let mut tunnel = eventually("a tunnel", || {
        within(topology, "alice", || {
            let edge = "10.0.1.2:8443".parse().unwrap();
            let path = "/.well-known/masque/ip/*/*/";
            let fields = format!("user: alice\r\nhermes-ip-super-packets: {CONTEXT}\r\n");
            UdpTunnel::h1_for(edge, "connect-ip", path, &fields).ok()
        })
    });

    let mut own = None;
    let mut agreed = false;
    while own.is_none() || !agreed {
        match tunnel.capsule() {
            // ADDRESS_ASSIGN: request, version and the address of IPv4 (RFC 9484, section 4.7.1).
            (1, value) => own = Some(Ipv4Addr::new(value[2], value[3], value[4], value[5])),
            (SUPER_PACKET, value) => agreed = value == [CONTEXT],
            _ => {}
        }
    }
    (tunnel, own.unwrap())
}

/// The sum of words, not complemented (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A super-packet of UDP datagrams of `size` bytes to port 6000, whose checksum is that of the pseudo-header.
fn super_packet(source: Ipv4Addr, size: u16, payload: &[u8]) -> Vec<u8> {
    let transport = u16::try_from(8 + payload.len()).unwrap();
    let mut pseudo = source.octets().to_vec();
    pseudo.extend(DEVICE.octets());
    pseudo.extend([0, UDP]);
    pseudo.extend(transport.to_be_bytes());

    let mut header = vec![0x45, 0];
    header.extend((20 + transport).to_be_bytes());
    header.extend([0x12, 0x34, 0x40, 0, 64, UDP, 0, 0]);
    header.extend(source.octets());
    header.extend(DEVICE.octets());
    let checksum = !sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());

    // Flags: the checksum is to be completed. Kind 5: UDP. Then the lengths of headers and segments, and where the checksum stands.
    let mut value = vec![CONTEXT, 1, 5, 0, 28];
    value.extend(size.to_be_bytes());
    value.extend([0, 20, 0, 6]);
    value.extend(header);
    value.extend([0x13, 0x88, 0x17, 0x70]);
    value.extend(transport.to_be_bytes());
    value.extend(sum(&pseudo).to_be_bytes());
    value.extend(payload);
    value
}

fn receiver(topology: &Topology) -> UdpSocket {
    let socket = within(topology, "edge", || {
        UdpSocket::bind((DEVICE, 6000)).unwrap()
    });
    socket
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    socket
}

fn received(socket: &UdpSocket) -> Vec<u8> {
    let mut room = [0; 4096];
    let (length, _) = socket.recv_from(&mut room).unwrap();
    room[..length].to_vec()
}

#[test]
fn forged_super_packets_are_dropped_and_counted_and_their_tunnel_stays() {
    let topology = networks();
    let edge = start(&topology, "edge", &agreeing(""));
    let (mut tunnel, own) = tunnel(&topology);
    let ends = receiver(&topology);

    let good = super_packet(own, 1000, &[b'f'; 2500]);
    let changed = |at: usize, to: u8| {
        let mut bad = good.clone();
        bad[at] = to;
        bad
    };
    let forged = [
        // Cut off, and a context that was not agreed on.
        good[..1 + 9].to_vec(),
        good[..1 + 10].to_vec(),
        good[..good.len() - 1].to_vec(),
        changed(0, 4),
        // Complete although it is to be cut, of no kind, of TCP, and as if it answered a mark of congestion.
        changed(1, 0),
        changed(2, 3),
        changed(2, 1),
        changed(2, 0x85),
        // Headers that end elsewhere, segments of no byte and of one, and a checksum elsewhere.
        changed(4, 29),
        super_packet(own, 0, &[b'f'; 2500]),
        super_packet(own, 1, &[b'f'; 2500]),
        changed(8, 21),
        changed(9, 0xff),
        changed(10, 7),
        // Lengths of IP and of UDP, and a header of IP that reaches beyond.
        changed(11 + 2, 0xff),
        changed(11 + 24, 0),
        changed(11, 0x4f),
        changed(11, 0x65),
        // Another's address.
        super_packet(Ipv4Addr::new(10, 0, 2, 2), 1000, &[b'f'; 2500]),
    ];
    for bad in &forged {
        tunnel.send_capsule(SUPER_PACKET, bad);
    }

    let payload: Vec<u8> = (0..2500_u32).map(|at| (at % 251) as u8).collect();
    tunnel.send_capsule(SUPER_PACKET, &super_packet(own, 1000, &payload));
    let came: Vec<Vec<u8>> = (0..3).map(|_| received(&ends)).collect();
    assert_eq!(
        came.iter().map(Vec::len).collect::<Vec<_>>(),
        [1000, 1000, 500]
    );
    assert!(came.concat() == payload);

    tunnel.finish();
    let record = edge.record(|record| record["status"] == 101 && record["event"] == "end");
    // The spoofed one stands for three packets.
    let dropped = forged.len() + 2;
    assert_eq!(record["datagrams"]["dropped"], dropped, "{record:#}");
    let counted = edge.metrics();
    let malformed = counted
        .lines()
        .find(|line| line.contains("reason=\"malformed\""))
        .unwrap();
    assert!(
        malformed.ends_with(&format!(" {}", forged.len() - 2)),
        "{malformed}"
    );
}

#[test]
fn what_the_kernel_left_uncut_reaches_the_client_whole() {
    let topology = networks();
    let _edge = start(&topology, "edge", &agreeing(""));
    let (mut tunnel, own) = tunnel(&topology);

    // UDP_SEGMENT, of SOL_UDP.
    let script = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
         s.setsockopt(17, 103, 1000); s.sendto(bytes(range(250)) * 10, ('{own}', 7000))"
    );
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let network = topology.namespace("edge").unwrap();
    network.run(&[&python, "-c", &script]).unwrap();

    let value = loop {
        let (kind, value) = tunnel.capsule();
        if kind == SUPER_PACKET {
            break value;
        }
    };
    assert_eq!(value[..7], [CONTEXT, 1, 5, 0, 28, 3, 0xe8]);
    assert_eq!(value.len(), 11 + 28 + 2500);
    assert!(value.ends_with(&(0..250).collect::<Vec<u8>>()));
}

#[test]
fn a_client_that_offers_none_is_sent_none_and_its_own_are_dropped() {
    let topology = networks();
    let edge = start(&topology, "edge", &agreeing(""));
    let mut plain = eventually("a tunnel", || {
        within(&topology, "alice", || {
            let edge = "10.0.1.2:8443".parse().unwrap();
            let path = "/.well-known/masque/ip/*/*/";
            UdpTunnel::h1_for(edge, "connect-ip", path, "user: alice\r\n").ok()
        })
    });
    let ends = receiver(&topology);
    let own = eventually("its address", || {
        let (kind, value) = plain.capsule();
        (kind == 1).then(|| Ipv4Addr::new(value[2], value[3], value[4], value[5]))
    });

    plain.send_capsule(SUPER_PACKET, &[CONTEXT]);
    plain.send_capsule(SUPER_PACKET, &super_packet(own, 1000, &[7; 2500]));
    // The packet alone, without a checksum (RFC 768).
    let mut packet = super_packet(own, 1000, b"plain").split_off(11);
    packet[26..28].fill(0);
    plain.send(packet);
    assert_eq!(received(&ends), b"plain");
    ends.send_to(b"answer", (own, 5000)).unwrap();
    let came = loop {
        let (kind, value) = plain.capsule();
        assert_ne!(kind, SUPER_PACKET);
        if kind == 0 {
            break value;
        }
    };
    assert!(came.ends_with(b"answer"));
    plain.finish();
    let record = edge.record(|record| record["status"] == 101 && record["event"] == "end");
    assert_eq!(record["datagrams"]["dropped"], 2, "{record:#}");
}
