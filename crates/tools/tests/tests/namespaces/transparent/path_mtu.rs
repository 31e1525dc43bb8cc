//! Datagrams that are longer than the way carries: a captured program learns it as from a router on the way.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::{Node, Pki, program};

use super::super::captured::Place;
use super::super::{command, within};
use super::network::{SERVERS, as_user, networks, node, run};

/// Sends datagrams that may not be cut until one is refused for its length, and prints the MTU that the kernel has learned, the largest
/// payload that comes back, and whether one byte more is refused.
const LEARN: &str = "
import errno, socket, sys
host, size = sys.argv[1], int(sys.argv[2])
v6 = ':' in host
level, discover, mtu, headers = (41, 23, 24, 48) if v6 else (0, 10, 14, 28)
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(level, discover, 2)
s.settimeout(0.1)
s.connect((host, 7000))
def attempt(size):
    try:
        s.send(bytes(size))
        return s.recv(2048) == str(size).encode()
    except TimeoutError:
        return False
    except OSError as error:
        if error.errno == errno.EMSGSIZE:
            return error
        return False
def some(wanted):
    return any(wanted() for _ in range(150))
assert some(lambda: attempt(100) is True), 'nothing comes back'
if sys.argv[3:]:
    print('ready', flush=True)
    sys.stdin.readline()
came = []
def refused():
    came.append(attempt(size))
    return isinstance(came[-1], OSError)
assert some(refused), f'never refused: {came.count(True)} of {len(came)} came back'
learned = s.getsockopt(level, mtu)
fits = learned - headers
assert some(lambda: attempt(fits) is True), f'{fits} bytes do not come back'
print(learned, isinstance(attempt(fits + 1), OSError))
";

/// A server that answers each datagram with its length.
fn lengths(topology: &Topology) {
    lengths_at(topology, "server", SERVERS);
}

fn lengths_at(topology: &Topology, namespace: &str, addresses: [&'static str; 2]) {
    for address in addresses {
        let socket = within(topology, namespace, move || {
            UdpSocket::bind((address, 7000)).unwrap()
        });
        thread::spawn(move || {
            let mut room = [0; 2048];
            while let Ok((length, from)) = socket.recv_from(&mut room) {
                drop(socket.send_to(length.to_string().as_bytes(), from));
            }
        });
    }
}

/// Runs the program; returns the MTU that it has learned.
fn learned(mut python: Command, address: &str, size: usize) -> usize {
    let size = size.to_string();
    let output = python.args(["-c", LEARN, address, &size]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{address}: {output:?}");
    let (mtu, refuses_more) = said.trim().split_once(' ').unwrap();
    assert_eq!(refuses_more, "True", "{address}: {said}");
    mtu.parse().unwrap()
}

/// As [`learned`]; `meanwhile` runs before the large datagrams leave.
fn learned_after(mut python: Command, address: &str, meanwhile: impl FnOnce()) -> usize {
    python.args(["-c", LEARN, address, "1440", "wait"]);
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    let mut said = BufReader::new(python.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    meanwhile();
    python.stdin.take().unwrap().write_all(b"\n").unwrap();
    let said = said.next().unwrap_or_else(|| Ok(String::new())).unwrap();
    assert!(python.wait().unwrap().success(), "{address}: {said}");
    said.split_once(' ').unwrap().0.parse().unwrap()
}

fn set_mtu(topology: &Topology, (one, other): (&str, &str), mtu: usize) {
    for (namespace, device) in [(one, other), (other, one)] {
        let set = format!("ip link set dev {device} mtu {mtu}");
        run(topology, namespace, &set);
    }
}

#[test]
fn a_client_learns_the_mtu_of_the_link_behind_the_node() {
    let topology = networks();
    lengths(&topology);
    set_mtu(&topology, ("router", "server"), 1400);
    let node = node(&topology, "interfaces: client");

    for address in SERVERS {
        let client = command(&topology, "client", "/usr/bin/python3");
        assert_eq!(learned(client, address, 1440), 1400);
    }
    assert!(node.metrics().contains("reason=\"too_large\""));
}

#[test]
fn a_client_learns_the_mtu_after_routes_have_changed() {
    let topology = networks();
    lengths(&topology);
    set_mtu(&topology, ("router", "server"), 1400);
    let _node = node(&topology, "interfaces: client");
    for (address, family) in SERVERS.into_iter().zip(["-4", "-6"]) {
        let client = command(&topology, "client", "/usr/bin/python3");
        let mtu = learned_after(client, address, || {
            // A socket of IPv6 that has used such a route knows none afterwards.
            for change in ["add", "del"] {
                let line = format!("ip {family} route {change} {address} dev server");
                run(&topology, "router", &line);
            }
        });
        assert_eq!(mtu, 1400, "{address}");
    }
}

#[test]
fn a_client_learns_the_mtu_of_the_link_behind_the_last_proxy() {
    let topology = networks();
    lengths(&topology);
    set_mtu(&topology, ("router", "server"), 1400);
    let hermes = program::path();
    let start = |name, yaml: &str| {
        let command = command(&topology, "router", hermes.to_str().unwrap());
        Node::start_by(command, name, yaml)
    };
    let _last = start(
        "last",
        "
        listeners: { chain: { http: 127.0.0.1:8402 } }
        routes: [ { terminate: true } ]
        egress: { allow: [10.0.2.0/24, \"fd02::/64\"] }
        ",
    );
    let _second = start(
        "second",
        "
        listeners: { chain: { http: 127.0.0.1:8401 } }
        routes: [ { to: last } ]
        upstreams: { last: { endpoints: [127.0.0.1:8402], http: 2 } }
        ",
    );
    let _first = start(
        "first",
        "
        listeners: { lan: { capture: { host: { interfaces: client } } } }
        routes: [ { to: second } ]
        upstreams: { second: { endpoints: [127.0.0.1:8401], http: 1 } }
        ",
    );
    for address in SERVERS {
        let client = command(&topology, "client", "/usr/bin/python3");
        assert_eq!(learned(client, address, 1440), 1400);
    }
}

/// A host behind the server, which becomes a router; the link between them carries less than all others.
fn far_host(topology: &mut Topology) -> [&'static str; 2] {
    topology.add("far").unwrap();
    let plug = |namespace, address| Plug { namespace, address };
    let cable = topology.cable(plug("server", "10.0.3.1/24"), plug("far", "10.0.3.2/24"));
    cable.unwrap();
    for (namespace, line) in [
        ("server", "ip address add fd03::1/64 dev far nodad"),
        ("far", "ip address add fd03::2/64 dev server nodad"),
        ("server", "sysctl -qw net.ipv4.ip_forward=1"),
        ("server", "sysctl -qw net.ipv6.conf.all.forwarding=1"),
        ("far", "ip route add default via 10.0.3.1"),
        ("far", "ip -6 route add default via fd03::1"),
        ("router", "ip route add 10.0.3.0/24 via 10.0.2.2"),
        ("router", "ip -6 route add fd03::/64 via fd02::2"),
    ] {
        run(topology, namespace, line);
    }
    set_mtu(topology, ("server", "far"), 1300);
    ["10.0.3.2", "fd03::2"]
}

#[test]
fn a_client_learns_the_mtu_that_a_router_beyond_the_last_proxy_tells() {
    let mut topology = networks();
    let addresses = far_host(&mut topology);
    lengths_at(&topology, "far", addresses);
    let hermes = program::path();
    let start = |name, yaml: &str| {
        let command = command(&topology, "router", hermes.to_str().unwrap());
        Node::start_by(command, name, yaml)
    };
    let _last = start(
        "last",
        "
        listeners: { chain: { http: 127.0.0.1:8402 } }
        routes: [ { terminate: true } ]
        egress: { allow: [10.0.3.0/24, \"fd03::/64\"] }
        ",
    );
    let _first = start(
        "first",
        "
        listeners: { lan: { capture: { host: { interfaces: client } } } }
        routes: [ { to: last } ]
        upstreams: { last: { endpoints: [127.0.0.1:8402], http: 2 } }
        ",
    );
    for address in addresses {
        let client = command(&topology, "client", "/usr/bin/python3");
        assert_eq!(learned(client, address, 1440), 1300, "{address}");
    }
}

/// A node on the router that captures this, and carries it over QUIC, with these limits of datagrams, to a node where the server is.
fn over_quic(topology: &Topology, capture: &str, datagrams: &str) -> (Node, Node, Pki) {
    let pki = Pki::new();
    let tls = pki.issue(&["10.0.2.2"]).yaml();
    let hermes = program::path();
    let start = |namespace, yaml: &str| {
        let command = command(topology, namespace, hermes.to_str().unwrap());
        Node::start_by(command, namespace, yaml)
    };
    let edge = start(
        "server",
        &format!(
            "
            listeners: {{ overlay: {{ http: 10.0.2.2:8443, public: true, insecure_trust: [10.0.2.0/24], tls: {{ {tls} }} }} }}
            routes: [ {{ match: {{ kind: connect-udp }}, terminate: true }} ]
            egress: {{ allow: [10.0.2.2/32, \"fd02::2/128\"] }}
            "
        ),
    );
    let entry = start(
        "router",
        &format!(
            "
            listeners: {{ lan: {{ capture: {{ {capture} }} }} }}
            routes: [ {{ to: edge, datagrams: {datagrams} }} ]
            upstreams: {{ edge: {{ endpoints: [\"10.0.2.2:8443\"], http: 3, tls: {{ ca_file: {} }} }} }}
            ",
            pki.ca().display()
        ),
    );
    (entry, edge, pki)
}

#[test]
fn clients_and_programs_learn_how_much_the_way_over_quic_carries() {
    let topology = networks();
    lengths(&topology);
    let capture = "host: { interfaces: client, only: { users: 1000 } }";
    let (_entry, _edge, _pki) = over_quic(&topology, capture, "{}");

    for address in SERVERS {
        let client = command(&topology, "client", "/usr/bin/python3");
        let far = learned(client, address, 1452 - 8);
        let program = as_user(&topology, 1000, "/usr/bin/python3");
        let near = learned(program, address, 1452 - 8);
        for mtu in [far, near] {
            assert!((1260..1492).contains(&mtu), "{address}: {mtu}");
        }
    }
}

#[test]
fn a_program_captured_without_rights_learns_how_much_the_way_over_quic_carries() {
    let topology = networks();
    lengths(&topology);
    let place = Place::new();
    let capture = place.capture();
    let (_entry, _edge, _pki) = over_quic(&topology, &capture, "{}");

    for address in SERVERS {
        let program = place.captured_at(&topology, "router", &["/usr/bin/python3"]);
        let mtu = learned(program, address, 1452 - 8);
        assert!((1260..1492).contains(&mtu), "{address}: {mtu}");
    }
}

/// Asks for answers of these many bytes, and prints how many came.
const LONG_ANSWERS: &str = r"
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
stream = socket.socket(family, socket.SOCK_DGRAM)
stream.settimeout(10)
stream.connect((sys.argv[1], 7001))
for size in sys.argv[2:]:
    stream.send(size.encode())
    print(len(stream.recv(65535)), end=' ')
";

/// A server whose answers have as many bytes as they were asked for.
fn long_answers(topology: &Topology) {
    for address in SERVERS {
        let socket = within(topology, "server", move || {
            UdpSocket::bind((address, 7001)).unwrap()
        });
        thread::spawn(move || {
            let mut room = [0; 16];
            while let Ok((length, from)) = socket.recv_from(&mut room) {
                let asked = str::from_utf8(&room[..length]).unwrap();
                drop(socket.send_to(&vec![7; asked.parse().unwrap()], from));
            }
        });
    }
}

/// Checks that answers longer than any link come, in pieces.
fn come_whole(mut python: Command, address: &str) {
    let arguments = ["-c", LONG_ANSWERS, address, "1000", "4000", "60000"];
    let output = python.args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "1000 4000 60000", "{address}: {output:?}");
}

#[test]
fn answers_longer_than_a_link_come_in_pieces() {
    let topology = networks();
    long_answers(&topology);
    let capture = "host: { interfaces: client, only: { users: 1000 } }";
    let (_entry, _edge, _pki) = over_quic(&topology, capture, "{ oversize: capsule }");

    for address in SERVERS {
        come_whole(command(&topology, "client", "/usr/bin/python3"), address);
        come_whole(as_user(&topology, 1000, "/usr/bin/python3"), address);
    }
}

#[test]
fn answers_longer_than_its_link_come_in_pieces_to_a_program_captured_without_rights() {
    let topology = networks();
    long_answers(&topology);
    let place = Place::new();
    let capture = place.capture();
    let (_entry, _edge, _pki) = over_quic(&topology, &capture, "{ oversize: capsule }");

    for address in SERVERS {
        let program = place.captured_at(&topology, "router", &["/usr/bin/python3"]);
        come_whole(program, address);
    }
}
