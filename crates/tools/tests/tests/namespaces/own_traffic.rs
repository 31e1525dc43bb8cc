//! A device that takes everything, and what its node opens and accepts itself: that passes by it, also where it was there before.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::{eventually, eventually_true};

use super::packets::start;
use super::within;

/// Alice - router - outside: all that is not her neighbour is behind her default route.
fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["alice", "router", "outside"] {
        topology.add(name).unwrap();
    }
    let cables = [
        ("alice", "10.0.1.1/24", "router", "10.0.1.2/24"),
        ("router", "10.0.2.2/24", "outside", "10.0.2.1/24"),
    ];
    for (one, its, other, others) in cables {
        let plug = |namespace, address| Plug { namespace, address };
        topology.cable(plug(one, its), plug(other, others)).unwrap();
    }
    topology.route("alice", "default", "10.0.1.2").unwrap();
    topology.route("outside", "default", "10.0.2.2").unwrap();
    topology
}

/// Where tunnels end, and what is for the echo.
const OUTSIDE: &str = "
    listeners: { overlay: { http: 10.0.2.1:8443, public: true, insecure_trust: [10.0.1.0/24] } }
    routes:
      - { match: { kind: connect-ip }, terminate: { tun: hermes1, pool: 10.7.0.0/24 } }
      - { match: { target: \"ECHO:7\" }, terminate: echo }
    upstreams: { echo: { endpoints: [\"127.0.0.1:7\"] } }
";

/// Alice's machine, which serves clients outside. Both of its listeners are there from the beginning, and a device, or none.
fn alice(device: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners:
          tcp: {{ tcp: 0.0.0.0:5000, target: \"ECHO:7\", public: true }}
          udp: {{ udp: 10.0.1.1:5000, target: \"ECHO:7\", public: true }}
          {device}
        routes: [ {{ to: outside }} ]
        upstreams: {{ outside: {{ endpoints: [10.0.2.1:8443], http: 2 }} }}
        "
    )
}

const DEVICE: &str = "vpn: { tun: { name: hermes0, routes: [0.0.0.0/0] } }";

/// Says back what it hears, over either.
fn echo(topology: &Topology) {
    let at = (Ipv4Addr::LOCALHOST, 7);
    let (streams, datagrams) = within(topology, "outside", || {
        (TcpListener::bind(at).unwrap(), UdpSocket::bind(at).unwrap())
    });
    thread::spawn(move || {
        for stream in streams.incoming() {
            let mut stream = stream.unwrap();
            let mut writes = stream.try_clone().unwrap();
            thread::spawn(move || std::io::copy(&mut stream, &mut writes));
        }
    });
    thread::spawn(move || {
        let mut room = [0; 2048];
        while let Ok((length, from)) = datagrams.recv_from(&mut room) {
            drop(datagrams.send_to(&room[..length], from));
        }
    });
}

/// A connection to Alice from outside.
fn caller(topology: &Topology) -> TcpStream {
    let at = "10.0.1.1:5000".parse().unwrap();
    let connect = || TcpStream::connect_timeout(&at, Duration::from_secs(10)).unwrap();
    let stream = within(topology, "outside", connect);
    let timeout = Some(Duration::from_secs(10));
    stream.set_read_timeout(timeout).unwrap();
    stream
}

/// A client of Alice's UDP port outside.
fn asker(topology: &Topology) -> UdpSocket {
    let socket = within(topology, "outside", || {
        UdpSocket::bind("0.0.0.0:0").unwrap()
    });
    socket.connect("10.0.1.1:5000").unwrap();
    let timeout = Some(Duration::from_secs(1));
    socket.set_read_timeout(timeout).unwrap();
    socket
}

/// Whether a datagram comes back, which may be lost.
fn echoes(socket: &UdpSocket, datagram: &[u8]) -> bool {
    let mut room = [0; 64];
    (0..10).any(|_| {
        socket.send(datagram).unwrap();
        let heard = socket.recv(&mut room);
        heard.is_ok_and(|length| room[..length] == *datagram)
    })
}

fn speaks(stream: &mut TcpStream) {
    let mut heard = [0; 5];
    stream.write_all(b"hello").unwrap();
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

#[test]
fn a_device_that_takes_everything_takes_nothing_of_its_own_node() {
    let topology = networks();
    echo(&topology);
    let outside = start(&topology, "outside", OUTSIDE);
    let node = start(&topology, "alice", &alice(""));
    let mut before = caller(&topology);
    speaks(&mut before);
    let datagrams = asker(&topology);
    assert!(echoes(&datagrams, b"one"));

    // What is open goes on: accepted connections, the link to the next proxy, and sessions of UDP.
    let (status, said) = node.reload(&alice(DEVICE));
    assert_eq!(status, 200, "{said:#}");
    let network = topology.namespace("alice").unwrap();
    eventually("the tunnel", || {
        network
            .run(&["ping", "-c", "1", "-W", "1", "10.7.0.1"])
            .ok()
    });
    let way = |of: &[&str]| {
        let get = ["ip", "route", "get", "10.0.2.1"];
        network.run(&[&get[..], of].concat()).unwrap()
    };
    assert!(way(&[]).contains("dev hermes0"), "{}", way(&[]));
    let marked = way(&["mark", "0x48000000"]);
    assert!(marked.contains("via 10.0.1.2"), "{marked}");
    speaks(&mut before);
    assert!(echoes(&datagrams, b"two"));

    // And what is new: a client, a session, and a link.
    speaks(&mut caller(&topology));
    assert!(echoes(&asker(&topology), b"three"));
    let mut outside = outside;
    outside.kill();
    let hermes = hermes_tests::program::path();
    let hermes = hermes.to_str().unwrap();
    outside.restart_by(super::command(&topology, "outside", hermes));
    eventually_true("a link is opened again past the device", || {
        !outside.exchanges().is_empty()
    });
    speaks(&mut caller(&topology));
}

#[test]
fn a_node_that_begins_with_such_a_device_serves_clients_behind_it() {
    let topology = networks();
    echo(&topology);
    let _outside = start(&topology, "outside", OUTSIDE);
    let _alice = start(&topology, "alice", &alice(DEVICE));
    let network = topology.namespace("alice").unwrap();
    eventually("the tunnel", || {
        network
            .run(&["ping", "-c", "1", "-W", "1", "10.7.0.1"])
            .ok()
    });
    speaks(&mut caller(&topology));
    let datagrams = asker(&topology);
    assert!(echoes(&datagrams, b"one"));
}
