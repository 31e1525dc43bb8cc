//! A path whose MTU drops to 1280 and comes back, under a chain of QUIC in QUIC.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::udp::Client;
use hermes_tests::{Node, Pki, program};
use serde_json::Value;

use super::command;

/// Where the client speaks to its node, and where the service of the last network is.
const VOICE: &str = "127.0.0.1:5004";
const ECHO: &str = "127.0.0.1:7000";

/// To a datagram of so many bytes, the service answers with one of so many.
const SMALL: usize = 1;
const LARGE: usize = 1300;

/// Attempts for what takes a new search of the path: up to 25 s of 100 ms, and some more.
const ATTEMPTS: usize = 600;

fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["client", "near", "far"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology.cable(plug("client", "10.0.1.1/24"), plug("near", "10.0.1.2/24")).unwrap();
    topology.cable(plug("near", "10.0.2.1/24"), plug("far", "10.0.2.2/24")).unwrap();
    topology
}

/// The path between two networks.
fn set_mtu(topology: &Topology, (one, other): (&str, &str), mtu: &str) {
    for (namespace, device) in [(one, other), (other, one)] {
        topology.namespace(namespace).unwrap().run(&["ip", "link", "set", "dev", device, "mtu", mtu]).unwrap();
    }
}

fn hop(address: &str, tls: &str, route: &str, upstreams: &str) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: {address}, public: true, tls: {{ {tls} }} }} }}
        routes: [ {route} ]
        {upstreams}
        egress: {{ allow: [10.0.2.0/24] }}
        "
    )
}

/// The upstreams of the two proxies.
fn upstreams(pki: &Pki) -> String {
    let upstream =
        |address| format!("{{ endpoints: [\"{address}\"], http: 3, tls: {{ ca_file: {} }} }}", pki.ca().display());
    let [near, middle, far] = ["10.0.1.2:8443", "10.0.1.2:9443", "10.0.2.2:8443"].map(upstream);
    format!("upstreams: {{ near: {near}, middle: {middle}, far: {far} }}")
}

fn entry(pki: &Pki, to: &str) -> String {
    format!(
        "
        listeners: {{ voice: {{ udp: {VOICE}, target: \"ECHO:7\" }} }}
        routes: [ {{ to: {to} }} ]
        {}
        ",
        upstreams(pki)
    )
}

/// Whether a large answer comes to a small datagram.
fn answers(client: &Client) -> bool {
    client.send(vec![0; SMALL]);
    client.receive_within(Duration::from_millis(100)).is_some_and(|answer| answer.len() == LARGE)
}

/// Whether a datagram of this size comes back.
fn passes(client: &Client, size: usize) -> bool {
    client.send(vec![size as u8; size]);
    client.receive_within(Duration::from_millis(100)).is_some_and(|answer| answer.len() == size)
}

fn far(entry: &Node) -> Value {
    entry.status()["hops"].as_array().unwrap().iter().find(|hop| hop["hop"] == "near > far").unwrap().clone()
}

/// The nodes: one where the client is, and a proxy in each of the other networks.
struct Nodes {
    entry: Node,
    near: Node,
    /// Beside the near one, for routes that lead through it to the far one.
    middle: Node,
    far: Node,
    _pki: Pki,
}

impl Nodes {
    /// The client's node leads `to` this, and the near proxy takes this route.
    fn start(topology: &Topology, to: &str, route: &str) -> Self {
        let pki = Pki::new();
        let tls = pki.issue(&["10.0.1.2", "10.0.2.2"]).yaml();
        let hermes = program::path();
        let start = |namespace, name, yaml: &str| {
            Node::start_by(command(topology, namespace, hermes.to_str().unwrap()), name, yaml)
        };
        let echo = format!("upstreams: {{ echo: {{ endpoints: [\"{ECHO}\"] }} }}");
        let far = hop("10.0.2.2:8443", &tls, "{ match: { target: ECHO }, terminate: echo }", &echo);
        let near = hop("10.0.1.2:8443", &tls, route, &upstreams(&pki));
        let middle = hop("10.0.1.2:9443", &tls, "{ to: far }", &upstreams(&pki));
        let (far, middle) = (start("far", "far", &far), start("near", "middle", &middle));
        let near = start("near", "near", &near);
        Self { entry: start("client", "client", &entry(&pki, to)), near, middle, far, _pki: pki }
    }
}

/// Runs `follow` in the client's network while an echo runs in the last.
fn with_echo(topology: &Topology, follow: impl Fn(&Client) + Sync) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            topology.namespace("far").unwrap().enter().unwrap();
            let socket = UdpSocket::bind(ECHO).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let mut room = [0; 2000];
            while !over.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut room) else { continue };
                let length = if length == SMALL { LARGE } else { length };
                drop(socket.send_to(&room[..length], from));
            }
        });
        let client = scope.spawn(|| {
            topology.namespace("client").unwrap().enter().unwrap();
            follow(&Client::connect(VOICE.parse().unwrap()));
        });
        let followed = client.join();
        over.store(true, Ordering::Relaxed);
        echo.join().unwrap();
        followed.unwrap();
    });
}

#[test]
fn a_chain_follows_a_path_whose_mtu_drops_and_comes_back() {
    let topology = networks();
    let nodes = Nodes::start(&topology, "[near, far]", "{ terminate: true }");
    with_echo(&topology, |client| follow(&topology, client, &nodes.entry));
}

/// Datagrams that a node dropped because they were too large.
fn too_large(node: &Node) -> u64 {
    let metrics = node.metrics();
    let counts = metrics.lines().filter(|line| line.contains("dropped") && line.contains("too_large"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Between two proxies that pass datagrams on, what is too large is dropped by the first of them, and counted there. It tells the
/// node before it, which then drops it itself.
#[test]
fn a_proxy_drops_and_counts_what_the_path_onwards_does_not_carry_and_says_so() {
    let topology = networks();
    let nodes = Nodes::start(&topology, "near", "{ to: far }");
    with_echo(&topology, |client| {
        let until = |what: &str, holds: &mut dyn FnMut() -> bool| {
            assert!((0..ATTEMPTS).any(|_| holds()), "{what}: {}", nodes.near.metrics());
        };
        until("large datagrams pass", &mut || passes(client, 1300));
        assert_eq!([too_large(&nodes.near), too_large(&nodes.entry)], [0, 0]);
        set_mtu(&topology, ("near", "far"), "1280");
        until("the proxy knows that they are too large", &mut || !passes(client, 1300) && too_large(&nodes.near) > 0);
        until("the entry has been told", &mut || !passes(client, 1300) && too_large(&nodes.entry) > 0);
        let (near, entry) = (too_large(&nodes.near), too_large(&nodes.entry));
        assert!((0..10).all(|_| !passes(client, 1300)), "they are too large");
        assert_eq!((too_large(&nodes.near), too_large(&nodes.entry)), (near, entry + 10), "the entry drops them now");
        assert!(passes(client, 1100) || passes(client, 1100), "small ones still pass");
        set_mtu(&topology, ("near", "far"), "1500");
        until("large datagrams pass again", &mut || passes(client, 1300));
    });
}

#[test]
fn every_proxy_on_the_way_back_passes_a_limit_on() {
    let topology = networks();
    let nodes = Nodes::start(&topology, "near", "{ to: middle }");
    with_echo(&topology, |client| {
        let counts = || [&nodes.middle, &nodes.near, &nodes.entry].map(too_large);
        let until = |what: &str, holds: &mut dyn FnMut() -> bool| {
            assert!((0..ATTEMPTS).any(|_| holds()), "{what}: {:?}", counts());
        };
        until("large datagrams pass", &mut || passes(client, LARGE));
        set_mtu(&topology, ("near", "far"), "1280");
        until("the entry has been told", &mut || !passes(client, LARGE) && too_large(&nodes.entry) > 0);
        let [middle, near, entry] = counts();
        assert!(middle > 0, "it found the limit");
        assert!((0..10).all(|_| !passes(client, LARGE)), "they are too large");
        assert_eq!(counts(), [middle, near, entry + 10], "the entry drops them now");
        set_mtu(&topology, ("near", "far"), "1500");
        until("large datagrams pass again", &mut || passes(client, LARGE));
    });
}

/// What the path to the client does not carry is dropped where the answers enter the overlay.
#[test]
fn a_limit_on_the_way_to_the_client_is_told_towards_the_target() {
    let topology = networks();
    let nodes = Nodes::start(&topology, "near", "{ to: far }");
    with_echo(&topology, |client| {
        let until = |what: &str, holds: &mut dyn FnMut() -> bool| {
            assert!((0..ATTEMPTS).any(|_| holds()), "{what}: {:?}", [&nodes.near, &nodes.far].map(too_large));
        };
        until("large answers pass", &mut || answers(client));
        set_mtu(&topology, ("client", "near"), "1280");
        until("the far proxy has been told", &mut || !answers(client) && too_large(&nodes.far) > 0);
        let (near, far) = (too_large(&nodes.near), too_large(&nodes.far));
        assert!(near > 0, "it found the limit");
        assert!((0..10).all(|_| !answers(client)), "they are too large");
        assert_eq!((too_large(&nodes.near), too_large(&nodes.far)), (near, far + 10), "the far one drops them now");
        set_mtu(&topology, ("client", "near"), "1500");
        until("large answers pass again", &mut || answers(client));
    });
}

fn follow(topology: &Topology, client: &Client, entry: &Node) {
    let until = |what: &str, mut holds: Box<dyn FnMut() -> bool + '_>| {
        assert!((0..ATTEMPTS).any(|_| holds()), "{what}: {:#}", entry.status()["hops"]);
    };
    until("large datagrams pass", Box::new(|| passes(client, 1300)));
    assert_eq!(far(entry)["carried_by"], "datagrams");
    set_mtu(topology, ("client", "near"), "1280");
    // Large datagrams are lost, which is how the connections learn it. Then the datagrams of the outer one are too small for QUIC,
    // so what the inner one needs takes the stream.
    until(
        "the inner hop takes the stream",
        Box::new(|| {
            passes(client, 1300);
            far(entry)["carried_by"] == "stream"
        }),
    );
    let hop = far(entry);
    assert!(hop["stream_because"].as_str().unwrap().contains("QUIC needs 1200"), "{hop:#}");
    until("what fits the inner connection passes both ways", Box::new(|| passes(client, 1150)));
    assert!(!passes(client, 1300), "it is too large now");
    assert!(passes(client, 1100) || passes(client, 1100), "and small ones still pass");
    set_mtu(topology, ("client", "near"), "1500");
    until(
        "the inner hop has datagrams again",
        Box::new(|| {
            passes(client, 1000);
            // Nothing more comes; it is time that has to pass.
            client.receive_within(Duration::from_millis(100));
            far(entry)["carried_by"] == "datagrams"
        }),
    );
    until("large datagrams pass again", Box::new(|| passes(client, 1300)));
}
