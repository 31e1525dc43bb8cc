//! What exchanges, datagrams and bytes cost a node in system calls: counts, never times.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins, program, udp};
use tempfile::TempDir;

/// Exchanges before counting begins, and those that are counted.
const WARM: usize = 20;
const COUNTED: usize = 200;

/// System calls of one node for an exchange on connections that are kept. Counted were 6 or 7 over HTTP/1.1, 7 or 8
/// over HTTP/2: waiting, reading and writing on either side, and a timer or an acknowledgement now and then.
const EXCHANGE_MOST: usize = 8;

/// The same for an exchange on a connection of its client that is new, beside the client. Counted were 15 over either version: the
/// connection is accepted, registered and closed.
const CONNECTION_MOST: usize = 17;

/// System calls of a node for a CONNECT tunnel over HTTP/2 that opens, carries one exchange and closes. Counted were 24 or 25 beside the
/// client, 29 or 30 beside the target, whose connection is one more to make.
const TUNNEL_MOST: [usize; 2] = [28, 33];

/// System calls of one node for a datagram and its answer, alone. Counted were 8 at the entry and 7 at the end.
const DATAGRAM_MOST: usize = 10;

/// What a tunnel or the content of a message without TLS moves, in bytes, and the system calls of the node for it. Counted were 905 and
/// 1070; copying 16 KiB at a time takes 12,000.
const BULK: usize = 100_000_000;
const BULK_MOST: usize = 5_000;

/// A node that `strace` watches. It is started by it: attaching to a running process may be forbidden.
struct Traced {
    node: Node,
    calls: PathBuf,
    _folder: TempDir,
}

impl Traced {
    fn start(name: &str, yaml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let calls = folder.path().join("calls");
        let strace = std::env::var_os("HERMES_STRACE").unwrap_or_else(|| "strace".into());
        let mut command = Command::new(strace);
        command
            .args(["-f", "-qq", "-o"])
            .arg(&calls)
            .arg(program::path());
        let node = Node::start_by(
            command,
            name,
            &format!("workers: 1\nlog: {{ access: off }}\n{yaml}"),
        );
        Self {
            node,
            calls,
            _folder: folder,
        }
    }

    /// System calls so far that have ended or that something waits in.
    fn calls(&self) -> usize {
        let text = fs::read_to_string(&self.calls).unwrap();
        text.lines()
            .filter(|line| !line.contains(" resumed>"))
            .count()
    }
}

fn end() -> Traced {
    Traced::start(
        "end",
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: true } ]\negress: { allow: [127.0.0.0/8] }\n",
    )
}

fn entry(listener: &str, next: SocketAddr, version: u8) -> Traced {
    let yaml = format!(
        "listeners: {{ in: {listener} }}\nroutes: [ {{ to: next }} ]\n\
         upstreams: {{ next: {{ endpoints: [\"{next}\"], http: {version} }} }}\n"
    );
    Traced::start("entry", &yaml)
}

/// Calls of each node for one `exchange`, rounded up.
fn each(nodes: [&Traced; 2], mut exchange: impl FnMut()) -> [usize; 2] {
    (0..WARM).for_each(|_| exchange());
    let before = nodes.map(Traced::calls);
    (0..COUNTED).for_each(|_| exchange());
    let after = nodes.map(Traced::calls);
    [0, 1].map(|node| (after[node] - before[node]).div_ceil(COUNTED))
}

#[test]
fn a_kept_exchange_takes_a_bounded_number_of_system_calls() {
    let (origin, end) = (origins::http(), end());
    let authority = origin.address();
    for version in [1, 2] {
        let entry = entry("{ http: 127.0.0.1:0 }", end.node.address("web"), version);
        let mut raw = Raw::connect(entry.node.address("in"));
        let calls = each([&entry, &end], || {
            raw.send(format!(
                "GET http://{authority}/bytes/256 HTTP/1.1\r\nHost: {authority}\r\n\r\n"
            ));
            let (head, content) = raw.response();
            assert_eq!((head.status(), content.len()), (200, 256));
        });
        assert!(
            calls.iter().all(|&calls| calls <= EXCHANGE_MOST),
            "HTTP/{version}: {calls:?} of entry and end"
        );
    }
}

#[test]
fn a_new_connection_takes_a_bounded_number_of_system_calls() {
    let (origin, end) = (origins::http(), end());
    let authority = origin.address();
    for version in [1, 2] {
        let entry = entry("{ http: 127.0.0.1:0 }", end.node.address("web"), version);
        // Asking a node for its address is a call of its administration.
        let address = entry.node.address("in");
        let [calls, _] = each([&entry, &end], || {
            let mut raw = Raw::connect(address);
            raw.send(format!(
                "GET http://{authority}/bytes/256 HTTP/1.1\r\nHost: {authority}\r\n\r\n"
            ));
            assert_eq!(raw.response().0.status(), 200);
        });
        assert!(calls <= CONNECTION_MOST, "HTTP/{version}: {calls}");
    }
}

#[test]
fn a_new_tunnel_takes_a_bounded_number_of_system_calls() {
    let (origin, end) = (origins::http(), end());
    let authority = origin.address().to_string();
    let entry = entry("{ http: 127.0.0.1:0 }", end.node.address("web"), 2);
    let address = entry.node.address("in");
    let calls = each([&entry, &end], || {
        let mut raw = Raw::tunnel(address, &authority, "").unwrap();
        raw.send(format!(
            "GET /bytes/256 HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        ));
        assert_eq!(raw.response().0.status(), 200);
    });
    assert!(
        calls[0] <= TUNNEL_MOST[0] && calls[1] <= TUNNEL_MOST[1],
        "{calls:?} of entry and end"
    );
}

#[test]
fn a_datagram_and_its_answer_take_a_bounded_number_of_system_calls() {
    let (echo, end) = (origins::udp_echo(origins::V4), end());
    for version in [1, 2] {
        let listener = format!("{{ udp: 127.0.0.1:0, target: \"{}\" }}", echo.address());
        let entry = entry(&listener, end.node.address("web"), version);
        let client = udp::Client::connect(entry.node.address("in"));
        let calls = each([&entry, &end], || {
            client.send("hello");
            assert_eq!(client.receive(), b"hello");
        });
        assert!(
            calls.iter().all(|&calls| calls <= DATAGRAM_MOST),
            "HTTP/{version}: {calls:?} of entry and end"
        );
    }
}

/// Reads [`BULK`] bytes of one connection, and says so.
fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let (mut buffer, mut length) = (vec![0; 1 << 20], 0);
        while length < BULK {
            length += connection.read(&mut buffer).unwrap();
        }
        connection.write_all(b"all").unwrap();
        // Until the other end closes, so that the tunnel's end is not counted.
        drop(connection.read(&mut buffer));
    });
    address
}

#[test]
fn a_tunnel_without_tls_moves_bytes_in_few_system_calls() {
    let end = end();
    let mut raw = Raw::tunnel(end.node.address("web"), &sink().to_string(), "").unwrap();
    let before = end.calls();
    let block = vec![7; 1_000_000];
    (0..BULK / block.len()).for_each(|_| raw.send(&block));
    assert_eq!(raw.exactly(3), b"all");
    let calls = end.calls() - before;
    assert!(calls <= BULK_MOST, "{calls} for {BULK} bytes");
}

/// Answers one request with [`BULK`] bytes.
fn source() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut raw = Raw::from(listener.accept().unwrap().0);
        raw.head();
        raw.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BULK}\r\n\r\n"));
        let block = vec![7; 1_000_000];
        (0..BULK / block.len()).for_each(|_| raw.send(&block));
        // Until the other end closes.
        drop(raw.rest());
    });
    address
}

#[test]
fn content_of_known_length_without_tls_moves_in_few_system_calls() {
    let (end, authority) = (end(), source());
    let mut raw = Raw::connect(end.node.address("web"));
    let before = end.calls();
    raw.send(format!(
        "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    let (head, content) = raw.response();
    assert_eq!((head.status(), content.len()), (200, BULK));
    let calls = end.calls() - before;
    assert!(calls <= BULK_MOST, "{calls} for {BULK} bytes");
}
