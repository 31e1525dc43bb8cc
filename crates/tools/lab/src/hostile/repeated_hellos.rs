//! A HELLO of custody that someone heard, sent again and again from another address after its neighbour was started again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_harness::attacks::custody::{Hop, HopEnd};
use hermes_harness::attacks::{Attack, Effort, Party, Place, Stage};
use hermes_harness::origins;
use hermes_proto::custody::{COOKIE, CustodyPacket};
use parking_lot::Mutex;

use super::garbled_hellos::greet_with;

/// Between two repetitions.
const PAUSE: Duration = Duration::from_millis(10);

/// The delay from one node to the other: longer than the pause, as on most paths.
const ON_THE_WAY: Duration = Duration::from_millis(20);

/// Exchanges that clients of the neighbour ask for meanwhile.
const EXCHANGES: u64 = 10;

/// How long each of them may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How long the first exchange may take, with the agreement of keys.
const START: Duration = Duration::from_secs(20);

/// One old HELLO, 100 times a second.
pub static REPEATED: Attack = Attack {
    name: "repeated-hellos",
    by: Party::Stranger,
    place: Place::Loopback,
    summary: "a genuine HELLO of custody, 100 times a second from another address after a restart; 10 exchanges of its neighbour meanwhile",
    prepare,
    run,
};

/// A datagram that someone heard, and where.
struct Heard {
    epoch: u32,
    message: Bytes,
    /// The custody port of the node.
    port: SocketAddr,
    /// The listener of its neighbour for clients.
    neighbour: SocketAddr,
    origin: SocketAddr,
}

fn prepare() -> Stage {
    let path = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let origin = origins::http();
    let end = HopEnd {
        asked_at: path.local_addr().ok(),
        ..HopEnd::default()
    };
    let mut hop = Hop::beside(&origin, end);
    let heard = Arc::new(Mutex::new(None));
    listen_in(path, hop.at, heard.clone());

    let neighbour = hop.near.address("web");
    let begin = Instant::now();
    while !is_answered(neighbour, origin.address()) {
        assert!(begin.elapsed() < START, "the nodes do not agree on keys");
    }
    let (epoch, message) = heard.lock().take().expect("a HELLO has passed");
    hop.far.kill();
    hop.far.restart();

    let heard = Heard {
        epoch,
        message,
        port: hop.at,
        neighbour,
        origin: origin.address(),
    };
    Stage::of(hop.far)
        .keeping(hop.near)
        .keeping(origin)
        .keeping(heard)
}

/// Passes datagrams on in both directions, and keeps the last HELLO that had a cookie; for as long as the process lives.
fn listen_in(path: UdpSocket, node: SocketAddr, heard: Arc<Mutex<Option<(u32, Bytes)>>>) {
    let behind = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let near = Arc::new(Mutex::new(None));
    let way_back = (
        behind.try_clone().expect("a socket"),
        path.try_clone().expect("a socket"),
        near.clone(),
    );

    thread::spawn(move || {
        let mut room = [0; 2048];
        while let Ok((length, from)) = path.recv_from(&mut room) {
            *near.lock() = Some(from);
            let datagram = Bytes::copy_from_slice(&room[..length]);
            if let Ok(CustodyPacket::Hello {
                epoch,
                cookie,
                message,
            }) = CustodyPacket::decode(&datagram)
                && cookie != [0; COOKIE]
            {
                *heard.lock() = Some((epoch, message));
            }
            thread::sleep(ON_THE_WAY);
            drop(behind.send_to(&datagram, node));
        }
    });
    thread::spawn(move || {
        let (behind, path, near) = way_back;
        let mut room = [0; 2048];
        while let Ok((length, _)) = behind.recv_from(&mut room) {
            thread::sleep(ON_THE_WAY);
            let to = *near.lock();
            if let Some(to) = to {
                drop(path.send_to(&room[..length], to));
            }
        }
    });
}

fn run(stage: &Stage) -> Effort {
    let heard: &Heard = stage.kept().expect("prepared");
    let mut effort = Effort::default();
    let Some((socket, hello)) = greet_with(heard.port, heard.epoch, &heard.message) else {
        return effort;
    };

    let is_over = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                sent.fetch_add(u64::from(socket.send(&hello).is_ok()), Ordering::Relaxed);
                thread::sleep(PAUSE);
            }
        });
        for _ in 0..EXCHANGES {
            let is_answered = is_answered(heard.neighbour, heard.origin);
            effort.refused_of_others += u64::from(!is_answered);
            thread::sleep(PAUSE * 30);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    effort.attempts = sent.into_inner();
    effort.bytes = effort.attempts * hello.len() as u64;
    effort
}

/// Whether an exchange by way of the neighbour comes to its end in time.
fn is_answered(neighbour: SocketAddr, origin: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(neighbour)?;
        stream.set_read_timeout(Some(ANSWER))?;
        write!(
            stream,
            "GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n"
        )?;
        let mut begin = [0; 12];
        stream.read_exact(&mut begin)?;
        Ok::<_, std::io::Error>(begin.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
