//! A crowd of one client's requests before a filter with `fail: open`; its server denies them all.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use super::{Attack, Effort, Party, Place, Stage};
use crate::h2c::Client;
use crate::origins::{Answer, Origin, Question, deciding};

/// Connections of the attacker.
const CONNECTIONS: usize = 3;

/// Times that each asks, one after the other.
const ROUNDS: usize = 3;

/// Requests of each at once.
const REQUESTS: usize = 300;

/// More questions at once than the server decides within their time.
pub(super) const CROWD: Attack = Attack {
    name: "crowded-filter",
    by: Party::Client,
    place: Place::Loopback,
    summary: "3 connections of 300 requests at once, three times, before `fail: open` and a server that denies 500 a second",
    prepare,
    run,
};

fn prepare() -> Stage {
    let server = slow_denials();
    let further = format!(
        "authorize: [ {{ name: check, match: {{ listener: web }}, upstream: authority, fail: open }} ]\n\
         upstreams: {{ authority: {{ endpoints: [\"{}\"] }} }}",
        server.address()
    );
    Stage::start(
        "web: { http: 127.0.0.1:0 }",
        "{ respond: { status: 200, body: secret } }",
        &further,
    )
    .keeping(server)
}

fn run(stage: &Stage) -> Effort {
    let statuses = crowd(stage.node.address("web"), "http://site/admin");
    let passed = statuses.iter().filter(|status| **status == 200).count();
    Effort {
        // A head of indexed fields, as all after the first are.
        bytes: 30 * statuses.len() as u64,
        attempts: statuses.len() as u64,
        passed: passed as u64,
        ..Effort::default()
    }
}

/// Denies everything, one after the other, 500 in a second; as an HTTP service, or as OPA at `/v1/data/allow`.
pub fn slow_denials() -> Origin<Question> {
    deciding(|question| {
        let is_opa = question.request.path == "/v1/data/allow";
        let content = if is_opa { "{ \"result\": false }" } else { "" };
        Answer {
            content: content.to_owned(),
            after: Duration::from_millis(2),
            in_a_row: true,
            ..Answer::new(if is_opa { 200 } else { 403 }, &[])
        }
    })
}

/// Asks for this URI as a crowd; the statuses of all answers.
///
/// # Panics
/// When a connection cannot be made.
pub fn crowd(proxy: SocketAddr, uri: &str) -> Vec<u16> {
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| Client::connect(proxy)).collect();
    let ask = |client: &Client| {
        let rounds = (0..ROUNDS).flat_map(|_| client.statuses(uri, REQUESTS));
        rounds.collect::<Vec<u16>>()
    };

    thread::scope(|scope| {
        let asking: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(|| ask(client)))
            .collect();
        let answered = asking.into_iter().flat_map(|asking| asking.join().unwrap());
        answered.collect()
    })
}
