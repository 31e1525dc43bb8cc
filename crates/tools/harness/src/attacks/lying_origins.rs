//! Origins of one object that lie about it, break off and stand still, and a user who asks for many of their objects at once.

use super::{Attack, BYSTANDER, CALM, Effort, Party, Place, Stage};
use crate::Node;
use crate::origins;
use crate::raw::Raw;

/// Requests for each object.
const REQUESTS: usize = 60;

/// Lies, beside a bystander who is served by the same origins, through the same function.
pub(super) const LYING: Attack = Attack {
    name: "lying-origins",
    by: Party::Origin,
    place: Place::Loopback,
    summary: "540 transfers of objects in pieces: other validators, lengths, places and codings, redirects, single bytes, endless ones, silence, a byte each 100 ms",
    prepare,
    run,
};

fn prepare() -> Stage {
    let own = origins::lying();
    let cdn = origins::lying();
    let yaml = format!(
        "listeners:\n  {CALM}: {{ http: 127.0.0.1:0 }}\n  web: {{ http: 127.0.0.1:0, user: alice }}\n\
         functions: {{ any: {{ origins: {{ others: [cdn.test], piece: 64KiB }} }} }}\n\
         routes:\n  - {{ match: {{ target: cdn.test }}, terminate: \"{cdn}\" }}\n  \
         - {{ match: {{ target: {BYSTANDER} }}, terminate: \"{own}\", through: [any] }}\n  \
         - {{ match: {{ listener: web }}, terminate: \"{own}\", through: [any] }}\n",
        cdn = cdn.address(),
        own = own.address(),
    );
    Stage::of(Node::start("edge", &yaml))
        .keeping(own)
        .keeping(cdn)
}

fn run(stage: &Stage) -> Effort {
    let web = stage.node.address("web");
    let mut effort = Effort::default();
    let mut ask = |lie: &str| {
        let request = format!(
            "GET http://a.test/{lie} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
        );
        let mut raw = Raw::connect(web);
        raw.send_if_open(&request);
        effort.attempts += 1;
        effort.bytes += request.len() as u64;
        raw
    };
    let mut held = Vec::new();
    let mut read = Vec::new();
    for lie in origins::lies() {
        held.extend((1..REQUESTS).map(|_| ask(lie)));
        let last = ask(lie);
        match origins::is_quick(lie) {
            true => read.push(last),
            false => held.push(last),
        }
    }
    for mut raw in read {
        raw.head();
        let (content, _) = raw.rest();
        effort.passed += u64::from(!origins::is_right(&content));
    }
    held.into_iter().for_each(|raw| effort.hold(raw));
    effort
}
