//! Handshakes of custody that cost a calculation before anything is proved: with a good cookie, and garbage behind it.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_harness::attacks::custody::stage;
use hermes_harness::attacks::{Attack, Effort, Party, Place, Stage};
use hermes_proto::custody::{COOKIE, CustodyPacket};

/// For how long they are sent.
const TIME: Duration = Duration::from_secs(4);

/// How long a cookie is awaited before it is asked for again.
const ANSWER: Duration = Duration::from_millis(200);

/// Bytes of the first message of a handshake, of which the first 32 are a point of the curve.
const MESSAGE: usize = 104;

/// As fast as one process sends.
pub static GARBLED: Attack = Attack {
    name: "garbled-hellos",
    by: Party::Stranger,
    place: Place::Loopback,
    summary: "HELLOs of custody with a good cookie and garbage, as fast as one process sends, for 4 s",
    prepare: stage,
    run,
};

fn run(stage: &Stage) -> Effort {
    let begin = Instant::now();
    let mut effort = Effort::default();
    let Some((socket, hello)) = greet(stage.node.address("hops")) else {
        return effort;
    };
    while begin.elapsed() < TIME {
        for _ in 0..100 {
            effort.attempts += u64::from(socket.send(&hello).is_ok());
        }
    }

    effort.bytes = effort.attempts * hello.len() as u64;
    effort
}

/// A socket, and a HELLO with a cookie for its address.
fn greet(at: SocketAddr) -> Option<(UdpSocket, Bytes)> {
    let message: Bytes = (0..MESSAGE).map(|at| at as u8 + 1).collect();
    greet_with(at, 7, &message)
}

/// A socket, and a HELLO with this message and a cookie for its address.
pub(super) fn greet_with(
    at: SocketAddr,
    epoch: u32,
    message: &Bytes,
) -> Option<(UdpSocket, Bytes)> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    socket.connect(at).ok()?;
    socket.set_read_timeout(Some(ANSWER)).ok()?;
    let hello = |cookie| {
        let packet = CustodyPacket::Hello {
            epoch,
            cookie,
            message: message.clone(),
        };
        packet.encode()
    };

    for _ in 0..20 {
        socket.send(&hello([0; COOKIE])).ok()?;
        let mut room = [0; 100];
        let Ok(length) = socket.recv(&mut room) else {
            continue;
        };
        let said = Bytes::copy_from_slice(&room[..length]);
        if let Ok(CustodyPacket::Retry { cookie, .. }) = CustodyPacket::decode(&said) {
            return Some((socket, hello(cookie)));
        }
    }
    None
}
