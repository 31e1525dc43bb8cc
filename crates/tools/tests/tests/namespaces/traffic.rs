//! Traffic of users, while something happens to what carries it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hermes_lab::topology::Topology;
use hermes_proto::ip::checksum::checksum;
use hermes_tests::eventually::eventually;
use socket2::{Domain, Protocol, Socket, Type};

use super::slices::{hears, speak};
use super::within;

/// Time between two echoes.
const PING_PACE: Duration = Duration::from_millis(10);

/// How long an echo that is still on its way is awaited.
const LATE: Duration = Duration::from_secs(2);

/// Types of messages (RFC 792).
const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// The port of servers.
pub(super) const PORT: u16 = 5000;

/// The longest that a flow may stand still.
const STANDSTILL: Duration = Duration::from_secs(30);

/// The pause between two numbers of a flow.
const PAUSE: Duration = Duration::from_millis(2);

/// A connection over which numbers go to a server and come back, one after the other.
pub(super) struct Flow {
    stop: Sender<()>,
    counted: JoinHandle<u32>,
}

impl Flow {
    /// Begins it, where `server` says its name first.
    pub(super) fn begin(topology: &Topology, from: &str, to: Ipv4Addr, server: &str) -> Self {
        let mut stream = eventually("a connection", || {
            let to = (to, PORT).into();
            let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(1)).ok();
            within(topology, from, connect)
        });
        stream.set_read_timeout(Some(STANDSTILL)).unwrap();
        stream.set_nodelay(true).unwrap();
        hears(&mut stream, server);

        let (stop, stopped) = channel();
        let counted = thread::spawn(move || {
            let mut number = 0;
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                number += 1;
                assert_eq!(returned(&mut stream, number), number);
            }
            number
        });
        Self { stop, counted }
    }

    /// Ends it; how many numbers came back, all in their order.
    pub(super) fn end(self) -> u32 {
        drop(self.stop);
        self.counted.join().unwrap()
    }
}

/// What comes back for a number.
fn returned(stream: &mut TcpStream, number: u32) -> u32 {
    let mut back = [0; 4];
    stream.write_all(&number.to_be_bytes()).unwrap();
    stream.read_exact(&mut back).unwrap();
    u32::from_be_bytes(back)
}

/// Echoes that a user asks for, one every 10 ms, and of which none is forgotten that is on its way.
pub(super) struct Pings {
    stop: Sender<()>,
    asked: JoinHandle<Echoes>,
}

/// What came of them.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    pub(super) asked: usize,
    pub(super) lost: usize,
    /// The middle one of the times.
    pub(super) median: Duration,
}

/// A socket for messages of ICMP, and what was asked there.
struct Asking {
    socket: Socket,
    identifier: u16,
    asked: Vec<Instant>,
    open: BTreeSet<u16>,
    times: Vec<Duration>,
}

impl Pings {
    pub(super) fn begin(topology: &Topology, from: &str, to: Ipv4Addr) -> Self {
        let mut asking = Asking::new(topology, from, to);
        let (stop, stopped) = channel();
        let asked = thread::spawn(move || {
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                asking.ask();
                asking.hear(PING_PACE);
            }
            asking.end()
        });
        Self { stop, asked }
    }

    /// Ends asking, and waits for what is on its way.
    pub(super) fn end(self) -> Echoes {
        drop(self.stop);
        self.asked.join().unwrap()
    }

    /// What a way takes, by a hundred of them.
    pub(super) fn hundred(topology: &Topology, from: &str, to: Ipv4Addr) -> Echoes {
        let mut asking = Asking::new(topology, from, to);
        for _ in 0..100 {
            asking.ask();
            asking.hear(PING_PACE);
        }
        asking.end()
    }
}

impl Asking {
    fn new(topology: &Topology, from: &str, to: Ipv4Addr) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let socket = within(topology, from, || {
            Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap()
        });
        socket.connect(&SocketAddr::from((to, 0)).into()).unwrap();
        Self {
            socket,
            identifier: NEXT.fetch_add(1, Ordering::Relaxed),
            asked: Vec::new(),
            open: BTreeSet::new(),
            times: Vec::new(),
        }
    }

    fn ask(&mut self) {
        let number = self.asked.len() as u16;
        let mut message = [0; 64];
        message[0] = ECHO;
        message[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        message[6..8].copy_from_slice(&number.to_be_bytes());
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());

        self.asked.push(Instant::now());
        self.open.insert(number);
        // One that does not leave is lost, too.
        drop(self.socket.send(&message));
    }

    /// Takes what comes within this time.
    fn hear(&mut self, time: Duration) {
        let until = Instant::now() + time;
        let mut room = [0; 128];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Less than a microsecond would be none at all, and the socket would be waited for without end.
            let left = left.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left)).unwrap();
            // Errors are about echoes that are lost.
            if let Ok(length) = self.socket.read(&mut room) {
                self.take(&room[..length]);
            }
        }
    }

    fn take(&mut self, packet: &[u8]) {
        let Some(message) = packet.get(20..28) else {
            return;
        };
        let number = u16::from_be_bytes([message[6], message[7]]);
        let is_ours = message[0] == ECHO_REPLY && message[4..6] == self.identifier.to_be_bytes();
        if is_ours && self.open.remove(&number) {
            self.times.push(self.asked[usize::from(number)].elapsed());
        }
    }

    fn end(mut self) -> Echoes {
        let until = Instant::now() + LATE;
        while !self.open.is_empty() && Instant::now() < until {
            self.hear(PING_PACE);
        }
        self.times.sort_unstable();
        let median = self.times.get(self.times.len() / 2);
        Echoes {
            asked: self.asked.len(),
            lost: self.open.len(),
            median: median.copied().unwrap_or_default(),
        }
    }
}

/// A server on all addresses of a namespace, which says its name to anyone who connects, and then what it hears.
pub(super) fn serve(topology: &Topology, name: &'static str) {
    let listening = within(topology, name, || TcpListener::bind(("0.0.0.0", PORT)));
    let listening = listening.unwrap();
    thread::spawn(move || {
        for stream in listening.incoming() {
            // A client may leave first.
            thread::spawn(move || stream.and_then(|stream| speak(stream, name)));
        }
    });
}
