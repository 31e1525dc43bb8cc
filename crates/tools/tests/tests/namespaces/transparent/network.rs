//! A client, a router with a node, and a server: IPv4 and IPv6 lead from one end to the other without any proxy.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_net::os::captures;
use hermes_tests::{Node, program};

use super::super::{command, within};

pub(in super::super) const SERVERS: [&str; 2] = ["10.0.2.2", "fd02::2"];

pub(in super::super) fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["client", "router", "server"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology
        .cable(plug("client", "10.0.1.2/24"), plug("router", "10.0.1.1/24"))
        .unwrap();
    topology
        .cable(plug("router", "10.0.2.1/24"), plug("server", "10.0.2.2/24"))
        .unwrap();
    for (namespace, address, device) in [
        ("client", "fd01::2/64", "router"),
        ("router", "fd01::1/64", "client"),
        ("router", "fd02::1/64", "server"),
        ("server", "fd02::2/64", "router"),
    ] {
        let add = format!("ip address add {address} dev {device} nodad");
        run(&topology, namespace, &add);
    }
    for (namespace, v4, v6) in [
        ("client", "10.0.1.1", "fd01::1"),
        ("server", "10.0.2.1", "fd02::1"),
    ] {
        run(
            &topology,
            namespace,
            &format!("ip route add default via {v4}"),
        );
        run(
            &topology,
            namespace,
            &format!("ip -6 route add default via {v6}"),
        );
    }
    run(&topology, "router", "sysctl -qw net.ipv4.ip_forward=1");
    run(
        &topology,
        "router",
        "sysctl -qw net.ipv6.conf.all.forwarding=1",
    );
    topology
}

pub(super) fn run(topology: &Topology, namespace: &str, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    topology.namespace(namespace).unwrap().run(&words).unwrap()
}

/// A node on the router. `capture` is the traffic that it captures.
pub(in super::super) fn node(topology: &Topology, capture: &str) -> Node {
    let hermes = program::path();
    let yaml = configuration(capture);
    Node::start_by(
        command(topology, "router", hermes.to_str().unwrap()),
        "router",
        &yaml,
    )
}

pub(super) fn configuration(capture: &str) -> String {
    format!(
        "
        listeners: {{ lan: {{ capture: {{ host: {{ {capture} }} }} }} }}
        policy: {{ default: allow, rules: [ {{ match: {{ target: \"*:9\" }}, deny: true }} ] }}
        routes: [ {{ match: {{ kind: [connect, connect-udp] }}, terminate: true }} ]
        egress: {{ allow: [10.0.2.0/24, \"fd02::/64\"] }}
        "
    )
}

pub(super) fn again(topology: &Topology, node: &mut Node) {
    let hermes = program::path();
    node.restart_by(command(topology, "router", hermes.to_str().unwrap()));
}

/// Tables of capture on the router, of any process.
pub(super) fn tables(topology: &Topology) -> Vec<String> {
    within(topology, "router", || captures().unwrap())
}

/// A server on all addresses that says to each client what it sees as the client's address; over UDP before the datagram.
pub(super) fn serve(topology: &Topology, port: u16) {
    let listening = within(topology, "server", move || {
        TcpListener::bind(("::", port)).unwrap()
    });
    thread::spawn(move || {
        while let Ok((mut stream, from)) = listening.accept() {
            use std::io::Write;
            let _ = stream.write_all(seen(from).as_bytes());
        }
    });
    for address in SERVERS {
        let socket = within(topology, "server", move || {
            UdpSocket::bind((address, port)).unwrap()
        });
        thread::spawn(move || {
            let mut room = [0; 2048];
            while let Ok((length, from)) = socket.recv_from(&mut room) {
                let answer = [seen(from).as_bytes(), b" ", &room[..length]].concat();
                let _ = socket.send_to(&answer, from);
            }
        });
    }
}

fn seen(from: SocketAddr) -> String {
    from.ip().to_canonical().to_string()
}

/// The words of the server over TCP, or the error of the connection.
pub(super) fn hear(
    topology: &Topology,
    namespace: &str,
    address: &str,
    port: u16,
) -> std::io::Result<String> {
    use std::io::Read;
    let target = SocketAddr::new(address.parse().unwrap(), port);
    within(topology, namespace, move || {
        let mut stream = TcpStream::connect_timeout(&target, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut words = String::new();
        stream.read_to_string(&mut words)?;
        Ok(words)
    })
}

/// The answer to a datagram, or the error about it. A connected socket takes it from the address alone that it asked.
pub(super) fn ask(
    topology: &Topology,
    namespace: &str,
    address: &str,
    port: u16,
) -> std::io::Result<String> {
    let target = SocketAddr::new(address.parse().unwrap(), port);
    let any = if target.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    within(topology, namespace, move || {
        let socket = UdpSocket::bind(any)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.connect(target)?;
        socket.send(b"hello")?;
        let mut room = [0; 2048];
        let length = socket.recv(&mut room)?;
        Ok(String::from_utf8_lossy(&room[..length]).into_owned())
    })
}

/// A program of a user of the router.
pub(super) fn as_user(topology: &Topology, user: u32, program: &str) -> Command {
    let mut command = command(topology, "router", "setpriv");
    let user = user.to_string();
    command.args(["--reuid", &user, "--clear-groups", program]);
    command
}
