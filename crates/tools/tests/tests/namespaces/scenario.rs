//! The use case of the overlay: two users, three prefixes and two ingresses, servers of both users at one address; and all that moves under
//! traffic is not noticed.

use std::io::Read;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

use hermes_lab::topology::Topology;
use hermes_tests::Node;
use hermes_tests::eventually::eventually_true;

use super::packets::start;
use super::rehoming::carries;
use super::slices::networks;
use super::traffic::{Echoes, Flow, PORT, Pings, serve};
use super::within;

/// Does something that moves tunnels; how long it took until they had moved, for people to read.
fn update(what: &str, act: impl FnOnce(), is_done: impl FnMut() -> bool) {
    let began = Instant::now();
    act();
    eventually_true(what, is_done);
    eprintln!("{what}: {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
}

pub(super) fn applied(node: &Node, yaml: &str) {
    let (status, said) = node.reload(yaml);
    assert_eq!(status, 200, "{said:#}");
}

/// How many tunnels for IP a node carries.
pub(super) fn tunnels(node: &Node) -> usize {
    let exchanges = node.exchanges();
    let is_ip = |exchange: &&serde_json::Value| exchange["kind"] == "connect-ip";
    exchanges.iter().filter(is_ip).count()
}

/// The destination of both users that each has for itself, and those that they share.
const VIDEO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const WEB: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const LAB: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);

/// A user's machine, which is on two networks with an ingress each, and has a tunnel for each of three prefixes.
fn user(name: &str, number: u8, ingress: &str) -> String {
    format!(
        "
        identity: {{ user: {name} }}
        listeners:
          vpn:
            tun:
              name: hermes0
              addresses: [10.9.0.{number}7/32]
              tunnels:
                video: {{ prefixes: 10.0.0.0/24, set: {{ destination: VIDEO }} }}
                web: {{ prefixes: 10.0.1.0/24, set: {{ destination: WEB }} }}
                lab: {{ prefixes: 10.0.2.0/24, set: {{ destination: LAB }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: {ingress} }} ]
        upstreams:
          ingress: {{ endpoints: [\"10.2.{number}1.2:8443\"], http: 2 }}
          other: {{ endpoints: [\"10.2.{number}2.2:8443\"], http: 2 }}
        "
    )
}

/// Where users enter: whose packets go to which server.
fn ingress(number: u8, of_bob: &str) -> String {
    let to = |matched: &str, server: &str| {
        format!("- {{ match: {{ kind: connect-ip, {matched} }}, to: {server} }}")
    };
    let routes = [
        to("user: alice, fields: { destination: VIDEO }", "one"),
        to("user: bob, fields: { destination: VIDEO }", of_bob),
        to("fields: { destination: WEB }", "one"),
        to("fields: { destination: LAB }", "three"),
    ];
    let routes = routes.join("\n          ");
    format!(
        "
        listeners: {{ overlay: {{ http: 0.0.0.0:8443, public: true, insecure_trust: [10.2.0.0/16] }} }}
        routes:
          {routes}
        upstreams:
          one: {{ endpoints: [\"10.1.{number}1.2:8443\"], http: 2 }}
          two: {{ endpoints: [\"10.1.{number}2.2:8443\"], http: 2 }}
          three: {{ endpoints: [\"10.1.{number}3.2:8443\"], http: 2 }}
        "
    )
}

/// A server, with these addresses behind the device where tunnels end.
fn server(topology: &Topology, name: &'static str, addresses: &[Ipv4Addr]) -> Node {
    let namespace = topology.namespace(name).unwrap();
    for address in addresses {
        let address = address.to_string();
        let add = ["ip", "address", "add", &address, "dev", "lo"];
        namespace.run(&add).unwrap();
    }
    serve(topology, name);
    let yaml = "
        listeners: { overlay: { http: 0.0.0.0:8443, public: true, insecure_trust: [10.1.0.0/16] } }
        routes: [ { match: { kind: connect-ip }, terminate: { tun: hermes1, pool: 10.9.0.0/24, routes: [10.0.0.0/16] } } ]
        egress: { allow: [10.0.0.1/32, 10.0.1.1/32, 10.0.2.1/32] }
    ";
    start(topology, name, yaml)
}

/// Who answers a user at an address.
fn who(topology: &Topology, user: &str, at: Ipv4Addr) -> Option<String> {
    let at = (at, PORT).into();
    let connect = || TcpStream::connect_timeout(&at, Duration::from_secs(1));
    let mut stream = within(topology, user, connect).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    let mut name = String::new();
    stream.read_to_string(&mut name).ok()?;
    Some(name)
}

fn finds(topology: &Topology, user: &str, at: Ipv4Addr, server: &str) {
    eventually_true(&format!("{server} answers {user} at {at}"), || {
        who(topology, user, at).as_deref() == Some(server)
    });
}

#[test]
fn ingress_and_server_move_and_neither_echoes_nor_flows_notice() {
    let topology = networks();
    let _one = server(&topology, "one", &[VIDEO, WEB]);
    let two = server(&topology, "two", &[VIDEO]);
    let three = server(&topology, "three", &[VIDEO, LAB]);
    let first = start(&topology, "ingress", &ingress(1, "two"));
    let second = start(&topology, "other", &ingress(2, "two"));
    let alice = start(&topology, "alice", &user("alice", 1, "ingress"));
    let bob = start(&topology, "bob", &user("bob", 2, "ingress"));
    for (user, video) in [("alice", "one"), ("bob", "two")] {
        finds(&topology, user, VIDEO, video);
        finds(&topology, user, WEB, "one");
        finds(&topology, user, LAB, "three");
    }
    let below: Duration = [("alice", [10, 2, 11, 2]), ("ingress", [10, 1, 11, 2])]
        .map(|(from, to)| Pings::hundred(&topology, from, to.into()).median)
        .iter()
        .sum();
    let through = Pings::hundred(&topology, "alice", VIDEO).median;
    eprintln!("round trip: {through:?}, of which the networks take {below:?}");

    let flows = [
        ("alice", VIDEO, "one"),
        ("bob", WEB, "one"),
        ("bob", VIDEO, "two"),
        ("bob", LAB, "three"),
    ]
    .map(|(user, at, server)| Flow::begin(&topology, user, at, server));
    let asked = [
        ("alice", VIDEO),
        ("alice", LAB),
        ("bob", VIDEO),
        ("bob", WEB),
    ]
    .map(|(user, at)| Pings::begin(&topology, user, at));

    // Both ingresses change, of one user after the other.
    update(
        "the ingress of alice",
        || applied(&alice, &user("alice", 1, "other")),
        || tunnels(&second) == 3,
    );
    update(
        "the ingress of bob",
        || applied(&bob, &user("bob", 2, "other")),
        || tunnels(&second) == 6,
    );
    eventually_true("nothing goes by the first one", || tunnels(&first) == 0);

    // One route changes: what bob opens now is at another server.
    update(
        "the server of bob",
        || applied(&second, &ingress(2, "three")),
        || tunnels(&three) == 3,
    );
    finds(&topology, "bob", VIDEO, "three");
    finds(&topology, "alice", VIDEO, "one");
    assert!(carries(&two), "connections that were open stay there");

    // And back, by the other ingress; but for what is open with the server that was left.
    applied(&first, &ingress(1, "three"));
    update(
        "the ingress of bob again",
        || applied(&bob, &user("bob", 2, "ingress")),
        || tunnels(&first) == 3,
    );
    finds(&topology, "bob", VIDEO, "three");

    for pings in asked {
        let Echoes {
            asked,
            lost,
            median,
        } = pings.end();
        eprintln!("{asked} echoes: {median:?}, {lost} lost");
        // At a change of the server, what was on its way to the old one.
        assert!(lost <= 1, "{lost} echoes are lost");
    }
    for flow in flows {
        let numbers = flow.end();
        eprintln!("a flow: {numbers} numbers");
        assert!(numbers > 0);
    }
}
