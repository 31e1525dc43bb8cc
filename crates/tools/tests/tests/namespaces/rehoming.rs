//! Tunnels for IP that move: the ingress, any proxy on the way, and the end may change under live traffic.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, program};

use super::packets::{edge, networks, own_address, start};
use super::{command, within};

/// Alice's machine, which knows two proxies on the way to the end.
fn alice(through: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, routes: [10.7.0.0/24, 10.0.2.0/24] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: {through} }} ]
        upstreams:
          one: {{ endpoints: [10.0.1.2:8444], http: 2 }}
          two: {{ endpoints: [10.0.1.2:8445], http: 2 }}
        "
    )
}

/// A proxy on the way, beside the end.
fn proxy(topology: &Topology, name: &str, port: u16) -> Node {
    let yaml = format!(
        "
        listeners: {{ overlay: {{ http: 10.0.1.2:{port}, public: true, insecure_trust: [10.0.1.0/24] }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: end }} ]
        upstreams: {{ end: {{ endpoints: [10.0.1.2:8443], http: 2 }} }}
        "
    );
    let hermes = program::path();
    let command = command(topology, "edge", hermes.to_str().unwrap());
    Node::start_by(command, name, &yaml)
}

/// Asks for an echo every 10 ms, so many times.
fn pings(topology: &Topology, to: &str, count: usize) -> Child {
    let alice = topology.namespace("alice").unwrap();
    let count = count.to_string();
    let options = ["-n", "-i", "0.01", "-c", &count, "-W", "1", to];
    alice
        .command("ping")
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// How many of them did not come back.
fn lost(pings: Child) -> usize {
    let said = pings.wait_with_output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let line = said
        .lines()
        .find(|line| line.contains("packets transmitted"));
    let counts: Vec<usize> = line
        .unwrap()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    counts[0] - counts[1]
}

/// Says back what it hears, over one connection, at this address.
pub(super) fn parrot(topology: &Topology, namespace: &'static str, at: &'static str) {
    let listening = eventually("the address", || {
        within(topology, namespace, || TcpListener::bind(at).ok())
    });
    thread::spawn(move || {
        for stream in listening.incoming() {
            let mut stream = stream.unwrap();
            let mut writes = stream.try_clone().unwrap();
            thread::spawn(move || std::io::copy(&mut stream, &mut writes));
        }
    });
}

/// A connection to it.
pub(super) fn caller(topology: &Topology, at: &'static str) -> TcpStream {
    let stream = eventually("a connection", || {
        within(topology, "alice", || TcpStream::connect(at).ok())
    });
    let timeout = Some(Duration::from_secs(30));
    stream.set_read_timeout(timeout).unwrap();
    stream
}

fn speaks(stream: &mut TcpStream) {
    let mut heard = [0; 5];
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

/// Whether a node carries a tunnel for IP.
pub(super) fn carries(node: &Node) -> bool {
    let exchanges = node.exchanges();
    exchanges
        .iter()
        .any(|exchange| exchange["kind"] == "connect-ip")
}

#[test]
fn a_tunnel_moves_to_another_proxy_and_nothing_is_lost() {
    let topology = networks();
    let _end = start(&topology, "edge", &edge(""));
    let mut one = proxy(&topology, "one", 8444);
    let two = proxy(&topology, "two", 8445);
    let alice_ = start(&topology, "alice", &alice("one"));
    parrot(&topology, "server", "10.0.2.2:5000");
    let mut stream = caller(&topology, "10.0.2.2:5000");
    speaks(&mut stream);
    let address = own_address(&topology);

    // While echoes are asked for, the way changes to and fro.
    let asked = pings(&topology, "10.7.0.1", 200);
    for (through, used, left) in [
        ("two", &two, &one),
        ("one", &one, &two),
        ("two", &two, &one),
    ] {
        let (status, said) = alice_.reload(&alice(through));
        assert_eq!(
            (status, &said["tunnels"]["moved"]),
            (200, &1.into()),
            "{said:#}"
        );
        eventually_true("the tunnel has moved", || carries(used) && !carries(left));
        speaks(&mut stream);
    }
    assert_eq!(lost(asked), 0);
    let moved = &alice_.exchanges()[0]["moved"];
    let why = moved["why"].as_str().unwrap();
    assert!(why.starts_with("the rules changed"), "{moved:#}");

    // The way breaks: the session goes on along the other one.
    let (status, said) = alice_.reload(&alice("one"));
    assert_eq!(status, 200, "{said:#}");
    eventually_true("the tunnel has moved", || carries(&one));
    one.kill();
    let both = alice("one").replace("10.0.1.2:8444]", "10.0.1.2:8444, 10.0.1.2:8445]");
    alice_.reload(&both);
    speaks(&mut stream);
    assert_eq!(own_address(&topology), address);
}
