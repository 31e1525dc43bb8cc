//! Users of the API of areas who ask for much, or never come to an end.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Attack, Effort, Party, Place, Stage};
use crate::raw::Raw;

/// For how long requests are repeated.
const TIME: Duration = Duration::from_secs(3);

/// Connections on which the content of a request never comes, of each of two users.
const UNFINISHED: usize = 100;

/// Connections on which requests are repeated.
const REPEATED: usize = 12;

/// Paths without end: half-open requests, large and deep contents, and changes of routes, each of which the node follows.
pub(super) const PATHS: Attack = Attack {
    name: "areas-requests",
    by: Party::User,
    place: Place::Loopback,
    summary: "200 requests whose contents never come, of a user with paths and of one without; large and deep contents, and changes, for 3 s",
    prepare,
    run,
};

const AREAS: &str = "\
version: 1
places: { here: {} }
areas:
  ehr: { at: here, has: [listed], clients: { listener: app } }
  lab: { at: here, targets: [lab.test], terminate: \"127.0.0.1:9\" }
functions: { allow-ports: { adds: [listed], at: [here], through: { allow: { ports: [54321] } } } }
";

fn prepare() -> Stage {
    let further = "\
include: [routes.yaml]\n\
plugs: { areas: { file: FOLDER/areas.yaml, at: here, folder: FOLDER, allow: [ { users: [alice], to: [lab] } ] } }";
    Stage::start_with(
        "app: { http: 127.0.0.1:0 }, \
         web: { http: 127.0.0.1:0, gateway: true, user: alice }, \
         other: { http: 127.0.0.1:0, gateway: true, user: mallory }",
        "{ match: { listener: [web, other], path: \"/areas/*\" }, handle: areas }",
        further,
        &[("areas.yaml", AREAS), ("routes.yaml", "version: 1\n")],
    )
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort::default();
    let listeners = ["web", "other"].map(|listener| stage.node.address(listener));
    for web in listeners {
        let begun = post(60_000, "{\"from\":");
        for _ in 0..UNFINISHED {
            let mut raw = Raw::connect(web);
            raw.send_if_open(&begun);
            effort.hold(raw);
        }
        effort.bytes += (UNFINISHED * begun.len()) as u64;
        effort.attempts += UNFINISHED as u64;
    }

    let until = Instant::now() + TIME;
    let repeating: Vec<_> = (0..REPEATED)
        .map(|number| {
            let web = listeners[number % 2];
            std::thread::spawn(move || repeat(web, number, until))
        })
        .collect();
    for one in repeating {
        let (requests, bytes) = one.join().unwrap();
        effort.attempts += requests;
        effort.bytes += bytes;
    }
    effort
}

/// A request with a content of so many bytes that begins so.
fn post(length: usize, begin: &str) -> String {
    format!(
        "POST /areas/v1/paths HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{begin}"
    )
}

fn whole(content: &str) -> String {
    post(content.len(), content)
}

/// Requests of one kind, and the bytes that they took.
fn repeat(web: SocketAddr, number: usize, until: Instant) -> (u64, u64) {
    let long = "a".repeat(30_000);
    let path = whole("{\"from\":\"ehr\",\"to\":\"lab\"}");
    let end =
        "DELETE /areas/v1/paths/ehr~lab HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n"
            .to_owned();
    let kinds = [
        vec![path, end],
        vec![whole(&format!("{{\"from\":\"{long}\",\"to\":\"{long}\"}}"))],
        vec![whole(&"[".repeat(60_000))],
    ];
    let requests = &kinds[number / 2 % kinds.len()];
    let mut said = (0, 0);
    while Instant::now() < until {
        for request in requests {
            let mut raw = Raw::connect(web);
            raw.send_if_open(request);
            // To its end: the answer closes the connection.
            raw.until(|_| false);
            said.0 += 1;
            said.1 += request.len() as u64;
        }
    }
    said
}
