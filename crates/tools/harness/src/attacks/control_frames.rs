//! Frames of HTTP/2 that cost nothing to send and ask for nothing.

use super::{Attack, Effort, Party, Place, Stage};
use crate::frames::{
    END_HEADERS, END_STREAM, GOAWAY, HEADERS, HELLO, PING, SETTINGS, frame, request,
};
use crate::raw::Raw;

/// Frames of each kind.
const FRAMES: usize = 100_000;

/// Acknowledgements of nothing, and streams behind the end.
pub(super) const NEEDLESS: Attack = Attack {
    name: "control-frames",
    by: Party::Stranger,
    place: Place::Loopback,
    summary: "100,000 each of acknowledgements of SETTINGS and PING that no one asked for, GOAWAY, and HEADERS behind it",
    prepare,
    run,
};

fn prepare() -> Stage {
    Stage::start(
        "web: { http: 127.0.0.1:0 }",
        "{ respond: { status: 200 } }",
        "",
    )
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort::default();
    let goaway = frame(GOAWAY, 0, 0, &[0; 8]);
    let ask = request("GET", "site.test", "/");
    let flag_of_acknowledgements = 1;
    let floods: [Box<dyn Fn(u32) -> Vec<u8>>; 4] = [
        Box::new(move |_| frame(SETTINGS, flag_of_acknowledgements, 0, &[])),
        Box::new(move |_| frame(PING, flag_of_acknowledgements, 0, &[0; 8])),
        Box::new(|_| goaway.clone()),
        Box::new(|number| {
            let ending = END_HEADERS | END_STREAM;
            let before = if number == 0 {
                goaway.clone()
            } else {
                Vec::new()
            };
            [before, frame(HEADERS, ending, 2 * number + 1, &ask)].concat()
        }),
    ];

    for flood in floods {
        let mut raw = Raw::connect(stage.node.address("web"));
        raw.send(HELLO);
        for chunk in (0..FRAMES as u32).collect::<Vec<_>>().chunks(1000) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|number| flood(*number)).collect();
            effort.bytes += bytes.len() as u64;
            effort.attempts += chunk.len() as u64;
            raw.send_if_open(&bytes);
        }
        effort.hold(raw);
    }
    effort
}
