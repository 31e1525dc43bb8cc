//! One user's questions to an authorisation server that takes long for them.

use std::time::{Duration, Instant};

use super::costly_policy::ask_until;
use super::{Attack, Effort, Party, Place, Stage};
use crate::origins::{Answer, deciding};

/// For how long the lab asks.
const TIME: Duration = Duration::from_secs(4);

/// The target that the server takes long for.
const SLOW: &str = "slow.test";

/// More questions at once than the filter has places.
pub(super) const CROWDED: Attack = Attack {
    name: "slow-filter",
    by: Party::User,
    place: Place::Loopback,
    summary: "600 requests at once, for 4 s, before an authorisation server that takes 150 ms for each of them",
    prepare,
    run,
};

fn prepare() -> Stage {
    let server = deciding(|question| {
        let asked = question.request.field("x-forwarded-host");
        let is_slow = asked.is_some_and(|host| host == SLOW);
        Answer {
            after: if is_slow {
                Duration::from_millis(150)
            } else {
                Duration::ZERO
            },
            ..Answer::new(200, &[])
        }
    });
    let further = format!(
        "authorize: [ {{ name: check, upstream: authority, timeout: 10s, concurrency: 32 }} ]\n\
         upstreams: {{ authority: {{ endpoints: [\"{}\"] }} }}",
        server.address()
    );
    Stage::start(
        "web: { http: 127.0.0.1:0, user: alice }",
        "{ respond: { status: 200 } }",
        &further,
    )
    .keeping(server)
}

fn run(stage: &Stage) -> Effort {
    let begin = Instant::now();
    let uri = format!("http://{SLOW}/");
    let answers = ask_until(stage.node.address("web"), &uri, || begin.elapsed() >= TIME);
    Effort {
        attempts: answers,
        bytes: 30 * answers,
        ..Effort::default()
    }
}
