//! TCP Fast Open: to a listener for SOCKS6, from there to the target, and from a node to a proxy of SOCKS6. The kernels count it.

use std::process::Stdio;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually_true;

use super::packets::{networks, start};
use super::{Running, command};

const EDGE: &str = "
    listeners: { s: { socks: 10.0.1.2:1080, public: true, experimental: true, fast_open: true } }
    routes: [{ terminate: true }]
    egress: { allow: [10.0.2.2/32] }
    ";

const ALICE: &str = "
    listeners: { s: { socks: 127.0.0.1:1080 } }
    routes: [{ to: edge }]
    upstreams: { edge: { endpoints: [10.0.1.2:1080], socks: { version: 6, experimental: true, fast_open: true } } }
    ";

/// Sends back what it gets; takes it with the first packet, too.
const SERVER: &str = r#"
import socket, threading
listener = socket.create_server(("10.0.2.2", 7000))
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
def echo(stream):
    while data := stream.recv(4096):
        stream.sendall(data)
    stream.close()
while True:
    threading.Thread(target=echo, args=(listener.accept()[0],)).start()
"#;

/// Asks for a port by SOCKS6, whose request opens the connection with the bytes for the target, and for as much behind it; says the reply and the
/// bytes that came back.
const SIX: &str = r#"
import socket, sys
port = int(sys.argv[1])
option = bytes([0, 1, 0, 8, 0x84, 1]) + (3).to_bytes(2, "big")
request = bytes([6, 1, 0, 8]) + port.to_bytes(2, "big") + bytes([0, 1, 10, 0, 2, 2]) + option
stream = socket.socket()
stream.settimeout(20)
stream.sendto(request + b"hello", socket.MSG_FASTOPEN, ("10.0.1.2", 1080))
heard = b""
while len(heard) < (21 if port == 7000 else 16):
    try:
        data = stream.recv(4096)
    except ConnectionResetError:
        break
    if not data:
        break
    heard += data
print(heard[5], heard[16:].decode())
"#;

/// The same by SOCKS5, through the node of this machine.
const FIVE: &str = r#"
import socket
stream = socket.create_connection(("127.0.0.1", 1080), 20)
stream.sendall(bytes([5, 1, 0, 5, 1, 0, 1, 10, 0, 2, 2]) + (7000).to_bytes(2, "big"))
heard = b""
while len(heard) < 12:
    heard += stream.recv(12 - len(heard))
stream.sendall(b"hello")
print(heard[3], stream.recv(5).decode())
"#;

/// Prints how many connections of this network were opened with bytes that arrived, and taken so.
const COUNTERS: &str = r#"
names, values = [line.split() for line in open("/proc/net/netstat") if line.startswith("TcpExt:")]
counters = dict(zip(names, values))
print(counters["TCPFastOpenActive"], counters["TCPFastOpenPassive"])
"#;

/// Runs a script in a network; what it prints, in words.
fn run(topology: &Topology, name: &str, script: &str, arguments: &[&str]) -> Vec<String> {
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let words = [&[&*python, "-c", script], arguments].concat();
    let said = topology.namespace(name).unwrap().run(&words);
    let said = said.unwrap_or_default();
    said.split_whitespace().map(str::to_owned).collect()
}

fn counters(topology: &Topology, name: &str) -> [u32; 2] {
    let said = run(topology, name, COUNTERS, &[]);
    [0, 1].map(|index| said[index].parse().unwrap())
}

/// Lets the kernels open connections with bytes, and starts the server.
fn serve(topology: &Topology) -> Running {
    let allow = "open('/proc/sys/net/ipv4/tcp_fastopen', 'w').write('3')";
    for name in ["alice", "edge", "server"] {
        run(topology, name, allow, &[]);
    }
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let mut server = command(topology, "server", &python);
    let server = server.args(["-c", SERVER]).stdout(Stdio::null()).spawn();
    Running(server.unwrap())
}

#[test]
fn the_first_bytes_open_the_connections_to_the_proxy_and_to_the_target() {
    let topology = networks();
    let _server = serve(&topology);
    let _edge = start(&topology, "edge", EDGE);
    let _alice = start(&topology, "alice", ALICE);

    // The first ones fetch cookies.
    eventually_true("an echo by SOCKS6", || {
        run(&topology, "alice", SIX, &["7000"]) == ["0", "hello"]
    });
    eventually_true("an echo through two nodes", || {
        run(&topology, "alice", FIVE, &[]) == ["0", "hello"]
    });
    let before = ["alice", "edge", "server"].map(|name| counters(&topology, name));
    assert_eq!(run(&topology, "alice", SIX, &["7000"]), ["0", "hello"]);
    let after = ["alice", "edge", "server"].map(|name| counters(&topology, name));
    assert_eq!(after[0][0], before[0][0] + 1, "the client's own");
    assert_eq!(after[1][1], before[1][1] + 1, "the listener has taken it");
    assert_eq!(after[1][0], before[1][0] + 1, "the proxy has opened one");
    assert_eq!(after[2][1], before[2][1] + 1, "the server has taken it");

    // A hop opens so, but its client has not asked for more.
    assert_eq!(run(&topology, "alice", FIVE, &[]), ["0", "hello"]);
    let last = ["alice", "edge", "server"].map(|name| counters(&topology, name));
    assert_eq!(last[0][0], after[0][0] + 1);
    assert_eq!(last[1], [after[1][0], after[1][1] + 1]);
    assert_eq!(last[2], after[2]);

    // The reply is true all the same: no one listens there.
    assert_eq!(run(&topology, "alice", SIX, &["7001"]), ["5"]);
}

#[test]
fn bytes_that_a_function_has_to_see_first_open_no_connection() {
    let topology = networks();
    let _server = serve(&topology);
    let route = "routes: [{ terminate: true, through: [web] }]\n    functions: { web: { sniff: { is: [tls] } } }";
    let edge = EDGE.replace("routes: [{ terminate: true }]", route);
    let _edge = start(&topology, "edge", &edge);

    eventually_true("a connection that the function ends", || {
        run(&topology, "alice", SIX, &["7000"]) == ["0"]
    });
    // By then the kernel of the edge has a cookie of the server, if it ever asked for one.
    assert_eq!(run(&topology, "alice", SIX, &["7000"]), ["0"]);
    assert_eq!(
        counters(&topology, "edge")[0],
        0,
        "the proxy has opened none"
    );
    assert_eq!(counters(&topology, "server")[1], 0);
    assert!(counters(&topology, "alice")[0] > 0, "the client's own");
}
