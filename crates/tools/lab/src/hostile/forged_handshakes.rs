//! Handshakes of WireGuard by strangers who have cookies, beside those of a peer.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use hermes_harness::attacks::{Attack, CALM, Effort, Party, Place, Stage};
use hermes_harness::ip_packets::{UDP, datagram, packet_to};
use hermes_harness::{Node, eventually, origins};
use hermes_noise::{PrivateKey, PublicKey};
use hermes_wireguard::{Interface, PeerId, PeerSettings, WallClock};

/// Where the node listens.
const NODE: &str = "127.0.0.1:51820";

/// Addresses of the strangers.
const ADDRESSES: u8 = 60;

/// Their handshakes in ten milliseconds: 3,000 in a second, 4 Mbit/s.
const BURST: usize = 30;

/// Handshakes that the peer begins meanwhile.
const TRIES: u64 = 20;

/// How long an answer is awaited before a handshake is sent again.
const ANSWER: Duration = Duration::from_millis(300);

/// How long a cookie is awaited.
const COOKIE: Duration = Duration::from_millis(20);

/// How often it is sent again, each time with the cookie that came last.
const AGAIN: usize = 5;

/// Longer than the time after which an interface begins a handshake again.
const LATER: Duration = Duration::from_secs(6);

/// 60 addresses, each with a cookie.
pub static STRANGERS: Attack = Attack {
    name: "forged-handshakes",
    by: Party::Stranger,
    place: Place::Devices,
    summary: "3,000 handshakes of WireGuard a second from 60 addresses with cookies; 20 of a known peer meanwhile",
    prepare,
    run,
};

/// The keys of the node and of its peer.
struct Keys {
    node: PrivateKey,
    peer: PrivateKey,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| Keys {
        node: key(),
        peer: key(),
    })
}

fn key() -> PrivateKey {
    PrivateKey::generate().unwrap_or_else(|error| panic!("a key: {error}"))
}

fn prepare() -> Stage {
    let origin = origins::http();
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder: {error}"));
    let file = folder.path().join("wireguard.key");
    let written = fs::write(&file, keys().node.to_text())
        .and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(0o600)));
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));

    let yaml = format!(
        "listeners:\n  \
           {CALM}: {{ http: 127.0.0.1:0 }}\n  \
           peer: {{ user: alice, tun: {{ name: hermes1, addresses: [10.9.0.7/24], \
             wireguard: {{ listen: \"{NODE}\", private_key_file: wireguard.key, peer: {{ public_key: \"{}\" }} }} }} }}\n\
         routes:\n  \
           - {{ match: {{ listener: {CALM} }}, terminate: \"{}\" }}\n  \
           - {{ match: {{ kind: connect-ip }}, terminate: {{ intercept: true, pool: 10.9.0.0/24 }} }}\n",
        keys().peer.public(),
        origin.address()
    );
    Stage::of(Node::start_in(folder, "edge", &yaml, &[])).keeping(origin)
}

fn run(_: &Stage) -> Effort {
    // The node hears its peer, so that it knows where that is.
    eventually("a handshake of the peer", || is_answered().then_some(()));
    let strangers = crowd();
    let is_over = AtomicBool::new(false);
    let mut effort = Effort::default();
    thread::scope(|scope| {
        let flood = scope.spawn(|| flood(&strangers, &is_over));
        thread::sleep(Duration::from_secs(1));
        effort.refused_of_others = (0..TRIES).filter(|_| !is_answered()).count() as u64;
        is_over.store(true, Ordering::Relaxed);
        let (sent, bytes) = flood.join().unwrap_or_default();
        effort.attempts = sent;
        effort.bytes = bytes;
    });
    effort
}

/// Strangers who have cookies: under load the node gives some, with which the next handshake counts.
fn crowd() -> Vec<Stranger> {
    let addresses = (1..=ADDRESSES).map(|number| Ipv4Addr::new(127, 0, 1, number));
    let mut strangers: Vec<Stranger> = addresses
        .filter_map(|address| Stranger::new(key(), address, COOKIE))
        .collect();
    for _ in 0..3 {
        strangers.iter_mut().for_each(Stranger::begin);
        // WireGuard is under load when many handshakes come within a second.
        for stranger in &strangers {
            stranger.repeat();
        }
        strangers.iter_mut().for_each(Stranger::hear);
    }
    strangers
}

/// Sends handshakes of all strangers until it is over; how many, and their bytes.
fn flood(strangers: &[Stranger], is_over: &AtomicBool) -> (u64, u64) {
    let mut sent = 0;
    let mut bytes = 0;
    let mut turns = (0..strangers.len()).cycle();
    while !is_over.load(Ordering::Relaxed) {
        for at in turns.by_ref().take(BURST) {
            sent += u64::from(strangers[at].repeat());
            bytes += strangers[at].last.len() as u64;
        }
        thread::sleep(Duration::from_millis(10));
    }
    (sent, bytes)
}

/// Whether a handshake of the peer is answered, as a program begins it that has just started.
fn is_answered() -> bool {
    let Some(mut peer) = Stranger::new(keys().peer.clone(), Ipv4Addr::new(127, 0, 2, 1), ANSWER)
    else {
        return false;
    };
    (0..AGAIN).any(|_| {
        peer.begin();
        peer.hear();
        peer.has_agreed()
    })
}

/// Someone with a key and an address.
struct Stranger {
    socket: UdpSocket,
    interface: Interface,
    node: PeerId,
    /// Time as the interface is told it: it goes ahead, so that no handshake has to be waited for.
    now: Instant,
    /// The last handshake.
    last: Vec<u8>,
}

impl Stranger {
    fn new(key: PrivateKey, address: Ipv4Addr, patience: Duration) -> Option<Self> {
        let socket = UdpSocket::bind((address, 0)).ok()?;
        socket.connect(NODE).ok()?;
        socket.set_read_timeout(Some(patience)).ok()?;

        let now = Instant::now();
        let clock = WallClock::of_system(now, SystemTime::now());
        let mut interface = Interface::new(key, clock).ok()?;
        let public_key: PublicKey = keys().node.public();
        let settings = PeerSettings {
            public_key,
            preshared_key: None,
            endpoint: NODE.parse::<SocketAddr>().ok(),
            allowed: vec!["0.0.0.0/0".parse().ok()?],
            keepalive: None,
            mtu: 1420,
        };
        let node = interface.add_peer(settings, now).ok()?;
        Some(Self {
            socket,
            interface,
            node,
            now,
            last: Vec::new(),
        })
    }

    /// Begins a handshake, or begins it again.
    fn begin(&mut self) {
        let ends = [Ipv4Addr::new(10, 9, 0, 7), Ipv4Addr::new(10, 9, 0, 1)];
        let packet = packet_to(ends, UDP, 0, &datagram(b"hello"));
        self.interface
            .send(self.node, &packet, &mut Vec::new(), self.now);
        self.now += LATER;
        self.interface.handle_timeout(self.now);
        while let Some(outgoing) = self.interface.poll_outgoing() {
            self.last = outgoing.payload;
        }
        self.repeat();
    }

    fn repeat(&self) -> bool {
        self.socket.send(&self.last).is_ok()
    }

    /// Takes the next message: a cookie, or an answer.
    fn hear(&mut self) {
        let mut room = [0; 2048];
        if let (Ok(length), Ok(from)) = (self.socket.recv(&mut room), NODE.parse()) {
            let datagram = &room[..length];
            self.interface
                .handle_datagram(from, datagram, &mut Vec::new(), self.now);
        }
    }

    fn has_agreed(&self) -> bool {
        let view = self.interface.view(self.node, self.now);
        view.is_some_and(|view| view.last_handshake.is_some())
    }
}
