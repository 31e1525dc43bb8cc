//! Requests with large heads that are refused, and remembered.

use std::net::SocketAddr;

use super::{Attack, Effort, Party, Place, Stage};
use crate::raw::Raw;

/// Requests of the lab.
const REFUSALS: usize = 700;

/// Bytes of fields of each: as many as a head may have.
const FIELDS: usize = 60_000;

/// Refusals that would keep their heads.
pub(super) const LARGE: Attack = Attack {
    name: "large-refusals",
    by: Party::Client,
    place: Place::Loopback,
    summary: "700 requests with 60 kB of fields each that are refused",
    prepare,
    run,
};

fn prepare() -> Stage {
    Stage::start(
        "web: { http: 127.0.0.1:0 }",
        "{ match: { target: ELSEWHERE }, respond: { status: 204 } }",
        "",
    )
}

fn run(stage: &Stage) -> Effort {
    refuse(stage.node.address("web"), "", REFUSALS);
    Effort {
        attempts: REFUSALS as u64,
        bytes: (REFUSALS * FIELDS) as u64,
        ..Effort::default()
    }
}

/// Has so many requests refused, for paths that begin so.
///
/// # Panics
/// When one is not.
pub fn refuse(proxy: SocketAddr, path: &str, count: usize) {
    let field = "x".repeat(FIELDS);
    let mut raw = Raw::connect(proxy);
    for number in 0..count {
        raw.send(format!(
            "GET http://VIDEO/{path}{number} HTTP/1.1\r\nHost: VIDEO\r\nX: {field}\r\n\r\n"
        ));
        let (head, _) = raw.response();
        assert_eq!(head.status(), 404);
    }
}
