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
use std::time::{Duration, Instant};

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

/// Opens this many tunnels, each with one exchange, and lets them wait.
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
    let before = settled();
    let _tunnels = idle_tunnels(entry.address(), TUNNELS);
    let each = (held() - before) / TUNNELS.cast_signed();
    assert!(each < TUNNEL_MOST, "{each} bytes");
}

/// Bytes that are held once the nodes of the test before have given back what they held, which they do after it has ended.
fn settled() -> isize {
    loop {
        let before = held();
        thread::sleep(Duration::from_millis(300));
        if held() == before {
            return before;
        }
    }
}

/// A node that answers by itself, on connections that it keeps.
fn answering() -> Node {
    Node::start(
        "web",
        "listeners: { in: { http: 127.0.0.1:0, gateway: true } }\nroutes: [{ respond: { status: 200, body: hi } }]\n",
    )
}

/// Opens this many connections, each after `requests` exchanges.
fn idle_connections(to: SocketAddr, count: usize, requests: usize) -> Vec<TcpStream> {
    let connection = |_| {
        let mut connection = TcpStream::connect(to).unwrap();
        for _ in 0..requests {
            connection
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap();
            assert!(connection.read(&mut [0; 1024]).unwrap() > 0);
        }
        connection
    };
    (0..count).map(connection).collect()
}

/// Bytes that a node holds for each of many connections that wait, once it has let go of what it can.
fn bytes_of_a_connection(requests: usize) -> isize {
    let node = answering();
    let _before = idle_connections(node.address(), TUNNELS, 0);
    let before = settled();
    let _connections = idle_connections(node.address(), TUNNELS, requests);
    let (began, mut each) = (Instant::now(), isize::MAX);
    while each >= CONNECTION_MOST && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(100));
        each = (held() - before) / TUNNELS.cast_signed();
    }
    each
}

#[test]
fn a_connection_that_said_nothing_holds_few_bytes() {
    let _turn = TURN.lock();
    not_counted();
    let each = bytes_of_a_connection(0);
    assert!(each < CONNECTION_MOST, "{each} bytes");
}

#[test]
fn a_connection_between_two_requests_holds_few_bytes() {
    let _turn = TURN.lock();
    not_counted();
    let each = bytes_of_a_connection(3);
    assert!(each < CONNECTION_MOST, "{each} bytes");
}

/// Opens a session of UDP and asks this often, each time for one answer.
fn session(entry: SocketAddr, questions: usize) -> UdpSocket {
    let session = UdpSocket::bind("127.0.0.1:0").unwrap();
    session.set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..questions {
        session.send_to(&[7; 64], entry).unwrap();
        session.recv(&mut [0; 64]).unwrap();
    }
    session
}

/// Opens this many sessions of UDP, each a conversation, and lets them wait.
fn idle_sessions(entry: SocketAddr, count: usize) -> Vec<UdpSocket> {
    (0..count).map(|_| session(entry, 2)).collect()
}

/// Two nodes, of which the first has a `udp` listener, and an echo behind them.
fn voice() -> (Node, Node) {
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
    (entry, end)
}

#[test]
fn a_session_of_datagrams_that_waits_holds_few_bytes() {
    let _turn = TURN.lock();
    not_counted();
    let (entry, _end) = voice();
    let _before = idle_sessions(entry.address(), TUNNELS);
    let before = settled();
    let _sessions = idle_sessions(entry.address(), TUNNELS);
    let each = (held() - before) / TUNNELS.cast_signed();
    assert!(each < SESSION_MOST, "{each} bytes");
}

#[test]
fn a_question_that_was_answered_soon_holds_next_to_nothing() {
    let _turn = TURN.lock();
    not_counted();
    let (entry, _end) = voice();
    let _before = idle_sessions(entry.address(), TUNNELS);
    let before = held();
    // Each from a port of its own, which is closed when it has its answer.
    for _ in 0..QUESTIONS {
        drop(session(entry.address(), 1));
    }
    let (began, mut each) = (Instant::now(), isize::MAX);
    while each >= QUESTION_MOST {
        assert!(began.elapsed() < PATIENCE, "{each} bytes");
        thread::sleep(Duration::from_millis(100));
        each = (held() - before) / QUESTIONS.cast_signed();
    }
}

/// Questions: more than are asked within the time that one is kept, so that most are over when the last is asked.
const QUESTIONS: usize = 2_048;

/// Bytes that both nodes together may hold of a question some seconds after its answer: 2 KiB each. Counted were 2,257.
const QUESTION_MOST: isize = 4_096;

/// Bytes that both nodes together may hold for an idle session of UDP over HTTP/2. Counted were 23,476, the futures that carry it 9,900 of
/// them; 65,536 more while each had room of its own for capsules.
const SESSION_MOST: isize = 24_000;

/// Bytes that a node may hold for a connection of HTTP/1.1 that waits. Counted were 1,096 before its first request and 1,163 between two: its
/// socket 256, its task 552, its client 288; and room for a read, which the worker's connections share.
const CONNECTION_MOST: isize = 1_300;

/// After this a datagram is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// The count is one of the process, so that one test at a time may run.
static TURN: Mutex<()> = Mutex::new(());

/// Tunnels in [`idle_tunnels`]: as many as make tables grow alike.
const TUNNELS: usize = 256;

/// Bytes that both nodes together may hold for an idle tunnel over HTTP/2. Counted were some 12,580: the futures that carry it 2,000, its four
/// ends 1,500, the request and the exchange, which are kept to decide again, some 2,900.
const TUNNEL_MOST: isize = 13_200;
