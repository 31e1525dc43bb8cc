//! A port of WireGuard on a socket that processes share: one process has it, and the next takes it over when that ends.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use hermes_tests::eventually::eventually_true;
use hermes_tests::ip_packets::{icmp, packet_to};
use hermes_tests::{KeptSockets, Node, program};
use hermes_wireguard::{Interface, PeerId, PeerSettings, WallClock};
use rustix::process::Signal;
use tempfile::TempDir;

/// The address behind WireGuard.
const ALICE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 7);

/// An address that the last node answers echoes for.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 1);

/// How long the answer of an echo is awaited.
const ANSWER: Duration = Duration::from_secs(5);

/// The same while the answers of some are expected to be missing.
const SOON: Duration = Duration::from_millis(100);

/// A handshake that the peer begins by itself, as nothing is answered, comes after this time (keepalive and rekey timeouts, section 6).
const BY_ITSELF: Duration = Duration::from_secs(15);

/// A new pair of keys: the file of the private one, and the public one.
fn key(folder: &Path, name: &str) -> (PathBuf, String) {
    let file = folder.join(name);
    let said = Command::new(program::path())
        .arg("wireguard-key")
        .arg(&file)
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    let public = String::from_utf8(said.stdout).unwrap().trim().to_owned();
    (file, public)
}

/// A machine that has WireGuard and not Hermes.
struct Machine {
    socket: UdpSocket,
    node: SocketAddr,
    interface: Interface,
    peer: PeerId,
    echoes: u32,
}

impl Machine {
    fn new(node: SocketAddr, key: &Path, public: &str) -> Self {
        let now = Instant::now();
        let clock = WallClock::of_system(now, SystemTime::now());
        let key = std::fs::read_to_string(key).unwrap().parse().unwrap();
        let mut interface = Interface::new(key, clock).unwrap();
        let settings = PeerSettings {
            public_key: public.parse().unwrap(),
            preshared_key: None,
            endpoint: Some(node),
            allowed: vec!["0.0.0.0/0".parse().unwrap()],
            keepalive: None,
            mtu: 1420,
        };
        let peer = interface.add_peer(settings, now).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self {
            socket,
            node,
            interface,
            peer,
            echoes: 0,
        }
    }

    /// Whether an echo is answered. What is lost is not said again.
    fn echo(&mut self, within: Duration) -> bool {
        self.socket.set_read_timeout(Some(within)).unwrap();
        self.echoes += 1;
        let message = icmp([8, 0], self.echoes, b"an echo");
        let packet = packet_to([ALICE, SERVER], 1, 0, &message);
        let mut sealed = Vec::new();
        let to = self
            .interface
            .send(self.peer, &packet, &mut sealed, Instant::now());
        if to.is_some() {
            self.socket.send_to(&sealed, self.node).unwrap();
        }
        self.send_outgoing();
        self.is_answered()
    }

    fn is_answered(&mut self) -> bool {
        let (mut room, mut packet) = ([0; 2048], Vec::new());
        while let Ok(length) = self.socket.recv(&mut room) {
            let datagram = &room[..length];
            let from =
                self.interface
                    .handle_datagram(self.node, datagram, &mut packet, Instant::now());
            self.send_outgoing();
            let is_answer = from.is_some()
                && packet[12..16] == SERVER.octets()
                && packet[20] == 0
                && packet[24..28] == self.echoes.to_be_bytes();
            if is_answer {
                return true;
            }
        }
        false
    }

    fn send_outgoing(&mut self) {
        while let Some(outgoing) = self.interface.poll_outgoing() {
            self.socket.send_to(&outgoing.payload, self.node).unwrap();
        }
    }

    /// How long no echo was answered.
    fn silence(&mut self) -> Duration {
        let began = Instant::now();
        eventually_true("an echo is answered", || self.echo(SOON));
        began.elapsed()
    }

    fn is_heard(&mut self) {
        for _ in 0..10 {
            assert!(self.echo(ANSWER), "echo {}", self.echoes);
        }
    }
}

/// The nodes, the machine, and the files of their keys.
struct Site {
    sockets: KeptSockets,
    yaml: String,
    machine: Machine,
    _edge: Node,
    _folder: TempDir,
}

impl Site {
    fn start(sockets: KeptSockets) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (own, own_public) = key(folder.path(), "own");
        let (alice, alice_public) = key(folder.path(), "alice");
        let edge = Node::start(
            "edge",
            "listeners: { overlay: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] } }\n\
             routes: [ { match: { kind: connect-ip }, terminate: \
             { intercept: true, pool: [10.9.0.0/24], routes: [10.9.8.0/24] } }, { terminate: true } ]\n",
        );
        // Where the machine is, only its own words tell.
        let yaml = format!(
            "drain: 1m\nlisteners: {{ alice: {{ user: alice, tun: {{ name: alice, addresses: [10.9.0.7/24], wireguard: \
             {{ listen: \"{}\", private_key_file: {}, peer: {{ public_key: \"{alice_public}\" }} }} }} }} }}\n\
             routes: [ {{ match: {{ kind: connect-ip }}, to: edge }} ]\n\
             upstreams: {{ edge: {{ endpoints: [\"{}\"], http: 2 }} }}\n",
            sockets.address,
            own.display(),
            edge.address("overlay")
        );
        Self {
            machine: Machine::new(sockets.address, &alice, &own_public),
            sockets,
            yaml,
            _edge: edge,
            _folder: folder,
        }
    }

    fn process(&self, name: &str) -> Node {
        self.sockets.start(name, &self.yaml)
    }
}

/// Waits until a process knows whose the port is meanwhile.
fn await_turn(process: &Node) {
    eventually_true("it waits for the port", || {
        process.status()["missing_devices"]
            .to_string()
            .contains("until that ends")
    });
}

#[test]
fn a_successor_takes_a_port_of_wireguard_over_before_its_peer_has_noticed() {
    takes_over(KeptSockets::datagrams());
}

#[test]
fn a_process_gives_a_port_of_wireguard_to_its_successor_before_its_peer_has_noticed() {
    takes_over(KeptSockets::handed_over());
}

fn takes_over(sockets: KeptSockets) {
    let mut site = Site::start(sockets);
    let mut first = site.process("first");
    site.machine.silence();
    let second = site.process("second");
    await_turn(&second);
    site.machine.is_heard();

    first.signal(Signal::TERM);
    let mut silence = site.machine.silence();
    assert!(first.wait().success());
    // The first one may have answered to its end.
    silence += site.machine.silence();
    eprintln!("no echo was answered for {silence:?}");
    assert!(silence < BY_ITSELF, "{silence:?}");
    site.machine.is_heard();
    assert!(second.status()["missing_devices"].is_null());
}

#[test]
fn the_next_of_three_processes_has_a_port_of_wireguard_when_one_is_killed() {
    let mut site = Site::start(KeptSockets::datagrams());
    let mut first = site.process("first");
    site.machine.silence();
    let mut second = site.process("second");
    let third = site.process("third");
    await_turn(&second);
    await_turn(&third);
    site.machine.is_heard();

    for process in [&mut first, &mut second] {
        process.kill();
        let silence = site.machine.silence();
        eprintln!("no echo was answered for {silence:?}");
        assert!(silence < BY_ITSELF, "{silence:?}");
        site.machine.is_heard();
    }
    assert!(third.status()["missing_devices"].is_null());
}
