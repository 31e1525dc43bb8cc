//! Slices: for each user the same address is another host, by the routes on the way.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};

use super::packets::start;
use super::within;

/// The address that every server has.
const SERVER: &str = "10.0.0.1:5000";

/// Two users, two ingresses that both know, and three servers behind each.
pub(super) fn networks() -> Topology {
    let mut topology = Topology::new();
    let names = ["alice", "bob", "ingress", "other", "one", "two", "three"];
    for name in names {
        topology.add(name).unwrap();
    }

    let cable = |one: &str, other: &str, network: &str| {
        let ends = [format!("{network}.1/24"), format!("{network}.2/24")];
        let plug = |namespace, address| Plug { namespace, address };
        let cabled = topology.cable(plug(one, &ends[0]), plug(other, &ends[1]));
        cabled.unwrap();
    };
    cable("alice", "ingress", "10.2.11");
    cable("alice", "other", "10.2.12");
    cable("bob", "ingress", "10.2.21");
    cable("bob", "other", "10.2.22");
    for (ingress, number) in [("ingress", 1), ("other", 2)] {
        cable(ingress, "one", &format!("10.1.{number}1"));
        cable(ingress, "two", &format!("10.1.{number}2"));
        cable(ingress, "three", &format!("10.1.{number}3"));
    }
    topology
}

/// A user's machine, on two networks with an ingress each.
fn user(name: &str, number: u8) -> String {
    format!(
        "
        identity: {{ user: {name} }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, routes: [10.0.0.0/24] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: ingress }} ]
        upstreams:
          ingress: {{ endpoints: [\"10.2.{number}1.2:8443\", \"10.2.{number}2.2:8443\"], http: 2 }}
        "
    )
}

/// Where users enter: whose packets go to which server.
fn ingress(number: u8, of_bob: &str) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: 0.0.0.0:8443, public: true, insecure_trust: [10.2.0.0/16] }} }}
        routes:
          - {{ match: {{ kind: connect-ip, user: alice }}, to: one }}
          - {{ match: {{ kind: connect-ip, user: bob }}, to: {of_bob} }}
        upstreams:
          one: {{ endpoints: [\"10.1.{number}1.2:8443\"], http: 2 }}
          two: {{ endpoints: [\"10.1.{number}2.2:8443\"], http: 2 }}
          three: {{ endpoints: [\"10.1.{number}3.2:8443\"], http: 2 }}
        "
    )
}

/// A server, which has the first address of its device.
const AT_SERVER: &str = "
    listeners: { overlay: { http: 0.0.0.0:8443, public: true, insecure_trust: [10.1.0.0/16] } }
    routes: [ { match: { kind: connect-ip }, terminate: { tun: hermes1, pool: 10.0.0.0/24, routes: [10.0.0.0/24] } } ]
    egress: { allow: [10.0.0.1/32] }
";

/// Starts a server that says its name to anyone who connects, and then what it hears.
fn server(topology: &Topology, name: &'static str) -> Node {
    let node = start(topology, name, AT_SERVER);
    let listening = eventually("the address of the device", || {
        within(topology, name, || TcpListener::bind(SERVER).ok())
    });
    thread::spawn(move || {
        for stream in listening.incoming() {
            // A client may leave first.
            thread::spawn(move || stream.and_then(|stream| speak(stream, name)));
        }
    });
    node
}

/// Says a name, and then what it hears.
pub(super) fn speak(mut stream: TcpStream, name: &str) -> std::io::Result<u64> {
    stream.write_all(name.as_bytes())?;
    let mut reads = stream.try_clone()?;
    std::io::copy(&mut reads, &mut stream)
}

/// A user's connection to the address of the servers.
fn connected(topology: &Topology, user: &str) -> Option<TcpStream> {
    let stream = within(topology, user, || {
        TcpStream::connect_timeout(&SERVER.parse().unwrap(), Duration::from_secs(1))
    });
    let stream = stream.ok()?;
    let timeout = Some(Duration::from_secs(1));
    stream.set_read_timeout(timeout).unwrap();
    Some(stream)
}

/// Who answers at the address of the servers.
fn answers(topology: &Topology, user: &str) -> Option<String> {
    let mut stream = connected(topology, user)?;
    stream.shutdown(Shutdown::Write).ok()?;
    let mut name = String::new();
    stream.read_to_string(&mut name).ok()?;
    Some(name)
}

/// Waits until this server answers a user.
fn finds(topology: &Topology, user: &str, server: &str) {
    eventually_true(&format!("{server} answers {user}"), || {
        answers(topology, user).as_deref() == Some(server)
    });
}

pub(super) fn hears(stream: &mut TcpStream, word: &str) {
    let mut heard = vec![0; word.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(heard, word.as_bytes());
}

/// Whether an ingress has a tunnel of Alice's.
fn has_alice(ingress: &Node) -> bool {
    let exchanges = ingress.exchanges();
    exchanges.iter().any(|exchange| exchange["user"] == "alice")
}

#[test]
fn one_address_is_another_host_for_another_user_and_ingress_and_server_change() {
    let topology = networks();
    let [_one, mut two, _three] = ["one", "two", "three"].map(|name| server(&topology, name));
    let mut used = (1, start(&topology, "ingress", &ingress(1, "two")));
    let mut left = (2, start(&topology, "other", &ingress(2, "two")));
    let _alice = start(&topology, "alice", &user("alice", 1));
    let _bob = start(&topology, "bob", &user("bob", 2));
    finds(&topology, "alice", "one");
    finds(&topology, "bob", "two");

    // The ingress that Alice uses is no more: both find their servers through the other one.
    if has_alice(&left.1) {
        std::mem::swap(&mut used, &mut left);
    }
    assert!(has_alice(&used.1));
    used.1.kill();
    finds(&topology, "alice", "one");
    finds(&topology, "bob", "two");
    assert!(has_alice(&left.1));

    // A change of one route: new connections go to the new server, and one that is open stays with the old one.
    let mut open = connected(&topology, "bob").unwrap();
    hears(&mut open, "two");
    let (status, said) = left.1.reload(&ingress(left.0, "three"));
    assert_eq!(status, 200, "{said:#}");
    finds(&topology, "bob", "three");
    finds(&topology, "alice", "one");
    for word in ["still", "there"] {
        open.write_all(word.as_bytes()).unwrap();
        hears(&mut open, word);
    }

    // Once it is no more, the connection is over; all else goes on.
    two.kill();
    finds(&topology, "bob", "three");
    finds(&topology, "alice", "one");
}
