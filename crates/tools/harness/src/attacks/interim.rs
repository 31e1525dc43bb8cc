//! Interim answers that are large where they are decoded (RFC 9113, 8.1).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::heads::entry;
use super::{Attack, Effort, Party, Place, Stage};
use crate::frames::{
    END_HEADERS, END_STREAM, HEADERS, HELLO, SETTINGS, field, frame, parse, request,
};
use crate::raw::Raw;

/// Exchanges that the origin answers.
const EXCHANGES: u32 = 300;

/// Interim answers to each, of 60 kB decoded.
const INTERIM: usize = 64;

/// An origin that answers with 103 from its table.
pub(super) const INDEXED: Attack = Attack {
    name: "interim-heads",
    by: Party::Origin,
    place: Place::Loopback,
    summary: "300 exchanges answered with 64 interim heads of 60 kB, each 30 bytes on the wire",
    prepare,
    run,
};

fn prepare() -> Stage {
    let origin = swelling(interim);
    Stage::start(
        "web: { http: 127.0.0.1:0 }",
        "{ terminate: origin }",
        &format!("upstreams: {{ origin: {{ endpoints: [\"{origin}\"], http: 2 }} }}"),
    )
}

fn run(stage: &Stage) -> Effort {
    let mut raw = Raw::connect(stage.node.address("web"));
    let mut bytes = HELLO.to_vec();
    for number in 0..EXCHANGES {
        let block = request("GET", "origin.test", "/");
        bytes.extend(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            2 * number + 1,
            &block,
        ));
    }
    raw.send_if_open(&bytes);

    let mut effort = Effort {
        bytes: u64::from(EXCHANGES) * INTERIM as u64 * 30,
        attempts: u64::from(EXCHANGES) * INTERIM as u64,
        ..Effort::default()
    };
    effort.hold(raw);
    effort
}

/// A server of HTTP/2 that answers each request with few bytes that become much: an entry, and then `each` for every stream.
///
/// # Panics
/// When it has no port.
pub fn swelling(each: fn(u32, bool) -> Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || swell(stream, each));
        }
    });
    address
}

/// Waits until no more is asked for, and answers all at once.
fn swell(mut stream: TcpStream, each: fn(u32, bool) -> Vec<u8>) {
    drop(stream.write_all(&frame(SETTINGS, 0, 0, b"")));
    stream
        .set_read_timeout(Some(std::time::Duration::from_millis(300)))
        .unwrap();
    let mut heard = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    let mut answered = 0;
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return,
            Ok(length) => {
                heard.extend_from_slice(&piece[..length]);
                continue;
            }
            Err(_) => {}
        }

        let frames = parse(heard.get(24..).unwrap_or_default());
        let asked: Vec<u32> = frames
            .iter()
            .filter(|frame| frame.0 == HEADERS)
            .map(|frame| frame.2)
            .collect();
        let mut bytes = Vec::new();
        for stream in &asked[answered..] {
            bytes.extend(each(*stream, answered == 0));
            answered += 1;
        }
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// A head with this status, and 15 times the entry, which the first one brings.
fn swollen(stream: u32, status: &[u8], is_first: bool, flags: u8) -> Vec<u8> {
    let entry = if is_first { entry() } else { Vec::new() };
    let head = [field(b":status", status), entry, vec![0xbe; 14]].concat();
    frame(HEADERS, END_HEADERS | flags, stream, &head)
}

/// 64 interim heads of 60 KiB.
pub fn interim(stream: u32, is_first: bool) -> Vec<u8> {
    let mut bytes = swollen(stream, b"103", is_first, 0);
    bytes.extend(swollen(stream, b"103", false, 0).repeat(63));
    bytes
}

/// A final head of 60 KiB, without its content.
pub fn last(stream: u32, is_first: bool) -> Vec<u8> {
    swollen(stream, b"200", is_first, 0)
}
