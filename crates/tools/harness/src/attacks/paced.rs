//! Requests of one user that wait for origins which never have room, with contents that are kept, and for ever new origins.

use super::{Attack, BYSTANDER, CALM, Effort, Party, Place, Stage};
use crate::Node;
use crate::origins::{self, Act};
use crate::raw::Raw;

/// Requests for one origin, each with a content that is kept.
const WAITING: usize = 700;

/// Bytes of that content.
const CONTENT: usize = 60_000;

/// Origins that no one has asked before.
const ORIGINS: usize = 700;

/// Requests that wait, beside a bystander whose requests pass the same function.
pub(super) const WAITERS: Attack = Attack {
    name: "paced-requests",
    by: Party::User,
    place: Place::Loopback,
    summary: "700 requests of 60 kB for an origin that says `Retry-After: 300`, and 700 for 700 others",
    prepare,
    run,
};

fn prepare() -> Stage {
    let origin = origins::http();
    let full = origins::acting(&[Act::status(429, "Retry-After: 300\r\n")]);
    let yaml = format!(
        "listeners:\n  {CALM}: {{ http: 127.0.0.1:0 }}\n  web: {{ http: 127.0.0.1:0, user: alice }}\n\
         functions: {{ paced: {{ pace: {{}} }} }}\n\
         routes:\n  - {{ match: {{ target: {BYSTANDER} }}, terminate: \"{}\", through: [paced] }}\n  \
         - {{ match: {{ listener: web }}, terminate: \"{}\", through: [paced] }}\n",
        origin.address(),
        full.address()
    );
    let node = Node::start("edge", &yaml);
    Stage::of(node).keeping(origin).keeping(full)
}

fn run(stage: &Stage) -> Effort {
    let web = stage.node.address("web");
    let content = "x".repeat(CONTENT);
    let post = format!(
        "POST http://full.test/ HTTP/1.1\r\nHost: full.test\r\nContent-Length: {CONTENT}\r\n\r\n{content}"
    );
    let posts = (0..WAITING).map(|_| post.clone());
    let gets = (0..ORIGINS).map(|number| {
        format!("GET http://o{number}.test/ HTTP/1.1\r\nHost: o{number}.test\r\n\r\n")
    });
    let mut effort = Effort::default();
    for request in posts.chain(gets) {
        let mut raw = Raw::connect(web);
        raw.send_if_open(&request);
        effort.attempts += 1;
        effort.bytes += request.len() as u64;
        effort.hold(raw);
    }
    effort
}
