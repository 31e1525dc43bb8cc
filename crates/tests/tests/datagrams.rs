//! Bounds on datagrams and capsules: what a session may make a node keep, and that it costs only itself.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise, in its helpers too")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_tests::capsules::{DATAGRAM, UdpTunnel, varint};
use hermes_tests::crowd::resident;
use hermes_tests::eventually::{PATIENCE, eventually_true};
use hermes_tests::h2c::Client;
use hermes_tests::{Node, origins};

/// What a flood may make a node keep, in bytes: windows, sockets, and what the allocator keeps of it.
const FLOOD: usize = 24 * 1024 * 1024;

/// A node where datagrams are kept for 200 ms, and 20 KiB of them.
fn end() -> Node {
    Node::start(
        "end",
        r#"
        workers: 1
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true, datagrams: { hold_bytes: 20KiB, hold_time: 200ms } } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    )
}

fn forwarder(next: &Node) -> Node {
    Node::start(
        "forwarder",
        &format!(
            "workers: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: next }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"], http: 2 }} }}\n",
            next.address("web")
        ),
    )
}

/// A target that says what the test wants, and where the node's socket is.
fn target(client: &Client, node: &Node) -> (UdpTunnel, UdpSocket, SocketAddr) {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    target.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = target.local_addr().unwrap().port();
    let mut tunnel = UdpTunnel::h2(client, node.address("web"), "127.0.0.1", port, &[]).unwrap();
    tunnel.send("hello");
    let mut hello = [0; 16];
    let (_, socket) = target.recv_from(&mut hello).unwrap();
    (tunnel, target, socket)
}

fn dropped(node: &Node) -> bool {
    let counts = |line: &str| line.contains("datagrams_dropped") && !line.starts_with('#') && !line.ends_with(" 0");
    node.metrics().lines().any(counts)
}

#[test]
fn a_tunnel_that_stopped_gets_nothing_old_when_it_goes_on() {
    let node = end();
    let client = Client::with_windows(node.address("web"), 65_535, 1 << 20);
    let (mut tunnel, target, socket) = target(&client, &node);
    // The client does not read: what its window and the node's buffers do not hold has to wait.
    let mut number = 0_u32;
    eventually_true("something was dropped", || {
        for _ in 0..200 {
            let datagram = [&number.to_be_bytes()[..], &[7; 996]].concat();
            target.send_to(&datagram, socket).unwrap();
            number += 1;
        }
        dropped(&node)
    });
    let mut came = 0;
    loop {
        target.send_to(b"new", socket).unwrap();
        if tunnel.receive() == b"new" {
            break;
        }
        came += 1;
    }
    assert!(came < 1_000 && came < number, "{came} of {number} came");
    drop((tunnel, client));
    let record = node.record(|record| record["kind"] == "connect-udp");
    assert!(record["datagrams"]["dropped"].as_u64().unwrap() > 0, "{record}");
}

#[test]
fn a_session_that_is_flooded_and_not_read_costs_another_nothing() {
    let (node, echo) = (end(), origins::udp_echo(origins::V4));
    let entry = forwarder(&node);
    for entrance in [&node, &entry] {
        let client = Client::with_windows(entrance.address("web"), 65_535, 1 << 24);
        let (flooded, target, socket) = target(&client, entrance);
        let mut good = UdpTunnel::h2(&client, entrance.address("web"), "127.0.0.1", echo.port(), &[]).unwrap();
        let before = [&node, &entry].map(resident);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // The kernel drops what does not fit.
                    drop(target.send_to(&[7; 1_200], socket));
                }
            });
            for number in 0..500 {
                let datagram = format!("datagram {number}");
                good.send(&datagram);
                assert_eq!(good.receive(), datagram.as_bytes());
            }
            done.store(true, Ordering::Relaxed);
        });
        let after = [&node, &entry].map(resident);
        for (before, after) in before.iter().zip(after) {
            assert!(after < before + FLOOD, "{before} bytes before, {after} after the flood");
        }
        drop(flooded);
    }
}

#[test]
fn capsules_that_nobody_knows_cost_nobody_else_anything() {
    let (node, echo) = (end(), origins::udp_echo(origins::V4));
    let entry = forwarder(&node);
    let unknown = [varint(0x2f3a), varint(0)].concat().repeat(20_000);
    let contexts = [varint(DATAGRAM), varint(2), vec![5, 7]].concat().repeat(20_000);
    for entrance in [&node, &entry] {
        let (one, other) = (Client::connect(entrance.address("web")), Client::connect(entrance.address("web")));
        let open = |client| UdpTunnel::h2(client, entrance.address("web"), "127.0.0.1", echo.port(), &[]).unwrap();
        let (mut flooding, mut beside, mut good) = (open(&one), open(&one), open(&other));
        let before = [&node, &entry].map(resident);
        for number in 0..20 {
            flooding.send_bytes(&unknown);
            flooding.send_bytes(&contexts);
            for tunnel in [&mut beside, &mut good] {
                let datagram = format!("datagram {number}");
                tunnel.send(&datagram);
                assert_eq!(tunnel.receive(), datagram.as_bytes());
            }
        }
        flooding.send("after it");
        assert_eq!(flooding.receive(), b"after it");
        let after = [&node, &entry].map(resident);
        for (before, after) in before.iter().zip(after) {
            assert!(after < before + FLOOD, "{before} bytes before, {after} after the flood");
        }
    }
}
