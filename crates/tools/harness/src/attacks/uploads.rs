//! Uploads in custody that no one takes.

use std::net::{Shutdown, SocketAddr, TcpStream};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use super::custody::{Hop, HopEnd};
use super::heads::silent;
use super::{Attack, Effort, Party, Place, Stage};
use crate::{origins, runtime};

/// Uploads that no one takes.
pub const UPLOADS: usize = 200;

/// The target of them.
pub const UNREAD: &str = "unread.test";

/// The way to it.
const TO_SILENT: &str = "{ match: { target: unread.test }, to: silent },";

/// Bytes of each.
const UPLOAD: usize = 2 * 1024 * 1024;

/// Their contents, in pieces: no memory of its own for each, so that the machine is busy with the node's work.
static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// Bytes that the kernel buffers for a [`mute`] server.
const RECEIVED: u32 = 4 * 1024;

/// Objects that stand still in custody.
pub(super) const STUCK: Attack = Attack {
    name: "stuck-uploads",
    by: Party::User,
    place: Place::Loopback,
    summary: "200 uploads of 2 MiB in custody to an origin that reads nothing",
    prepare,
    run,
};

fn prepare() -> Stage {
    let origin = origins::http();
    let end = HopEnd {
        routes: TO_SILENT,
        upstreams: &silent_upstream(),
        ..HopEnd::default()
    };
    let hop = Hop::beside(&origin, end);
    Stage::of(hop.near).keeping(hop.far).keeping(origin)
}

/// Two nodes: the second sends contents for [`UNREAD`] to a server that reads next to nothing.
///
/// # Panics
/// When they do not start.
pub fn stuck() -> Hop {
    let end = HopEnd {
        routes: TO_SILENT,
        upstreams: &silent_upstream(),
        ..HopEnd::default()
    };
    Hop::start("", "", end)
}

fn silent_upstream() -> String {
    format!("silent: {{ endpoints: [\"{}\"], http: 2 }}", silent())
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort {
        bytes: (UPLOADS * UPLOAD) as u64,
        attempts: UPLOADS as u64,
        ..Effort::default()
    };
    effort.hold(Uploads(uploads(stage.node.address("web"), UNREAD, UPLOADS)));
    effort
}

/// Uploads. Dropping them ends their connections, although a task writes on each.
struct Uploads(Vec<TcpStream>);

impl Drop for Uploads {
    fn drop(&mut self) {
        for stream in &self.0 {
            // It may have ended already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

/// Begins uploads to this origin, each as far as it is taken; they end when their connection is shut down.
///
/// # Panics
/// When the proxy takes no connection.
pub fn uploads(proxy: SocketAddr, origin: &str, count: usize) -> Vec<TcpStream> {
    let head = format!(
        "POST http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nContent-Length: {UPLOAD}\r\n\r\n"
    );
    let begin = |_| {
        let stream = TcpStream::connect(proxy).unwrap();
        stream.set_nonblocking(true).unwrap();
        let writer = stream.try_clone().unwrap();
        let head = head.clone();
        runtime::attackers().spawn(async move {
            let mut writer = tokio::net::TcpStream::from_std(writer).unwrap();
            drop(writer.write_all(head.as_bytes()).await);
            for _ in 0..UPLOAD / PIECE.len() {
                if writer.write_all(&PIECE).await.is_err() {
                    // The connection was shut down.
                    return;
                }
            }
        });
        stream
    };
    (0..count).map(begin).collect()
}

/// A server that accepts and reads nothing, of which the kernel takes little.
///
/// # Panics
/// When it has no port.
pub fn mute() -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(RECEIVED).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = runtime::attackers()
        .block_on(async { socket.listen(1024) })
        .unwrap();
    let address = listener.local_addr().unwrap();
    runtime::attackers().spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
        }
    });
    address.to_string()
}
