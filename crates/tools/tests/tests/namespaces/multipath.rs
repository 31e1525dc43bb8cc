//! Multipath TCP: between two nodes with two networks between them, of which one is lost, and from a node to the target of a client of SOCKS6.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::{eventually, eventually_true};

use super::packets::{networks, start};
use super::{Running, command, within};

/// Sends back what it gets: at 7000 over several paths where the client wants them, at 7001 over one.
const SERVER: &str = r#"
import socket, threading
def echo(stream):
    while data := stream.recv(65536):
        stream.sendall(data)
    stream.close()
def serve(port, protocol):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("10.0.2.2", port))
    listener.listen()
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],)).start()
threading.Thread(target=serve, args=(7000, 262)).start()
serve(7001, 0)
"#;

fn serve(topology: &Topology) -> Running {
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let mut server = command(topology, "server", &python);
    Running(
        server
            .args(["-c", SERVER])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

fn run(topology: &Topology, namespace: &str, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    topology.namespace(namespace).unwrap().run(&words).unwrap()
}

/// A second network between Alice's machine and the edge, which the edge names to its peers.
fn second_network(topology: &mut Topology) {
    topology.add("second").unwrap();
    let plug = |namespace, address| Plug { namespace, address };
    let cables = [
        (plug("alice", "10.0.4.1/24"), plug("second", "10.0.4.2/24")),
        (plug("second", "10.0.5.1/24"), plug("edge", "10.0.5.2/24")),
    ];
    for (one, other) in cables {
        topology.cable(one, other).unwrap();
    }
    for (namespace, line) in [
        ("second", "sysctl -qw net.ipv4.ip_forward=1"),
        ("alice", "ip route add 10.0.5.0/24 via 10.0.4.2"),
        ("edge", "ip route add 10.0.4.0/24 via 10.0.5.1"),
        ("alice", "ip mptcp limits set subflow 2 add_addr_accepted 2"),
        ("edge", "ip mptcp limits set subflow 2"),
        ("edge", "ip mptcp endpoint add 10.0.5.2 signal"),
    ] {
        run(topology, namespace, line);
    }
}

/// The node at the edge.
fn edge(multipath: bool) -> String {
    format!(
        "
        listeners: {{ web: {{ http: 0.0.0.0:8443, public: true, multipath: {multipath}, insecure_trust: [10.0.0.0/8] }} }}
        routes: [{{ terminate: true }}]
        egress: {{ allow: [10.0.2.2/32] }}
        "
    )
}

/// The node of Alice's machine, which takes connections for the server at a port.
fn alice(version: u8) -> String {
    format!(
        "
        listeners: {{ echo: {{ tcp: 127.0.0.1:7000, target: 10.0.2.2:7001 }} }}
        routes: [{{ to: edge }}]
        upstreams: {{ edge: {{ endpoints: [10.0.1.2:8443], http: {version}, multipath: true }} }}
        "
    )
}

/// A tunnel to the server that has carried something.
fn tunnel(topology: &Topology) -> TcpStream {
    let mut tunnel = eventually("a tunnel", || {
        within(topology, "alice", || {
            let address = SocketAddr::from(([127, 0, 0, 1], 7000));
            TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()
        })
    });
    tunnel
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    assert!(carries(&mut tunnel, b"before"));
    tunnel
}

fn carries(tunnel: &mut TcpStream, bytes: &[u8]) -> bool {
    let mut back = vec![0; bytes.len()];
    let sent = tunnel.write_all(bytes);
    sent.and_then(|()| tunnel.read_exact(&mut back)).is_ok() && back == bytes
}

#[test]
fn a_tunnel_between_two_nodes_outlasts_the_loss_of_one_network_of_two() {
    for version in [1, 2] {
        let mut topology = networks();
        second_network(&mut topology);
        let _server = serve(&topology);
        let _edge = start(&topology, "edge", &edge(true));
        let _alice = start(&topology, "alice", &alice(version));
        let mut tunnel = tunnel(&topology);
        eventually_true("a second path", || {
            run(&topology, "alice", "ss -Htn dst 10.0.5.2").contains("ESTAB")
        });

        let bulk: Vec<u8> = (0..1 << 20).map(|at| at as u8).collect();
        assert!(carries(&mut tunnel, &bulk[..1 << 16]), "over both");
        run(&topology, "alice", "ip link set dev edge down");
        assert!(carries(&mut tunnel, b"after"), "over HTTP/{version}");
        assert!(carries(&mut tunnel, &bulk[..1 << 16]));
    }
}

/// Connections that programs of Alice's machine opened to peers that take part, by the kernel's count.
fn opened(topology: &Topology) -> u32 {
    let counter = "MPTcpExtMPCapableSYNACKRX";
    let said = run(topology, "alice", &format!("nstat -asz {counter}"));
    let line = said.lines().find(|line| line.starts_with(counter)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_peer_that_does_not_take_part_gets_an_ordinary_connection_and_a_reload_changes_that() {
    let mut topology = networks();
    second_network(&mut topology);
    let _server = serve(&topology);
    let at_edge = start(&topology, "edge", &edge(false));
    let _alice = start(&topology, "alice", &alice(1));
    let has_several = || {
        let before = opened(&topology);
        let _open = tunnel(&topology);
        opened(&topology) > before
    };
    assert!(!has_several(), "the edge takes no part");

    let (status, said) = at_edge.reload(&edge(true));
    assert_eq!(status, 200, "{said}");
    eventually_true("a connection of several paths", has_several);
}

/// Asks for a port by SOCKS6 and for several paths (2) or one (1), or says nothing of it (0); says the reply, the option in it, and the echo.
const SIX: &str = r#"
import socket, sys
port, wanted = map(int, sys.argv[1:])
option = bytes([0, 1, 0, 8, 0x84, 2, wanted, 0]) if wanted else b""
request = bytes([6, 1, 0, len(option)]) + port.to_bytes(2, "big") + bytes([0, 1, 10, 0, 2, 2]) + option
stream = socket.create_connection(("10.0.1.2", 1080), 20)
stream.sendall(request + b"hello")
def read(count):
    heard = b""
    while len(heard) < count:
        data = stream.recv(count - len(heard))
        assert data, heard
        heard += data
    return heard
assert read(4)[1] == 0
reply = read(12)
options = read(int.from_bytes(reply[2:4], "big"))
print(reply[1], options.hex() or "none", read(5).decode())
"#;

#[test]
fn a_client_of_socks6_asks_for_several_paths_to_its_target_and_hears_whether_there_are() {
    let topology = networks();
    let _server = serve(&topology);
    let edge = "
        listeners: { s: { socks: 10.0.1.2:1080, public: true, experimental: true } }
        routes: [{ terminate: true }]
        egress: { allow: [10.0.2.2/32], multipath: true }
        ";
    let at_edge = start(&topology, "edge", edge);
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let ask = |port: &str, wanted: &str| {
        let words = [&*python, "-c", SIX, port, wanted];
        let said = topology.namespace("alice").unwrap().run(&words);
        said.map(|said| said.trim().to_owned()).unwrap_or_default()
    };

    eventually_true("several paths", || {
        ask("7000", "2") == "0 0001000884020200 hello"
    });
    assert_eq!(
        ask("7001", "2"),
        "0 0001000884020100 hello",
        "the target takes no part"
    );
    assert_eq!(ask("7000", "1"), "0 0001000884020100 hello", "not wanted");
    assert_eq!(ask("7000", "0"), "0 none hello");

    let (status, said) = at_edge.reload(&edge.replace(", multipath: true", ""));
    assert_eq!(status, 200, "{said}");
    eventually_true("the rules of egress", || {
        ask("7000", "2") == "0 0001000884020100 hello"
    });
}
