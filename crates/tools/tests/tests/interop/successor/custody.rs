//! Custody on a socket that processes share: a neighbour knows one node, of which two processes have the key.

use std::net::SocketAddr;
use std::path::Path;

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{self, Origin};
use hermes_tests::raw::Raw;
use hermes_tests::{KeptSockets, Node, free, program};
use rustix::process::Signal;
use tempfile::TempDir;

use super::links::{ANY, talk, tunnel};

/// Bytes of a download that is under way while the node is succeeded.
const CONTENT: usize = 8 << 20;

/// Makes a node's key in its folder; its public part.
fn key(folder: &Path) -> String {
    let file = folder.join("key");
    let said = program::command()
        .arg("custody-key")
        .arg(file)
        .output()
        .unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// A neighbour with a `db` and a `web` listener, and the configuration of the node that has the targets.
struct Neighbours {
    sockets: KeptSockets,
    near: Node,
    far: String,
    _folder: TempDir,
}

impl Neighbours {
    fn start(target: SocketAddr, sockets: KeptSockets) -> Self {
        let folders: [TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let keys = folders.each_ref().map(|folder| key(folder.path()));
        let [near, far] = folders;
        let far_yaml = format!(
            "drain: 1m\n\
             defaults: {{ custody: {{ key_file: \"{}/key\", neighbours: {{ before: {{ key: \"{}\" }} }} }} }}\n\
             listeners: {{ in: {{ udp: \"{}\", ingress: custody }} }}\n\
             routes: [ {{ terminate: \"{target}\" }} ]\n",
            far.path().display(),
            keys[0],
            sockets.address
        );
        let near_yaml = format!(
            "defaults: {{ custody: {{ key_file: key, neighbours: {{ next: {{ key: \"{}\", address: \"{}\" }} }} }} }}\n\
             listeners: {{ db: {{ tcp: \"{ANY}\", target: \"{target}\" }}, web: {{ http: \"{}\" }} }}\n\
             routes: [ {{ to: next, retry: {{ custody: true }} }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"127.0.0.1:9\"] }} }}\n",
            keys[1],
            sockets.address,
            free::tcp()
        );
        Self {
            sockets,
            near: Node::start_in(near, "near", &near_yaml, &[]),
            far: far_yaml,
            _folder: far,
        }
    }

    fn process(&self, name: &str) -> Node {
        self.sockets.start(name, &self.far)
    }
}

#[test]
fn tunnels_in_custody_stay_where_they_began_and_new_ones_come_to_the_successor() {
    stay_and_come(KeptSockets::datagrams());
}

#[test]
fn tunnels_in_custody_stay_where_they_began_while_a_process_gives_its_port_away() {
    stay_and_come(KeptSockets::handed_over());
}

fn stay_and_come(sockets: KeptSockets) {
    let echo: Origin<Vec<u8>> = origins::tcp_echo();
    let neighbours = Neighbours::start(echo.address(), sockets);
    let mut first = neighbours.process("first");
    let mut early: Vec<Raw> = (0..2).map(|_| tunnel(&neighbours.near)).collect();
    assert_eq!(first.exchanges().len(), 2);

    let second = neighbours.process("second");
    let mut late: Vec<Raw> = (0..2).map(|_| tunnel(&neighbours.near)).collect();
    for round in 0..20 {
        for tunnel in early.iter_mut().chain(&mut late) {
            talk(tunnel, &format!("while there are two, {round}"));
        }
    }
    first.signal(Signal::TERM);
    eventually_true("the first one drains", || {
        first.status()["draining"] == true
    });
    late.push(tunnel(&neighbours.near));
    for round in 0..20 {
        for tunnel in early.iter_mut().chain(&mut late) {
            talk(tunnel, &format!("while the first drains, {round}"));
        }
    }
    assert_eq!(first.exchanges().len(), 2, "those that began there");
    assert!(second.exchanges().len() >= late.len());

    drop(early);
    assert!(first.wait().success(), "it ends with its last tunnel");
    for round in 0..20 {
        for tunnel in &mut late {
            talk(tunnel, &format!("once it is gone, {round}"));
        }
    }
    assert_eq!(echo.connections(), 5, "none was begun twice");
}

#[test]
fn downloads_in_custody_are_whole_while_the_node_is_succeeded() {
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..CONTENT as u32)
        .map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    std::fs::write(folder.path().join("file"), &content).unwrap();
    let origin = hermes_tests::nginx::Nginx::start("location / { limit_rate 2m; }", |root| {
        std::fs::copy(folder.path().join("file"), root.join("file")).unwrap();
    });
    let neighbours = Neighbours::start(origin.address(), KeptSockets::datagrams());
    let first = neighbours.process("first");
    let ask = || {
        let mut raw = Raw::connect(neighbours.near.address("web"));
        raw.send(format!(
            "GET http://{}/file HTTP/1.1\r\nHost: {}\r\n\r\n",
            origin.address(),
            origin.address()
        ));
        raw
    };

    let mut early = ask();
    assert_eq!(early.head().status(), 200);
    let _second = neighbours.process("second");
    let mut late = ask();
    assert_eq!(late.head().status(), 200);
    first.signal(Signal::TERM);
    let last = ask().response();
    assert!(early.exactly(CONTENT) == content, "the first download");
    assert!(late.exactly(CONTENT) == content, "the second download");
    assert!(last.1 == content, "the third download");
}

#[test]
fn a_neighbour_whose_processes_are_killed_one_after_the_other_is_served_by_the_next() {
    let echo: Origin<Vec<u8>> = origins::tcp_echo();
    let neighbours = Neighbours::start(echo.address(), KeptSockets::datagrams());
    let mut first = neighbours.process("first");
    talk(&mut tunnel(&neighbours.near), "at the first");
    let second = neighbours.process("second");
    talk(&mut tunnel(&neighbours.near), "at the second");
    first.kill();
    talk(&mut tunnel(&neighbours.near), "once the first is gone");
    assert!(!second.exchanges().is_empty() || !second.access().is_empty());
}
