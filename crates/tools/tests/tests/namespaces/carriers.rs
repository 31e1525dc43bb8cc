//! What carries tunnels for IP changes under traffic: the version of HTTP, a proxy in the middle, the MTU of a network, the device itself.

use std::process::Command;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, Pki, program};

use super::command;
use super::packets::{bulk, edge, networks, own_address, start};
use super::rehoming::carries;
use super::scenario::{applied, tunnels};
use super::traffic::{Flow, Pings, serve};

/// The server behind the end of `networks`.
const SERVER: [u8; 4] = [10, 0, 2, 2];

/// Alice's machine, which knows the end by both versions.
fn alice(pki: &Pki, to: &str) -> String {
    let tls = format!("tls: {{ ca_file: {} }}", pki.ca().display());
    format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, routes: [10.7.0.0/24, 10.0.2.0/24] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: {to} }} ]
        upstreams:
          h2: {{ endpoints: [10.0.1.2:8443], http: 2, {tls} }}
          h3: {{ endpoints: [10.0.1.2:8443], http: 3, {tls} }}
        "
    )
}

/// By which version the one tunnel of a node arrived.
fn version(end: &Node) -> Option<String> {
    let exchanges = end.exchanges();
    let one = (exchanges.len() == 1).then(|| &exchanges[0])?;
    Some(one["protocol"].as_str()?.to_owned())
}

#[test]
fn the_carrier_changes_from_http2_to_http3_and_back_under_traffic() {
    let topology = networks();
    let pki = Pki::new();
    let tls = pki.issue(&["10.0.1.2"]).yaml();
    let end = start(&topology, "edge", &edge(&format!(", tls: {{ {tls} }}")));
    let node = start(&topology, "alice", &alice(&pki, "h2"));
    serve(&topology, "server");
    let flow = Flow::begin(&topology, "alice", SERVER.into(), "server");
    let address = own_address(&topology);
    let before = version(&end).unwrap();

    let asked = Pings::begin(&topology, "alice", SERVER.into());
    for to in ["h3", "h2", "h3"] {
        applied(&node, &alice(&pki, to));
        let is_new = |protocol: String| (protocol == before) == (to == "h2");
        eventually_true("it arrives by the other version", || {
            version(&end).is_some_and(is_new)
        });
        let moved = node.status()["devices"][0]["moved"].clone();
        let why = moved["why"].as_str().unwrap();
        assert!(why.starts_with("the rules changed"), "{moved:#}");
        assert!(moved["time"].is_string(), "{moved:#}");
    }
    assert_eq!(asked.end().lost, 0);
    assert_eq!(own_address(&topology), address);
    assert!(flow.end() > 0);
}

/// A proxy beside the end, at this port, that passes tunnels on to this one.
fn proxy(topology: &Topology, name: &str, port: u16, to: u16) -> Node {
    let hermes = program::path();
    let command: Command = command(topology, "edge", hermes.to_str().unwrap());
    Node::start_by(command, name, &on_the_way(port, to))
}

fn on_the_way(port: u16, to: u16) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: 10.0.1.2:{port}, public: true, insecure_trust: [10.0.1.0/24] }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: next }} ]
        upstreams: {{ next: {{ endpoints: [10.0.1.2:{to}], http: 2 }} }}
        "
    )
}

#[test]
fn a_proxy_in_the_middle_of_a_chain_changes_under_traffic() {
    let topology = networks();
    let end = start(&topology, "edge", &edge(""));
    let one = proxy(&topology, "one", 8445, 8443);
    let mut two = proxy(&topology, "two", 8446, 8443);
    let first = proxy(&topology, "first", 8444, 8445);
    let alice = "
        identity: { user: alice }
        listeners: { vpn: { tun: { name: hermes0, routes: [10.7.0.0/24, 10.0.2.0/24] } } }
        routes: [ { match: { kind: connect-ip }, to: first } ]
        upstreams: { first: { endpoints: [10.0.1.2:8444], http: 2 } }
    ";
    let _alice = start(&topology, "alice", alice);
    serve(&topology, "server");
    let flow = Flow::begin(&topology, "alice", SERVER.into(), "server");
    let asked = Pings::begin(&topology, "alice", SERVER.into());

    // Who is before it does not notice.
    for (to, used, left) in [(8446, &two, &one), (8445, &one, &two), (8446, &two, &one)] {
        applied(&first, &on_the_way(8444, to));
        eventually_true("the tunnel has moved", || carries(used) && !carries(left));
    }
    assert_eq!(asked.end().lost, 0);
    assert_eq!(tunnels(&end), 1);

    // Without an order: it is killed, and the one before finds the other.
    let both = on_the_way(8444, 8446).replace("8446]", "8446, 10.0.1.2:8445]");
    applied(&first, &both);
    two.kill();
    eventually_true("the tunnel goes by the other one", || carries(&one));
    let moved = first.exchanges()[0]["moved"].clone();
    assert!(moved["why"].is_string(), "{moved:#}");
    assert!(flow.end() > 0);
}

#[test]
fn a_device_that_goes_under_load_comes_back_and_so_do_its_packets() {
    let topology = networks();
    let end = start(&topology, "edge", &edge(""));
    let plain = "
        identity: { user: alice }
        listeners: { vpn: { tun: { name: hermes0, routes: [10.7.0.0/24, 10.0.2.0/24] } } }
        routes: [ { match: { kind: connect-ip }, to: edge } ]
        upstreams: { edge: { endpoints: [10.0.1.2:8443], http: 2 } }
    ";
    let alice = start(&topology, "alice", plain);
    serve(&topology, "server");
    let flow = Flow::begin(&topology, "alice", SERVER.into(), "server");
    let asked = Pings::begin(&topology, "alice", SERVER.into());

    // That of the end: the same client finds its address again, so that its connections go on.
    let network = topology.namespace("edge").unwrap();
    network.run(&["ip", "link", "delete", "hermes1"]).unwrap();
    let record = end.record(|record| record["kind"] == "connect-ip" && record["event"] == "end");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("device"), "{record:#}");
    bulk_again(&topology);
    assert!(flow.end() > 0);

    // That of the client: its listener is there for good, and says why it has none.
    let client = topology.namespace("alice").unwrap();
    client.run(&["ip", "link", "delete", "hermes0"]).unwrap();
    eventually_true("the node says so", || alice.log().contains("deleted"));
    assert!(alice.status()["node"].is_string(), "it lives");
    let echoes = asked.end();
    assert!(echoes.lost < echoes.asked, "{echoes:?}");
}

/// Waits until packets pass, and sends many.
fn bulk_again(topology: &Topology) {
    let alice = topology.namespace("alice").unwrap();
    eventually("an echo", || {
        alice.run(&["ping", "-c", "1", "-W", "1", "10.0.2.2"]).ok()
    });
    bulk(topology, "server", "10.0.2.2:6000");
}

/// Alice - near - far - end: each knows its neighbours only.
pub(super) fn row() -> Topology {
    let mut topology = Topology::new();
    let names = ["alice", "near", "far", "end"];
    for name in names {
        topology.add(name).unwrap();
    }
    for (number, pair) in names.windows(2).enumerate() {
        let ends = [1, 2].map(|host| format!("10.3.{number}.{host}/24"));
        let plug = |namespace, address| Plug { namespace, address };
        let cabled = topology.cable(plug(pair[0], &ends[0]), plug(pair[1], &ends[1]));
        cabled.unwrap();
    }
    topology
}

/// Gives both devices of the cable between two networks this MTU.
pub(super) fn set_mtu(topology: &Topology, one: &str, other: &str, mtu: &str) {
    for (namespace, device) in [(one, other), (other, one)] {
        let namespace = topology.namespace(namespace).unwrap();
        let set = ["ip", "link", "set", "dev", device, "mtu", mtu];
        namespace.run(&set).unwrap();
    }
}

/// The nodes of such a row, in which every hop is HTTP/3, and whose tunnels have addresses of this pool.
pub(super) fn chain(topology: &Topology, pki: &Pki, pool: &str) -> [Node; 4] {
    let ca = pki.ca();
    let next = |number: u8| {
        let endpoint = format!("10.3.{number}.2:8443");
        let tls = format!("tls: {{ ca_file: {} }}", ca.display());
        format!("upstreams: {{ next: {{ endpoints: [\"{endpoint}\"], http: 3, {tls} }} }}")
    };
    let tls = pki.issue(&["10.3.0.2", "10.3.1.2", "10.3.2.2"]).yaml();
    let listener = |number: u8| {
        format!(
            "overlay: {{ http: \"10.3.{number}.2:8443\", public: true, tls: {{ {tls} }}, insecure_trust: [10.3.0.0/16] }}"
        )
    };
    let pass = |number: u8| {
        format!(
            "
            listeners: {{ {} }}
            routes: [ {{ match: {{ kind: connect-ip }}, to: next }} ]
            {}
            ",
            listener(number),
            next(number + 1)
        )
    };
    let end = format!(
        "
        listeners: {{ {} }}
        routes: [ {{ match: {{ kind: connect-ip }}, terminate: {{ tun: hermes1, pool: [{pool}] }} }} ]
        ",
        listener(2)
    );
    let alice = format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, routes: [{pool}] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: next }} ]
        {}
        ",
        next(0)
    );
    [
        start(topology, "end", &end),
        start(topology, "far", &pass(1)),
        start(topology, "near", &pass(0)),
        start(topology, "alice", &alice),
    ]
}

/// The longest packets that the tunnel of this node's device carries.
pub(super) fn carried(node: &Node) -> u64 {
    let status = node.status();
    status["devices"][0]["carries"].as_u64().unwrap_or(0)
}

#[test]
fn the_mtu_is_that_of_the_narrowest_network_of_a_chain_and_senders_are_told_again_when_it_changes()
{
    let topology = row();
    let pki = Pki::new();
    let [_end, _far, _near, alice] = chain(&topology, &pki, "10.7.0.0/24");
    let network = topology.namespace("alice").unwrap();
    // Echoes of whole packets: what does not fit is told, not cut.
    let whole = |packet: u64| {
        let data = (packet - 28).to_string();
        let ask = [
            "ping", "-c", "1", "-W", "1", "-M", "do", "-s", &data, "10.7.0.1",
        ];
        network.run(&ask)
    };
    let is_told = |packet: u64| {
        let told = whole(packet).map_err(|error| error.to_string());
        told.is_err_and(|told| told.contains("mtu"))
    };
    // The kernel keeps what it was told for ten minutes.
    let forgets = || network.run(&["ip", "route", "flush", "cache"]).is_ok();
    eventually("an echo", || whole(1200).ok());
    eventually_true("the path is known", || {
        is_told(1500) && whole(carried(&alice)).is_ok()
    });
    let before = carried(&alice);
    assert!((1401..1500).contains(&before), "{before}");

    // The narrowest network is in the middle.
    set_mtu(&topology, "near", "far", "1400");
    eventually_true("the sender is told again", || is_told(before));
    eventually_true("what is carried is less", || {
        (1281..1400).contains(&carried(&alice)) && whole(carried(&alice)).is_ok()
    });
    eprintln!("a chain carries {before} bytes, then {}", carried(&alice));
    let middle = carried(&alice);
    // What every link of IPv6 carries always passes.
    eventually("packets of 1280 bytes", || whole(1280).ok());

    set_mtu(&topology, "near", "far", "1500");
    eventually_true("large packets pass again", || {
        forgets() && whole(middle).is_ok() && carried(&alice) > middle
    });
}
