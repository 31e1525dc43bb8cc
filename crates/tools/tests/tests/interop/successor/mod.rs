//! A process and its successor on the same sockets, which a service manager passed to both, or the first gave to the second: nothing that goes on
//! is lost while there are two.

mod custody;
mod generations;
mod links;
mod wireguard;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::udp::Client;
use hermes_tests::{Echo, KeptSockets, Node, Pki, h3c};
use rustix::process::Signal;
use serde_json::Value;

/// A request that the node answers itself.
const QUESTION: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "VIDEO"),
    (":path", "/"),
];

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
        pki.issue(&[&address.ip().to_string()]).yaml()
    )
}

/// Datagrams that a process has forwarded, by its metrics, which its `status` tells as well.
fn forwarded(node: &Node) -> u64 {
    let name = "hermes_shared_socket_datagrams_total{outcome=\"forwarded\"} ";
    let metrics = node.metrics();
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let told: u64 = lines.next().expect("the metric").parse().unwrap();
    let shown = node.status()["shared_sockets"]["forwarded"].as_u64();
    assert!(shown >= Some(told), "{shown:?} in status, {told} before");
    told
}

/// Requests for `VIDEO` that have ended.
fn short_requests(node: &Node) -> usize {
    let records = fs::read_to_string(node.folder().join("access.json")).unwrap_or_default();
    records.matches("VIDEO").count()
}

#[test]
fn no_request_fails_and_no_tunnel_ends_while_http3_goes_over_to_a_successor() {
    goes_over(&KeptSockets::both());
}

#[test]
fn no_request_fails_and_no_tunnel_ends_while_a_process_gives_http3_to_its_successor() {
    goes_over(&KeptSockets::handed_over());
}

fn goes_over(sockets: &KeptSockets) {
    let pki = Pki::new();
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
    let (pki, sockets) = (Pki::new(), KeptSockets::both());
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
    loses_no_datagram(&KeptSockets::datagrams());
}

#[test]
fn no_datagram_of_a_udp_listener_is_lost_while_a_process_gives_its_port_away() {
    loses_no_datagram(&KeptSockets::handed_over());
}

fn loses_no_datagram(sockets: &KeptSockets) {
    let echo = Echo::start();
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
    assert!(forwarded(&first) + forwarded(&second) > 0);
    assert!(first.wait().success(), "it ends when its clients are quiet");
    talk(&early, 40);
    assert_eq!(second.exchanges().len(), 3 * early.len());
}
