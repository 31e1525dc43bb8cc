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

/// Stands for an upstream with `via`, where a route says `to`.
const VIA: &str = "via";

/// To a datagram of this many bytes, the service answers with one of this many.
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
    topology
        .cable(plug("client", "10.0.1.1/24"), plug("near", "10.0.1.2/24"))
        .unwrap();
    topology
        .cable(plug("near", "10.0.2.1/24"), plug("far", "10.0.2.2/24"))
        .unwrap();
    topology
}

/// The path between two networks.
fn set_mtu(topology: &Topology, (one, other): (&str, &str), mtu: &str) {
    for (namespace, device) in [(one, other), (other, one)] {
        topology
            .namespace(namespace)
            .unwrap()
            .run(&["ip", "link", "set", "dev", device, "mtu", mtu])
            .unwrap();
    }
}

fn hop(address: &str, tls: &str, route: &str, upstreams: &str) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: {address}, public: true, tls: {{ {tls} }} }} }}
        routes: [ {route} ]
        {upstreams}
        egress: {{ allow: [10.0.1.2/32, 10.0.2.0/24, 10.0.2.2/32] }}
        "
    )
}

/// The upstreams of the two proxies.
fn upstreams(pki: &Pki) -> String {
    let upstream = |address| {
        format!(
            "{{ endpoints: [\"{address}\"], http: 3, tls: {{ ca_file: {} }} }}",
            pki.ca().display()
        )
    };
    let [near, middle, third, far] = [
        "10.0.1.2:8443",
        "10.0.1.2:9443",
        "10.0.1.2:7443",
        "10.0.2.2:8443",
    ]
    .map(upstream);
    format!("upstreams: {{ near: {near}, middle: {middle}, third: {third}, far: {far} }}")
}

/// The client's node; with `via`, what it has a tunnel to through the near proxy is its own upstream.
fn entry(pki: &Pki, to: &str) -> String {
    let mut upstreams = upstreams(pki);
    let mut action = format!("to: {to}");
    if to == VIA {
        action = "terminate: echo".to_owned();
        upstreams.truncate(upstreams.len() - 1);
        upstreams.push_str(", echo: { endpoints: [\"ECHO:7\"], via: near } }");
    }
    format!(
        "
        listeners: {{ voice: {{ udp: {VOICE}, target: \"ECHO:7\", datagrams: {{ oversize: drop }} }} }}
        routes: [ {{ {action} }} ]
        {upstreams}
        "
    )
}

/// Whether a large answer comes to a small datagram.
fn answers(client: &Client) -> bool {
    client.send(vec![0; SMALL]);
    client
        .receive_within(Duration::from_millis(100))
        .is_some_and(|answer| answer.len() == LARGE)
}

/// Whether a datagram of this size comes back.
fn passes(client: &Client, size: usize) -> bool {
    client.send(vec![size as u8; size]);
    client
        .receive_within(Duration::from_millis(100))
        .is_some_and(|answer| answer.len() == size)
}

/// What it says of its way to the last proxy.
fn far(entry: &Node) -> Value {
    let is_last = |hop: &&Value| hop["hop"].as_str().unwrap().ends_with("> far");
    entry.status()["hops"]
        .as_array()
        .unwrap()
        .iter()
        .find(is_last)
        .unwrap()
        .clone()
}

/// The nodes: one where the client is, and a proxy in each of the other networks.
struct Nodes {
    entry: Node,
    near: Node,
    /// Beside the near one, for routes that lead through it to the far one.
    middle: Node,
    _third: Node,
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
            Node::start_by(
                command(topology, namespace, hermes.to_str().unwrap()),
                name,
                yaml,
            )
        };
        let echo = format!("upstreams: {{ echo: {{ endpoints: [\"{ECHO}\"] }} }}");
        let far = hop(
            "10.0.2.2:8443",
            &tls,
            "{ match: { target: ECHO }, terminate: echo }",
            &echo,
        );
        let near = hop("10.0.1.2:8443", &tls, route, &upstreams(&pki));
        // In a chain each of them ends the tunnel to the next.
        let onwards = if route.contains("terminate") {
            route
        } else {
            "{ to: far }"
        };
        let [middle, third] = ["10.0.1.2:9443", "10.0.1.2:7443"]
            .map(|address| hop(address, &tls, onwards, &upstreams(&pki)));
        let (far, middle) = (start("far", "far", &far), start("near", "middle", &middle));
        let third = start("near", "third", &third);
        let near = start("near", "near", &near);
        Self {
            entry: start("client", "client", &entry(&pki, to)),
            near,
            middle,
            _third: third,
            far,
            _pki: pki,
        }
    }
}

/// Runs `follow` in the client's network while an echo runs in the last.
fn with_echo(topology: &Topology, follow: impl Fn(&Client) + Sync) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            topology.namespace("far").unwrap().enter().unwrap();
            let socket = UdpSocket::bind(ECHO).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(100)))
                .unwrap();
            let mut room = [0; 2000];
            while !over.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut room) else {
                    continue;
                };
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

/// A chain in which the path to the first proxy drops to 1280 bytes and comes back.
fn narrows_and_widens(to: &str) {
    let topology = networks();
    let nodes = Nodes::start(&topology, to, "{ terminate: true }");
    with_echo(&topology, |client| {
        let hops = || nodes.entry.status()["hops"].as_array().unwrap().clone();
        let until = |what: &str, holds: &mut dyn FnMut() -> bool| {
            assert!(
                (0..ATTEMPTS).any(|_| holds()),
                "{to}: {what}: {:#?}",
                hops()
            );
        };
        let carried = || {
            hops()[1..]
                .iter()
                .map(|hop| hop["carried_by"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        until("larger ones pass", &mut || passes(client, 1200));
        assert!(
            carried().iter().all(|by| by == "datagrams"),
            "{:#?}",
            hops()
        );
        set_mtu(&topology, ("client", "near"), "1280");
        // The datagrams of the first hop are too small for QUIC then, those of a hop that has a stream are not.
        until("the second hop takes the stream", &mut || {
            passes(client, 1200);
            carried()[0] == "stream"
        });
        assert!(
            hops()[1]["stream_because"]
                .as_str()
                .unwrap()
                .contains("QUIC needs 1200"),
            "{:#?}",
            hops()
        );
        until("what fits passes both ways", &mut || passes(client, 1000));
        assert!(hops().iter().all(|hop| hop["http"] == 3), "{:#?}", hops());
        set_mtu(&topology, ("client", "near"), "1500");
        until("every hop has datagrams again", &mut || {
            passes(client, 1000);
            // Nothing more comes; it is time that has to pass.
            client.receive_within(Duration::from_millis(100));
            carried().iter().all(|by| by == "datagrams")
        });
        until("larger ones pass again", &mut || passes(client, 1200));
    });
}

#[test]
fn a_chain_of_three_hops_follows_a_path_of_1280_bytes() {
    narrows_and_widens("[near, middle, far]");
}

#[test]
fn a_chain_of_four_hops_follows_a_path_of_1280_bytes() {
    narrows_and_widens("[near, middle, third, far]");
}

/// Datagrams that a node dropped because they were too large.
fn too_large(node: &Node) -> u64 {
    let metrics = node.metrics();
    let counts = metrics
        .lines()
        .filter(|line| line.contains("dropped") && line.contains("too_large"));
    counts
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// Between two proxies that pass datagrams on, what is too large is dropped by the first of them, and counted there. It tells the
/// node before it, which then drops it itself.
#[test]
fn a_proxy_drops_and_counts_what_the_path_onwards_does_not_carry_and_says_so() {
    first_drops_then_tells("near");
}

#[test]
fn a_proxy_tells_who_reaches_an_upstream_through_it() {
    first_drops_then_tells(VIA);
}

fn first_drops_then_tells(to: &str) {
    let topology = networks();
    let nodes = Nodes::start(&topology, to, "{ to: far }");
    with_echo(&topology, |client| {
        let until = |what: &str, holds: &mut dyn FnMut() -> bool| {
            assert!(
                (0..ATTEMPTS).any(|_| holds()),
                "{what}: {}",
                nodes.near.metrics()
            );
        };
        until("large datagrams pass, as is said", &mut || {
            passes(client, 1300) && limit(&nodes.entry) >= 1300
        });
        assert_eq!([too_large(&nodes.near), too_large(&nodes.entry)], [0, 0]);
        set_mtu(&topology, ("near", "far"), "1280");
        until("the proxy knows that they are too large", &mut || {
            !passes(client, 1300) && too_large(&nodes.near) > 0
        });
        until("the entry has been told", &mut || {
            !passes(client, 1300) && too_large(&nodes.entry) > 0
        });
        let (near, entry) = (too_large(&nodes.near), too_large(&nodes.entry));
        assert!((0..10).all(|_| !passes(client, 1300)), "they are too large");
        assert_eq!(
            (too_large(&nodes.near), too_large(&nodes.entry)),
            (near, entry + 10),
            "the entry drops them now"
        );
        assert!(
            (0..10).any(|_| passes(client, 1100)),
            "small ones still pass"
        );
        assert!(
            (1..1300).contains(&limit(&nodes.entry)),
            "{:#?}",
            nodes.entry.exchanges()
        );
        set_mtu(&topology, ("near", "far"), "1500");
        until("large datagrams pass again", &mut || passes(client, 1300));
    });
}

/// What a node says of the largest datagrams of its one session; 0 before it knows.
fn limit(node: &Node) -> u64 {
    node.exchanges()[0]["datagram_limit_in"]
        .as_u64()
        .unwrap_or(0)
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
        until("the entry has been told", &mut || {
            !passes(client, LARGE) && too_large(&nodes.entry) > 0
        });
        let [middle, near, entry] = counts();
        assert!(middle > 0, "it found the limit");
        assert!(
            (0..10).all(|_| !passes(client, LARGE)),
            "they are too large"
        );
        assert_eq!(
            counts(),
            [middle, near, entry + 10],
            "the entry drops them now"
        );
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
            assert!(
                (0..ATTEMPTS).any(|_| holds()),
                "{what}: {:?}",
                [&nodes.near, &nodes.far].map(too_large)
            );
        };
        until("large answers pass", &mut || answers(client));
        set_mtu(&topology, ("client", "near"), "1280");
        until("the far proxy has been told", &mut || {
            !answers(client) && too_large(&nodes.far) > 0
        });
        let (near, far) = (too_large(&nodes.near), too_large(&nodes.far));
        assert!(near > 0, "it found the limit");
        assert!((0..10).all(|_| !answers(client)), "they are too large");
        assert_eq!(
            (too_large(&nodes.near), too_large(&nodes.far)),
            (near, far + 10),
            "the far one drops them now"
        );
        set_mtu(&topology, ("client", "near"), "1500");
        until("large answers pass again", &mut || answers(client));
    });
}

fn follow(topology: &Topology, client: &Client, entry: &Node) {
    let until = |what: &str, mut holds: Box<dyn FnMut() -> bool + '_>| {
        assert!(
            (0..ATTEMPTS).any(|_| holds()),
            "{what}: {:#}",
            entry.status()["hops"]
        );
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
    assert!(
        hop["stream_because"]
            .as_str()
            .unwrap()
            .contains("QUIC needs 1200"),
        "{hop:#}"
    );
    until(
        "what fits the inner connection passes both ways",
        Box::new(|| passes(client, 1150)),
    );
    assert!(!passes(client, 1300), "it is too large now");
    assert!(
        (0..10).any(|_| passes(client, 1100)),
        "and small ones still pass"
    );
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
    until(
        "large datagrams pass again",
        Box::new(|| passes(client, 1300)),
    );
}
