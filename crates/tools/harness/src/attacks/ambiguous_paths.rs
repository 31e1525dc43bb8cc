//! Paths that some server reads as one that rules deny.

use super::{Attack, Effort, Party, Place, Stage};
use crate::h2c::Client;
use crate::origins;
use crate::raw::Raw;

/// Read as `/admin/secret` by some server: parameters of segments, encoded slashes and backslashes, and paths that are encoded twice.
pub const HIDDEN: [&str; 14] = [
    "/admin;x/secret",
    "/admin;/secret",
    "/;x/admin/secret",
    "/;/admin/secret",
    "/admin%3Bx/secret",
    "/admin%2Fsecret",
    "/admin%2fsecret",
    "/%2Fadmin/secret",
    "/admin%5Csecret",
    "/admin%5csecret;y",
    "/;%2Fadmin/secret",
    "/admin%252Fsecret",
    "/%2561dmin/secret",
    "/public/%252e%252e/admin/secret",
];

/// Each over both versions on TCP, before a rule about `/admin/*`.
pub(super) const READ_OTHERWISE: Attack = Attack {
    name: "ambiguous-paths",
    by: Party::Client,
    place: Place::Loopback,
    summary: "14 paths that some servers read as `/admin/secret`, which the policy denies",
    prepare,
    run,
};

fn prepare() -> Stage {
    let origin = origins::http();
    let further =
        "policy: { default: allow, rules: [ { match: { path: /admin/* }, deny: true } ] }";
    let route = format!("{{ terminate: \"{}\" }}", origin.address());
    Stage::start("web: { http: 127.0.0.1:0 }", &route, further).keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    let web = stage.node.address("web");
    let mut effort = Effort::default();
    for path in HIDDEN {
        let mut raw = Raw::connect(web);
        raw.send(format!(
            "GET http://VIDEO{path} HTTP/1.1\r\nHost: VIDEO\r\n\r\n"
        ));
        let uri = format!("http://VIDEO{path}");
        let statuses = [
            raw.head().status(),
            Client::connect(web).statuses(&uri, 1)[0],
        ];
        effort.attempts += 2;
        effort.bytes += 2 * path.len() as u64;
        effort.passed += statuses
            .iter()
            .filter(|status| (200..300).contains(*status))
            .count() as u64;
    }

    effort
}
