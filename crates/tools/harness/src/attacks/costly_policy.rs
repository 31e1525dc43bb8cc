//! Requests that a policy evaluates for long, within its steps.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Attack, Effort, Party, Place, Stage};
use crate::h2c::Client;

/// Pairs of segments: quadratic in the length of the path.
pub const POLICY: &str = r#"package overlay

import rego.v1

default allow := false

allow if {
  parts := split(input.path, "/")
  count([1 | some a in parts; some b in parts; a == b]) > 0
}
"#;

/// Requests at once.
const REQUESTS: usize = 600;

/// For how long the lab asks.
const TIME: Duration = Duration::from_secs(4);

/// Paths that take long.
pub(super) const QUADRATIC: Attack = Attack {
    name: "costly-policy",
    by: Party::User,
    place: Place::Loopback,
    summary: "600 requests at once, for 4 s, each with 10,000 pairs of segments before a policy that looks at all",
    prepare,
    run,
};

fn prepare() -> Stage {
    let further = "authorize: [ { name: check, timeout: 10s, \
        rego: { files: policy.rego, query: data.overlay.allow, steps: 1000000 } } ]";
    Stage::start_with(
        "web: { http: 127.0.0.1:0, user: alice }",
        "{ respond: { status: 200 } }",
        further,
        &[("policy.rego", POLICY)],
    )
}

fn run(stage: &Stage) -> Effort {
    let begin = Instant::now();
    let web = stage.node.address("web");
    let answers = ask_until(web, &costly_uri(), || begin.elapsed() >= TIME);
    Effort {
        attempts: answers,
        bytes: answers * costly_uri().len() as u64,
        ..Effort::default()
    }
}

/// A URI with a long evaluation.
pub fn costly_uri() -> String {
    format!("http://site{}", "/x".repeat(100))
}

/// Asks for much at once, again and again; how many answers came.
///
/// # Panics
/// When a connection cannot be made.
pub fn ask_until(proxy: SocketAddr, uri: &str, is_over: impl Fn() -> bool) -> u64 {
    let mut answers = 0;
    while !is_over() {
        answers += Client::connect(proxy).statuses(uri, REQUESTS).len() as u64;
    }
    answers
}
