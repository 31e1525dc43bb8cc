//! Contents of one user that are costly to translate: trees of small values that never end, text that is nested, and names that stand twice.

use super::{Attack, BYSTANDER, CALM, Effort, Party, Place, Stage};
use crate::Node;
use crate::origins;
use crate::raw::Raw;

/// Contents of each kind.
const CONTENTS: usize = 200;

/// Values of a tree: fewer than one content may have.
const VALUES: usize = 49_000;

/// Contents that are costly, beside a bystander whose requests pass the same function.
pub(super) const COSTLY: Attack = Attack {
    name: "translated-contents",
    by: Party::User,
    place: Place::Loopback,
    summary: "200 JSON texts of 49,000 empty arrays that never end, 200 that are nested, 200 with one name 1,000 times",
    prepare,
    run,
};

fn prepare() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let mapping = "version: 1\notherwise: pass\noperations:\n  a: { from: POST /v1/a, to: POST /post, content: { move: { a: b } } }\n";
    let file = folder.path().join("v1.yaml");
    std::fs::write(&file, mapping).unwrap();
    let origin = origins::http();
    let yaml = format!(
        "listeners:\n  {CALM}: {{ http: 127.0.0.1:0 }}\n  web: {{ http: 127.0.0.1:0, user: alice }}\n\
         functions: {{ v1: {{ translate: {{ file: v1.yaml }} }} }}\n\
         routes:\n  - {{ match: {{ target: {BYSTANDER} }}, terminate: \"{0}\", through: [v1] }}\n  \
         - {{ match: {{ listener: web }}, terminate: \"{0}\", through: [v1] }}\n",
        origin.address()
    );
    let node = Node::start_in(folder, "edge", &yaml, &[]);
    Stage::of(node).keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    let web = stage.node.address("web");
    let tree = format!("{{\"a\":[{}", "[],".repeat(VALUES));
    let nested = "[".repeat(100_000);
    let names = format!("{{{}", "\"a\":0,".repeat(1_000));
    let mut effort = Effort::default();
    for content in [&tree, &nested, &names] {
        // More is announced than comes: the bytes read so far are held for it.
        let length = content.len() + 1;
        let head = format!(
            "POST http://a.test/v1/a HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n"
        );
        for _ in 0..CONTENTS {
            let mut raw = Raw::connect(web);
            raw.send_if_open(&head);
            raw.send_if_open(content);
            effort.attempts += 1;
            effort.bytes += (head.len() + content.len()) as u64;
            effort.hold(raw);
        }
    }
    effort
}
