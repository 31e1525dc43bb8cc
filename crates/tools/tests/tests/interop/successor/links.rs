//! Links between nodes whose far or near end is succeeded, with tunnels on them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};

use aws_lc_rs::digest::{Context, SHA256};
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{KeptSockets, Node, Pki, origins};
use rustix::process::Signal;

use super::web;

/// Bytes of a transfer, in each direction.
const BULK: u64 = 100 << 20;

/// Bytes of a transfer before the far end is succeeded.
const BEFORE: u64 = 20 << 20;

/// Bytes that are written at once.
const PIECE: usize = 1 << 16;

/// A node whose `db` listener leads every connection over a link to `far`.
pub(super) fn near(pki: &Pki, listen: SocketAddr, target: SocketAddr, link: Link) -> String {
    let Link {
        far,
        http,
        is_resumable,
    } = link;
    let resume = match is_resumable {
        true => ", tunnel: { resume: true }",
        false => "",
    };
    format!(
        "drain: 1m\nlisteners: {{ db: {{ tcp: \"{listen}\", target: \"{target}\" }} }}\n\
         routes: [ {{ to: far{resume} }} ]\n\
         upstreams: {{ far: {{ endpoints: [\"{far}\"], http: {http}, tls: {{ ca_file: {} }} }} }}\n",
        pki.ca().display()
    )
}

/// How the two nodes are linked.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) far: SocketAddr,
    pub(super) http: u8,
    pub(super) is_resumable: bool,
}

/// Every version, with tunnels that end with their path and with those that need not.
const LINKS: [(u8, bool); 6] = [
    (1, false),
    (1, true),
    (2, false),
    (2, true),
    (3, false),
    (3, true),
];

/// Any free port.
pub(super) const ANY: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// What is said through a tunnel comes back.
pub(super) fn talk(tunnel: &mut Raw, word: &str) {
    tunnel.send(word);
    assert_eq!(tunnel.exactly(word.len()), word.as_bytes());
}

/// A tunnel by way of a node, in which something was said.
pub(super) fn tunnel(node: &Node) -> Raw {
    open(node.address("db"))
}

fn open(address: SocketAddr) -> Raw {
    let mut tunnel = Raw::connect(address);
    talk(&mut tunnel, "hello");
    tunnel
}

#[test]
fn tunnels_on_links_of_every_version_go_on_while_the_far_node_is_succeeded() {
    let (pki, sockets, echo) = (Pki::new(), KeptSockets::both(), origins::tcp_echo());
    let yaml = web(&pki, sockets.address);
    let mut first = sockets.start("first", &yaml);
    let nodes = LINKS.map(|(http, is_resumable)| {
        let link = Link {
            far: sockets.address,
            http,
            is_resumable,
        };
        Node::start("near", &near(&pki, ANY, echo.address(), link))
    });
    let mut early: Vec<Raw> = nodes.iter().map(tunnel).collect();

    let second = sockets.start("second", &yaml);
    for round in 0..5 {
        for tunnel in &mut early {
            talk(tunnel, &format!("while there are two, {round}"));
        }
    }
    first.signal(Signal::TERM);
    eventually_true("the first one drains", || {
        first.status()["draining"] == true
    });
    let mut late: Vec<Raw> = nodes.iter().map(tunnel).collect();
    for round in 0..5 {
        for tunnel in early.iter_mut().chain(&mut late) {
            talk(tunnel, &format!("while the first drains, {round}"));
        }
    }
    assert!(second.exchanges().len() >= late.len());

    drop(early);
    assert!(first.wait().success(), "it ends with its last tunnel");
    for tunnel in &mut late {
        talk(tunnel, "once it is gone");
    }
}

#[test]
fn tunnels_on_links_of_every_version_go_on_while_the_near_node_is_succeeded() {
    let (pki, far, echo) = (Pki::new(), KeptSockets::both(), origins::tcp_echo());
    let _far = far.start("far", &web(&pki, far.address));

    for (http, is_resumable) in LINKS {
        let sockets = KeptSockets::streams();
        let link = Link {
            far: far.address,
            http,
            is_resumable,
        };
        let yaml = near(&pki, sockets.address, echo.address(), link);
        let mut first = sockets.start("first", &yaml);
        let mut early = open(sockets.address);

        let second = sockets.start("second", &yaml);
        talk(&mut early, "while there are two");
        first.signal(Signal::TERM);
        eventually_true("new clients come to the successor", || {
            let _one = open(sockets.address);
            !second.exchanges().is_empty()
        });
        talk(&mut early, "while the first drains");
        drop(early);
        assert!(first.wait().success(), "http {http}");
    }
}

/// A stream of bytes that differ from place to place, and what was seen of it.
struct Pattern {
    piece: Vec<u8>,
    at: u64,
}

impl Pattern {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let piece = std::iter::repeat_with(|| random.u8(..))
            .take(PIECE)
            .collect();
        Self { piece, at: 0 }
    }

    /// The next bytes.
    fn next(&mut self) -> &[u8] {
        self.piece[..8].copy_from_slice(&self.at.to_be_bytes());
        self.at += PIECE as u64;
        &self.piece
    }

    fn digest(mut self) -> Vec<u8> {
        let mut context = Context::new(&SHA256);
        while self.at < BULK {
            context.update(self.next());
        }
        context.finish().as_ref().to_vec()
    }
}

/// Writes a whole stream; from `BEFORE` on once it may.
fn write(stream: &TcpStream, seed: u64, held: &Held) {
    let mut pattern = Pattern::new(seed);
    while pattern.at < BULK {
        if pattern.at >= BEFORE {
            held.wait();
        }
        let piece = pattern.next();
        (&*stream).write_all(piece).unwrap();
        held.written.fetch_add(PIECE as u64, Ordering::SeqCst);
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// The digest of what comes.
fn read(stream: &TcpStream) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    let mut room = vec![0; PIECE];
    loop {
        match (&*stream).read(&mut room).unwrap() {
            0 => return context.finish().as_ref().to_vec(),
            length => context.update(&room[..length]),
        }
    }
}

/// What holds the writers of transfers until the far end was succeeded.
#[derive(Default)]
struct Held {
    written: AtomicU64,
    is_over: parking_lot::Mutex<bool>,
    changed: parking_lot::Condvar,
}

impl Held {
    fn wait(&self) {
        let mut is_over = self.is_over.lock();
        while !*is_over {
            self.changed.wait(&mut is_over);
        }
    }

    fn end(&self) {
        *self.is_over.lock() = true;
        self.changed.notify_all();
    }
}

/// A server that writes one stream to each client and reads another, of which it tells the digests.
fn server(held: &Arc<Held>) -> (SocketAddr, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let held = held.clone();
    let served = spawn(move || {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let (stream, _) = listener.accept().unwrap();
                let held = held.clone();
                spawn(move || transfer(&stream, 2, &held))
            })
            .collect();
        clients.into_iter().map(|one| one.join().unwrap()).collect()
    });
    (address, served)
}

/// Writes and reads at once: the digest of what came.
fn transfer(stream: &TcpStream, seed: u64, held: &Arc<Held>) -> Vec<u8> {
    std::thread::scope(|threads| {
        threads.spawn(|| write(stream, seed, held));
        read(stream)
    })
}

#[test]
fn an_upload_and_a_download_of_100_mib_go_on_over_tcp_and_http3_while_the_far_node_is_succeeded() {
    let (pki, sockets, held) = (Pki::new(), KeptSockets::both(), Arc::new(Held::default()));
    let (target, served) = server(&held);
    // A busy machine takes its time for 400 MiB.
    let yaml = web(&pki, sockets.address).replace("drain: 1m", "drain: 10m");
    let mut first = sockets.start("first", &yaml);
    let nodes = [2, 3].map(|http| {
        let link = Link {
            far: sockets.address,
            http,
            is_resumable: false,
        };
        Node::start("near", &near(&pki, ANY, target, link))
    });
    let clients: Vec<_> = nodes
        .iter()
        .map(|node| {
            let stream = TcpStream::connect(node.address("db")).unwrap();
            let held = held.clone();
            spawn(move || transfer(&stream, 1, &held))
        })
        .collect();

    // Two writers on each side.
    eventually_true("the transfers are under way", || {
        held.written.load(Ordering::SeqCst) >= 4 * BEFORE
    });
    let second = sockets.start("second", &yaml);
    first.signal(Signal::TERM);
    eventually_true("the first one drains", || {
        first.status()["draining"] == true
    });
    held.end();

    let (up, down) = (Pattern::new(1).digest(), Pattern::new(2).digest());
    for client in clients {
        assert!(client.join().unwrap() == down, "what was downloaded");
    }
    for came in served.join().unwrap() {
        assert!(came == up, "what was uploaded");
    }
    assert!(first.wait().success());
    assert!(
        second.exchanges().is_empty(),
        "they stayed where they began"
    );
}
