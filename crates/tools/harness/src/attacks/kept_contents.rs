//! Contents that are kept because they may have to be sent again.

use super::{Attack, Effort, Party, Place, Stage};
use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, frame, request};
use crate::origins;
use crate::raw::Raw;

/// Connections of the attacker.
const CONNECTIONS: usize = 6;

/// Uploads on each.
const UPLOADS: u32 = 1_000;

/// Bytes of each: below the default of `keep_bytes`.
const CONTENT: usize = 60_000;

/// A frame is 16 KiB at most unless the other side allows more (RFC 9113, 4.2).
const PIECE: usize = 16_000;

/// Uploads to an origin that never answers, on a route with `retry`.
pub(super) const RETRY: Attack = Attack {
    name: "kept-contents",
    by: Party::Client,
    place: Place::Loopback,
    summary: "6,000 uploads of 60 kB on a route with `retry`, to an origin that never answers",
    prepare,
    run,
};

fn prepare() -> Stage {
    let silent = origins::tcp_silent();
    let route = format!(
        "{{ terminate: \"{}\", retry: {{ attempts: 3 }} }}",
        silent.address()
    );
    Stage::start("web: { http: 127.0.0.1:0 }", &route, "").keeping(silent)
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort::default();
    for _ in 0..CONNECTIONS {
        let mut raw = Raw::connect(stage.node.address("web"));
        let mut reader = raw.other();
        raw.send_if_open(HELLO);
        // Windows open as the node reads: a thread takes its frames, so that the node never waits for this client.
        std::thread::spawn(move || drop(reader.rest()));
        for number in 0..UPLOADS {
            let bytes = upload(2 * number + 1);
            raw.send_if_open(&bytes);
            effort.bytes += bytes.len() as u64;
            effort.attempts += 1;
        }
        effort.hold(raw);
    }

    effort
}

fn upload(stream: u32) -> Vec<u8> {
    let mut bytes = frame(
        HEADERS,
        END_HEADERS,
        stream,
        &request("PUT", "origin.test", "/"),
    );
    let mut left = CONTENT;
    while left > 0 {
        let piece = left.min(PIECE);
        left -= piece;
        let flags = if left == 0 { END_STREAM } else { 0 };
        bytes.extend(frame(DATA, flags, stream, &vec![b'x'; piece]));
    }
    bytes
}
