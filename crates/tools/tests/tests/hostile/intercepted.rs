//! Connections that a user opens by packets, where these end in user space: they cost what the user's account has, however many tunnels they
//! are spread over.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hermes_tests::attacks::intercepted::{
    CONNECTIONS, Uploads, datagram, reset, syn, syns, tunnel, uploads,
};
use hermes_tests::capsules::UdpTunnel;
use hermes_tests::eventually::eventually_true;
use hermes_tests::ip_packets::assigned;
use hermes_tests::{Echo, Node, eventually, origins};

use crate::standing::{self, MIB};

/// What all connections of one user may cost, in bytes: a quarter of `memory.total`, and their tunnels and exchanges beside that.
const COST: usize = 96 * MIB;

/// Tunnels of one user: fewer than its share of the pool.
const TUNNELS: usize = 60;

fn node(tcp: SocketAddr, udp: SocketAddr) -> Node {
    Node::start(
        "edge",
        &format!(
            "
            listeners: {{ overlay: {{ http: 127.0.0.1:0, public: true, insecure_trust: [127.0.0.0/8] }} }}
            routes:
              - match: {{ kind: connect-ip }}
                terminate: {{ intercept: true, pool: 10.7.0.0/24 }}
              - {{ match: {{ kind: connect }}, terminate: tcp }}
              - {{ match: {{ kind: connect-udp }}, terminate: udp }}
            upstreams: {{ tcp: {{ endpoints: [\"{tcp}\"] }}, udp: {{ endpoints: [\"{udp}\"] }} }}
            "
        ),
    )
}

/// The sum of these counts over all tunnels of the device.
fn open(node: &Node, what: &str) -> Option<u64> {
    let clients = node.status()["devices"][0]["clients"].clone();
    let clients = clients.as_array()?.iter();
    Some(clients.filter_map(|one| one[what].as_u64()).sum())
}

/// That a user gets a connection.
fn connects(tunnel: &mut UdpTunnel, own: Ipv4Addr) {
    connects_from(tunnel, own, 20_000);
}

/// That a user gets one from this port.
fn connects_from(tunnel: &mut UdpTunnel, own: Ipv4Addr, port: u16) {
    let opened = eventually("an answer to a segment", || {
        tunnel.send(syn(own, port));
        let packet = tunnel.receive_soon()?;
        let is_for_port =
            packet.len() >= 40 && packet[9] == 6 && packet[22..24] == port.to_be_bytes();
        is_for_port.then_some(packet)
    });
    assert_eq!(opened[33] & 0x3f, 0x12, "SYN and ACK: {opened:?}");
}

/// That all is given back once the tunnels are gone.
fn nothing_is_left(node: &Node, tunnels: Vec<UdpTunnel>) {
    drop(tunnels);
    eventually_true("nothing is charged", || {
        node.status()["memory"]["charged_for"]["stack"] == 0
    });
    node.idle();
}

/// A tunnel of someone without a name, and its address.
fn stranger(proxy: SocketAddr) -> (UdpTunnel, Ipv4Addr) {
    let path = "/.well-known/masque/ip/*/*/";
    let mut tunnel = UdpTunnel::h1_for(proxy, "connect-ip", path, "").unwrap();
    let address = assigned(&mut tunnel)[0].1;
    (tunnel, address)
}

#[test]
fn a_user_whose_name_is_that_of_a_source_gets_no_address_that_is_kept_for_it() {
    let echo = Echo::start();
    let node = node(echo.tcp, echo.udp);
    let proxy = node.address("overlay");
    let (strangers, kept) = stranger(proxy);
    nothing_is_left(&node, vec![strangers]);

    let (users, own) = tunnel(proxy, "@127.0.0.1");
    assert_ne!(own, kept);
    // Each finds its own again.
    let (strangers, again) = stranger(proxy);
    assert_eq!(again, kept);
    nothing_is_left(&node, vec![users, strangers]);
    assert_eq!(tunnel(proxy, "@127.0.0.1").1, own);
}

#[test]
fn connections_of_one_user_cost_a_bounded_sum_over_all_its_tunnels() {
    let echo = Echo::start();
    let node = node(echo.tcp, echo.udp);
    let (mut alice, at_alice) = tunnel(node.address("overlay"), "alice");
    let before = node.peak();
    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS {
        let tunnel = syns(node.address("overlay"), "mallory");
        tunnels.push(tunnel);
    }
    eventually_true("connections", || {
        open(&node, "connections") >= Some(u64::from(CONNECTIONS))
    });
    standing::settled(&node);
    let cost = node.peak().saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());

    // Another user gets a connection meanwhile.
    connects(&mut alice, at_alice);
}

#[test]
fn content_that_an_origin_does_not_read_is_in_the_share_of_its_user() {
    let echo = Echo::start();
    let sink = origins::tcp_silent();
    let node = node(sink.address(), echo.udp);
    let (mut alice, at_alice) = tunnel(node.address("overlay"), "alice");
    let before = node.peak();

    let mut all = Uploads::default();
    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS {
        let (tunnel, came) = uploads(node.address("overlay"), "mallory");
        all.open += came.open;
        all.refused += came.refused;
        tunnels.push(tunnel);
    }

    // A quarter of `memory.total` by buffers of 164 KiB, or smaller ones towards the end.
    assert!((100..600).contains(&all.open), "{all:?}");
    assert!(all.refused > 500, "{all:?}");
    let cost = standing::settled(&node).saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());

    connects(&mut alice, at_alice);
    drop(alice);
    nothing_is_left(&node, tunnels);
}

/// Ports that a tunnel asks from: more in all than one user may have.
const PORTS: u16 = 300;

#[test]
fn datagrams_of_one_user_from_ever_new_ports_leave_others_theirs_and_nothing_behind() {
    let echo = Echo::start();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let node = node(echo.tcp, silent.local_addr().unwrap());
    let (mut alice, at_alice) = tunnel(node.address("overlay"), "alice");
    let before = node.peak();

    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS / 3 {
        let (mut tunnel, own) = tunnel(node.address("overlay"), "mallory");
        for port in 0..PORTS {
            tunnel.send(datagram(own, 10_000 + port, b"a question"));
        }
        tunnels.push(tunnel);
    }
    eventually_true("charges that are refused", || {
        node.status()["memory"]["refused_for"]["stack"].as_u64() > Some(1000)
    });

    // Pairs of ports that cost 16 KiB each, out of 32 MiB.
    let most = eventually("pairs of ports", || open(&node, "sessions"));
    assert!((500..2300).contains(&most), "{most}");

    // Another user's datagram arrives meanwhile.
    alice.send(datagram(at_alice, 20_000, b"from alice"));
    let patience = Some(std::time::Duration::from_secs(20));
    silent.set_read_timeout(patience).unwrap();
    let mut room = [0; 64];
    loop {
        let length = silent.recv(&mut room).expect("alice's datagram comes");
        if &room[..length] == b"from alice" {
            break;
        }
    }
    let cost = standing::settled(&node).saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());

    drop(alice);
    nothing_is_left(&node, tunnels);
}

/// Threads of one user that open flows without end, the tunnels of each, and flows that another opens meanwhile.
const THREADS: usize = 3;
const TUNNELS_OF_THREAD: usize = 8;
const FLOWS: u16 = 20;

/// Says that it is over when it is dropped, also where a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_user_who_opens_flows_without_end_crowds_out_none_of_another() {
    let echo = Echo::start();
    let node = node(echo.tcp, echo.udp);
    let (mut alice, at_alice) = tunnel(node.address("overlay"), "alice");
    let is_over = AtomicBool::new(false);

    thread::scope(|scope| {
        let _over = Over(&is_over);
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut tunnels: Vec<_> = (0..TUNNELS_OF_THREAD)
                    .map(|_| tunnel(node.address("overlay"), "mallory"))
                    .collect();
                for (tunnel, _) in &tunnels {
                    tunnel.forget_incoming();
                }
                let mut ports = (1024..u16::MAX).cycle();
                while !is_over.load(Ordering::Relaxed) {
                    let Some(port) = ports.next() else { return };
                    for (tunnel, own) in &mut tunnels {
                        tunnel.send_if_open(datagram(*own, port, b"a question"));
                        tunnel.send_if_open(syn(*own, port));
                        tunnel.send_if_open(reset(*own, port));
                    }
                }
            });
        }

        eventually_true("flows of mallory", || open(&node, "sessions") >= Some(100));
        for flow in 0..FLOWS {
            connects_from(&mut alice, at_alice, 20_000 + flow);
            alice.send(reset(at_alice, 20_000 + flow));
        }
    });
}
