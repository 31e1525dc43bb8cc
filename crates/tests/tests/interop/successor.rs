//! A process and its successor on the sockets that a service manager passed to both: nothing that goes on is lost while there are two.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::udp::Client;
use hermes_tests::{Echo, Node, Pki, h3c, program};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::Signal;
use serde_json::Value;

/// A request that the node answers itself.
const QUESTION: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "VIDEO"),
    (":path", "/"),
];

/// Sockets as a service manager keeps them, for one process after the other.
struct Sockets {
    address: SocketAddr,
    kept: Vec<OwnedFd>,
}

impl Sockets {
    /// A port of UDP, and of TCP too for HTTP.
    fn open(with_tcp: bool) -> Self {
        if !with_tcp {
            let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = datagrams.local_addr().unwrap();
            return Self {
                address,
                kept: vec![kept(&datagrams)],
            };
        }

        eventually("a free port of both", || {
            let streams = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = streams.local_addr().unwrap();
            let datagrams = UdpSocket::bind(address).ok()?;
            Some(Self {
                address,
                kept: vec![kept(&streams), kept(&datagrams)],
            })
        })
    }

    /// Starts a process that has them (sd_listen_fds(3)).
    fn start(&self, name: &str, yaml: &str) -> Node {
        let passed = (3..).zip(&self.kept);
        let passed: Vec<String> = passed
            .map(|(number, socket)| format!("{number}<&{}", socket.as_raw_fd()))
            .collect();
        let script = format!(
            "exec {}; export LISTEN_PID=$$; exec \"$0\" \"$@\"",
            passed.join(" ")
        );
        let mut command = Command::new("bash");
        command
            .args(["-c", &script])
            .arg(program::path())
            .env("LISTEN_FDS", self.kept.len().to_string());
        Node::start_by(command, name, yaml)
    }
}

/// The same socket, out of the way of the numbers by which it is passed, and for children.
fn kept(socket: &impl AsFd) -> OwnedFd {
    let kept = fcntl_dupfd_cloexec(socket, 100).unwrap();
    fcntl_setfd(&kept, FdFlags::empty()).unwrap();
    kept
}

/// Clients that ask and answer until they are told to stop.
struct Load {
    process: Child,
    stop: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Load {
    fn start(ca: &Path, address: SocketAddr) -> Self {
        let python =
            std::env::var_os("HERMES_PYTHON").expect("HERMES_PYTHON is set: ./test sets it");
        let mut process = Command::new(python)
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../harness/src/h3overlap.py"
            ))
            .arg(ca)
            .arg(address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stop = process.stdin.take().unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        let mut load = Self {
            process,
            stop,
            says,
        };
        assert_eq!(load.line(), "ready\n");
        load
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line
    }

    /// Lets it come to its end: what came of it.
    fn end(mut self) -> Value {
        writeln!(self.stop).unwrap();
        let line = self.line();
        assert!(self.process.wait().unwrap().success(), "{line}");
        serde_json::from_str(&line).unwrap()
    }
}

fn web(pki: &Pki, address: SocketAddr) -> String {
    format!(
        "drain: 1m\nlisteners: {{ web: {{ http: \"{address}\", tls: {{ {} }} }} }}\n\
         routes: [ {{ match: {{ target: VIDEO }}, respond: {{ status: 204 }} }}, {{ terminate: true }} ]\n\
         egress: {{ allow: [127.0.0.0/8] }}\n",
        pki.issue(&["127.0.0.1"]).yaml()
    )
}

/// Requests for `VIDEO` that have ended.
fn short_requests(node: &Node) -> usize {
    let records = fs::read_to_string(node.folder().join("access.json")).unwrap_or_default();
    records.matches("VIDEO").count()
}

#[test]
fn no_request_fails_and_no_tunnel_ends_while_http3_goes_over_to_a_successor() {
    let (pki, sockets) = (Pki::new(), Sockets::open(true));
    let yaml = web(&pki, sockets.address);
    let mut first = sockets.start("first", &yaml);
    let load = Load::start(&pki.ca(), sockets.address);

    let second = sockets.start("second", &yaml);
    eventually_true("new clients come to the successor", || {
        short_requests(&second) > 5
    });
    first.signal(Signal::TERM);
    let before = short_requests(&first);
    let so_far = short_requests(&second);
    eventually_true("they go on", || short_requests(&second) > so_far + 20);

    let came = load.end();
    assert_eq!(came["failed"], serde_json::json!([]), "{came:#}");
    assert_eq!(came["tunnels"], 3, "{came:#}");
    assert!(came["words"].as_u64() > Some(20), "{came:#}");
    assert!(first.wait().success(), "it ends when its last tunnel has");
    assert_eq!(short_requests(&first), before, "of new clients it has none");
    eventually_true("the successor is alone", || {
        second
            .log()
            .contains("a process that shared a socket is gone")
    });
}

#[test]
fn a_predecessor_that_stands_still_or_is_killed_holds_up_no_new_client() {
    let (pki, sockets) = (Pki::new(), Sockets::open(true));
    let yaml = web(&pki, sockets.address);
    let mut first = sockets.start("first", &yaml);
    let asked = || h3c::ask(&pki.ca(), sockets.address, &QUESTION)["status"].clone();
    assert_eq!(asked(), 204);

    first.signal(Signal::STOP);
    let second = sockets.start("second", &yaml);
    for _ in 0..3 {
        assert_eq!(asked(), 204, "while it stands still");
    }
    first.signal(Signal::CONT);
    for _ in 0..3 {
        assert_eq!(asked(), 204, "once it goes on");
    }
    first.kill();
    for _ in 0..3 {
        assert_eq!(asked(), 204, "when it is gone");
    }
    eventually_true("the successor has answered", || {
        short_requests(&second) >= 6
    });
}

#[test]
fn no_datagram_of_a_udp_listener_is_lost_while_a_successor_takes_new_clients() {
    let (echo, sockets) = (Echo::start(), Sockets::open(false));
    let yaml = format!(
        "drain: 1m\nlisteners: {{ voice: {{ udp: \"{}\", target: \"VOICE:1\" }} }}\n\
         routes: [ {{ match: {{ target: VOICE }}, terminate: \"{}\" }} ]\n",
        sockets.address, echo.udp
    );
    let mut first = sockets.start("first", &yaml);
    let clients = || -> Vec<Client> { (0..6).map(|_| Client::connect(sockets.address)).collect() };
    let talk = |clients: &[Client], round: usize| {
        for (number, client) in clients.iter().enumerate() {
            let word = format!("{number} in round {round}");
            client.send(&word);
            assert_eq!(client.receive(), word.as_bytes());
        }
    };

    let early = clients();
    for client in &early {
        assert_eq!(client.ask("hello"), b"hello");
    }
    assert_eq!(first.exchanges().len(), early.len());

    let second = sockets.start("second", &yaml);
    let late = clients();
    for round in 0..20 {
        talk(&early, round);
        talk(&late, round);
    }
    first.signal(Signal::TERM);
    let later = clients();
    for round in 20..40 {
        talk(&early, round);
        talk(&late, round);
        talk(&later, round);
    }

    assert_eq!(second.exchanges().len(), late.len() + later.len());
    assert!(first.wait().success(), "it ends when its clients are quiet");
    talk(&early, 40);
    assert_eq!(second.exchanges().len(), 3 * early.len());
}
