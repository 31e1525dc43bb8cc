//! Pacing between clients and an origin that bounds its rate.

use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use hermes_tests::curl::Output;
use hermes_tests::origins::{self, Act, Answer, Origin, Question};
use hermes_tests::{Node, curl};

/// A node that paces with these settings.
fn node(settings: &str) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\negress: {{ allow: [127.0.0.0/8] }}\n\
         routes: [ {{ terminate: true, through: [ {{ pace: {{ {settings} }} }} ] }} ]\n"
    );
    Node::start("pace", &yaml)
}

fn ask<T: Clone>(node: &Node, origin: &Origin<T>, arguments: &[&str]) -> Output {
    let (proxy, url) = (node.url("web"), format!("http://{}/", origin.address()));
    let mut all = vec!["-x", proxy.as_str()];
    all.extend(arguments);
    all.push(&url);
    curl(&all)
}

/// An origin that serves so many requests in a window that begins with the first, and tells it where it `tells`.
fn bounded(quota: u64, window: Duration, tells: bool) -> Origin<Question> {
    let state = Mutex::new((None::<Instant>, 0));
    origins::deciding(move |_| {
        let mut state = state.lock().unwrap();
        let now = Instant::now();
        if state.0.is_none_or(|began| now >= began + window) {
            *state = (Some(now), 0);
        }
        state.1 += 1;
        let rest = (state.0.unwrap() + window - now).as_secs() + 1;
        let status = if state.1 <= quota { 200 } else { 429 };
        let mut answer = Answer::new(status, &[]);
        if tells {
            let left = quota.saturating_sub(state.1);
            answer.fields = vec![
                (
                    "ratelimit-policy",
                    format!("\"w\";q={quota};w={}", window.as_secs()),
                ),
                ("ratelimit", format!("\"w\";r={left};t={rest}")),
            ];
        }
        if status == 429 {
            answer.fields.push(("retry-after", rest.to_string()));
        }
        answer
    })
}

/// The statuses of so many requests at once.
fn at_once(node: &Node, origin: &Origin<Question>, count: usize) -> Vec<u16> {
    thread::scope(|scope| {
        let asked: Vec<_> = (0..count)
            .map(|_| scope.spawn(|| ask(node, origin, &[]).status))
            .collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn clients_at_once_are_all_served_by_an_origin_that_tells_its_limits_and_refuses_none() {
    let (node, origin) = (node(""), bounded(4, Duration::from_secs(2), true));
    assert_eq!(at_once(&node, &origin, 12), [200; 12]);
    let told = node.status()["plugs"]["pace"]["origins"].clone();
    let told = told.as_object().unwrap().values().next().unwrap().clone();
    assert_eq!(
        (&told["refused"], &told["sent"]),
        (&0.into(), &12.into()),
        "{told}"
    );
    assert_eq!(told["per_minute"], 120.0);
}

#[test]
fn an_origin_that_only_says_retry_after_refuses_few() {
    let (node, origin) = (node(""), bounded(4, Duration::from_secs(2), false));
    assert_eq!(at_once(&node, &origin, 12), [200; 12]);
    // Beside the twelve, those that were under way when its bound was found.
    assert!(origin.seen().len() <= 24, "{}", origin.seen().len());
}

#[test]
fn a_request_with_content_comes_again_as_it_was() {
    let acts = [Act::status(429, "Retry-After: 1\r\n"), Act::status(200, "")];
    let (node, origin) = (node(""), origins::acting(&acts));
    let got = ask(&node, &origin, &["-d", "an order"]);
    assert_eq!(got.status, 200, "{got:?}");
    let seen = origin.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(
        seen.iter().all(|request| request.ends_with("an order")),
        "{seen:?}"
    );
    assert!(seen[0].starts_with("POST"));
}

#[test]
fn what_may_have_been_done_or_is_too_long_is_not_sent_twice() {
    let acts = [Act::status(503, "Retry-After: 1\r\n")];
    let (node, origin) = (node("kept: 1KiB"), origins::acting(&acts));
    assert_eq!(ask(&node, &origin, &["-d", "an order"]).status, 503);
    assert_eq!(origin.seen().len(), 1);

    let acts = [Act::status(429, "Retry-After: 1\r\n")];
    let origin = origins::acting(&acts);
    let long = "x".repeat(2048);
    assert_eq!(ask(&node, &origin, &["-d", &long]).status, 429);
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn a_request_whose_turn_comes_too_late_is_told_when_and_the_origin_does_not_see_it() {
    let acts = [Act::status(429, "Retry-After: 300\r\n")];
    let (node, origin) = (node("wait: 2s"), origins::acting(&acts));
    let first = ask(&node, &origin, &[]);
    // The origin's own words.
    assert_eq!(
        (first.status, first.field("retry-after").as_deref()),
        (429, Some("300"))
    );
    let second = ask(&node, &origin, &[]);
    assert_eq!(second.status, 429);
    let after: u64 = second.field("retry-after").unwrap().parse().unwrap();
    assert!((200..=300).contains(&after), "{after}");
    let reason = second.field("proxy-status").unwrap();
    assert!(reason.contains("its turn would come too late"), "{reason}");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn a_client_says_how_long_it_waits_and_one_that_leaves_holds_up_no_one() {
    let acts = [Act::status(429, "Retry-After: 2\r\n"), Act::status(200, "")];
    let (node, origin) = (node(""), origins::acting(&acts));
    let impatient = ask(&node, &origin, &["-H", "Prefer: wait=1"]);
    assert_eq!(impatient.status, 429);
    assert_eq!(origin.seen().len(), 1);
    thread::scope(|scope| {
        let (node, origin) = (&node, &origin);
        let gone: Vec<_> = (0..20)
            .map(|_| scope.spawn(move || ask(node, origin, &["--max-time", "0.5"])))
            .collect();
        let patient = ask(node, origin, &[]);
        assert_eq!(patient.status, 200);
        gone.into_iter().for_each(|one| drop(one.join().unwrap()));
    });
    assert!(origin.seen().len() <= 3, "{:?}", origin.seen());
}

#[test]
fn spellings_of_a_host_share_the_room_of_its_origin() {
    let acts = [Act::status(429, "Retry-After: 300\r\n")];
    let (node, origin) = (node("wait: 1s"), origins::acting(&acts));
    let ask = |host: &str| {
        let url = format!("http://{host}:{}/", origin.address().port());
        curl(&["-x", &node.url("web"), &url]).status
    };
    assert_eq!(["localhost", "LOCALHOST", "Localhost"].map(ask), [429; 3]);
    // The second and the third know already.
    assert_eq!(origin.seen().len(), 1);
    let told = node.status()["plugs"]["pace"]["origins"].clone();
    assert_eq!(told.as_object().unwrap().len(), 1, "{told}");
}

/// A node that keeps turns, and two that ask it for them.
fn kept_by_one() -> (Node, [Node; 2]) {
    let keeper = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { match: { target: pace.internal }, handle: pace } ]\n";
    let keeper = Node::start("keeper", keeper);
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\negress: {{ allow: [127.0.0.0/8] }}\n\
         upstreams: {{ keeper: {{ endpoints: [ {{ address: '{}' }} ] }} }}\n\
         routes:\n  - {{ match: {{ target: pace.internal }}, to: keeper }}\n  \
         - {{ terminate: true, through: [ {{ pace: {{ keeper: pace.internal }} }} ] }}\n",
        keeper.address("web")
    );
    let nodes = ["one", "other"].map(|name| Node::start(name, &yaml));
    (keeper, nodes)
}

#[test]
fn nodes_that_ask_one_keeper_share_the_room_of_an_origin() {
    let (keeper, nodes) = kept_by_one();
    let origin = bounded(4, Duration::from_secs(2), true);
    thread::scope(|scope| {
        let asked = nodes
            .each_ref()
            .map(|node| scope.spawn(|| at_once(node, &origin, 6)));
        for statuses in asked {
            assert_eq!(statuses.join().unwrap(), [200; 6]);
        }
    });
    let told = keeper.status()["plugs"]["pace"]["origins"].clone();
    let told = told.as_object().unwrap().values().next().unwrap().clone();
    assert_eq!(
        (&told["refused"], &told["sent"]),
        (&0.into(), &12.into()),
        "{told}"
    );
}

#[test]
fn a_node_whose_keeper_is_gone_goes_on_alone_and_says_so() {
    let (keeper, [node, _]) = kept_by_one();
    drop(keeper);
    let origin = bounded(4, Duration::from_secs(2), true);
    assert_eq!(at_once(&node, &origin, 6), [200; 6]);
    assert_eq!(node.status()["plugs"]["pace"]["without_keeper"], 6);
}

#[test]
fn a_keeper_tells_what_is_no_question_and_lends_no_turn_twice() {
    let (keeper, _nodes) = kept_by_one();
    let proxy = keeper.url("web");
    let say = |content: &str| curl(&["-x", &proxy, "-d", content, "http://pace.internal/"]);
    let lent =
        say(r#"{"ask": {"origin": "a", "mode": "learned", "wait_ms": 1000, "again": false}}"#);
    assert_eq!(lent.status, 200, "{lent:?}");
    let permit: serde_json::Value = serde_json::from_slice(&lent.body).unwrap();
    let report = format!(
        r#"{{"answered": {{"permit": {}, "refused": false}}}}"#,
        permit["permit"]
    );
    assert_eq!(say(&report).status, 204);
    assert_eq!(say(&report).status, 404);
    for wrong in [
        "",
        "{}",
        "[[[[",
        r#"{"ask": {"origin": "a"}}"#,
        &"[".repeat(5000),
    ] {
        assert_eq!(say(wrong).status, 400, "{wrong}");
    }
    assert_eq!(curl(&["-x", &proxy, "http://pace.internal/"]).status, 405);
}

#[test]
fn the_example_of_the_page_does_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/pace.md");
    let page = std::fs::read_to_string(page).unwrap();
    let yaml = page.split("```yaml\n").nth(1).unwrap();
    let yaml = yaml.split("```").next().unwrap();
    let node = Node::start(
        "example",
        &yaml.replace("version: 1\n", "").replace(":3128", ":0"),
    );
    let origin = bounded(2, Duration::from_secs(3), true);
    assert_eq!(at_once(&node, &origin, 5), [200; 5]);
    let told = node.status()["plugs"]["pace"]["origins"].clone();
    let told = told.as_object().unwrap().values().next().unwrap().clone();
    assert_eq!(told["refused"], 0, "{told}");
    assert!(page.contains("\"refused\": 0"));
}
