//! What waits costs memory: bytes that the nodes hold, counted as they allocate them.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[allow(dead_code, reason = "the other test counts calls")]
#[path = "../allocations/counting.rs"]
mod counting;
#[path = "../allocations/nodes.rs"]
mod nodes;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use counting::{held, not_counted};
use nodes::Node;
use parking_lot::Mutex;

/// Sends back what comes on any connection.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        not_counted();
        let mut open = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut message = [0; 64];
            connection.read_exact(&mut message).unwrap();
            connection.write_all(&message).unwrap();
            open.push(connection);
        }
    });
    address
}

/// Opens so many tunnels, each with one exchange, and lets them wait.
fn idle_tunnels(entry: SocketAddr, count: usize) -> Vec<TcpStream> {
    let tunnel = |_| {
        let mut tunnel = TcpStream::connect(entry).unwrap();
        tunnel.write_all(&[7; 64]).unwrap();
        tunnel.read_exact(&mut [0; 64]).unwrap();
        tunnel
    };
    (0..count).map(tunnel).collect()
}

#[test]
fn a_tunnel_that_waits_holds_few_bytes() {
    let _turn = TURN.lock();
    not_counted();
    let end = Node::start(
        "end",
        &format!(
            "listeners: {{ in: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}\n\
             routes: [{{ terminate: chat }}]\nupstreams: {{ chat: {{ endpoints: [\"{}\"] }} }}\n",
            echo()
        ),
    );
    let entry = Node::start(
        "entry",
        &format!(
            "listeners: {{ in: {{ tcp: 127.0.0.1:0, target: \"CHAT:7\" }} }}\nroutes: [{{ to: next }}]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"], http: 2 }} }}\n",
            end.address()
        ),
    );
    let _before = idle_tunnels(entry.address(), TUNNELS);
    let before = held();
    let _tunnels = idle_tunnels(entry.address(), TUNNELS);
    let each = (held() - before) / TUNNELS.cast_signed();
    assert!(each < TUNNEL_MOST, "{each} bytes");
}

/// Opens so many sessions of UDP, each with one datagram and its answer, and lets them wait.
fn idle_sessions(entry: SocketAddr, count: usize) -> Vec<UdpSocket> {
    let session = |_| {
        let session = UdpSocket::bind("127.0.0.1:0").unwrap();
        session.set_read_timeout(Some(PATIENCE)).unwrap();
        session.send_to(&[7; 64], entry).unwrap();
        session.recv(&mut [0; 64]).unwrap();
        session
    };
    (0..count).map(session).collect()
}

#[test]
fn a_session_of_datagrams_that_waits_holds_few_bytes() {
    let _turn = TURN.lock();
    not_counted();
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = target.local_addr().unwrap();
    thread::spawn(move || {
        not_counted();
        let mut datagram = [0; 64];
        while let Ok((length, from)) = target.recv_from(&mut datagram) {
            target.send_to(&datagram[..length], from).unwrap();
        }
    });
    let end = Node::start(
        "end",
        &format!(
            "listeners: {{ in: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}\n\
             routes: [{{ terminate: voice }}]\nupstreams: {{ voice: {{ endpoints: [\"{address}\"] }} }}\n",
        ),
    );
    let entry = Node::start(
        "entry",
        &format!(
            "listeners: {{ in: {{ udp: 127.0.0.1:0, target: \"VOICE:5004\" }} }}\nroutes: [{{ to: next }}]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"], http: 2 }} }}\n",
            end.address()
        ),
    );
    let _before = idle_sessions(entry.address(), TUNNELS);
    let before = held();
    let _sessions = idle_sessions(entry.address(), TUNNELS);
    let each = (held() - before) / TUNNELS.cast_signed();
    assert!(each < SESSION_MOST, "{each} bytes");
}

/// Bytes that both nodes together may hold for an idle session of UDP over HTTP/2. Counted were 37,808, and 65,536 more while each had
/// room of its own for capsules.
const SESSION_MOST: isize = 41_000;

/// After this a datagram is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// The count is one of the process, so that one test at a time may run.
static TURN: Mutex<()> = Mutex::new(());

/// Tunnels in [`idle_tunnels`]: as many as make tables grow alike.
const TUNNELS: usize = 256;

/// Bytes that both nodes together may hold for an idle tunnel over HTTP/2. Counted were 14,119: futures, a third of them.
const TUNNEL_MOST: isize = 15_000;
