//! Attempts of one exchange, by retry, hedge or broadcast, while it changes whose the exchanges of a listener are.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_tests::origins::{self, Request};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, free};

/// Users, each on a connection of its own, and requests of each.
const USERS: usize = 4;
const REQUESTS: usize = 60;

/// `accepts` and `user` decide whose an exchange is; they change while exchanges are under way.
fn yaml(listener: &str, one: &str, two: &str, dead: &str) -> String {
    format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, {listener} }} }}
        routes:
          - match: {{ path: /status/* }}
            terminate: retried
            expose: [user]
          - match: {{ path: /copied/* }}
            terminate: all
            broadcast: {{ users: ["*"], reply: all }}
            expose: [user]
          - {{ terminate: hedged, expose: [user] }}
        upstreams:
          retried:
            endpoints: ["{dead}", "{one}", "{two}"]
            retry: {{ attempts: 4, on: 5xx, backoff: {{ base: 1ms, max: 2ms }}, budget: {{ ratio: 100%, min: 10000 per second }} }}
          hedged: {{ endpoints: ["{one}", "{two}"], hedge: {{ after: 1ms, most: 4 }} }}
          all: {{ endpoints: ["{one}", "{two}"] }}
        "#
    )
}

/// What a listener says in turn, and whose the exchanges of `user-N` are then.
const LISTENERS: [&str; 3] = [
    "accepts: [user, x-hermes-broadcast]",
    "user: house, accepts: [x-hermes-broadcast]",
    "accepts: [x-hermes-broadcast]",
];

#[test]
fn all_attempts_of_an_exchange_are_the_same_users() {
    let (one, two) = (origins::http(), origins::http());
    let [first, second, dead] = [
        one.address().to_string(),
        two.address().to_string(),
        free::tcp().to_string(),
    ];
    let yaml = |listener: &str| yaml(listener, &first, &second, &dead);
    let node = Node::start("edge", &yaml(LISTENERS[0]));
    let address = node.address("web");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            for listener in LISTENERS.iter().cycle() {
                assert_eq!(node.reload(&yaml(listener)).0, 200);
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let users: Vec<_> = (0..USERS)
            .map(|user| scope.spawn(move || ask(address, user)))
            .collect();
        let failed = users
            .into_iter()
            .filter_map(|user| user.join().err())
            .count();
        done.store(true, Ordering::Relaxed);
        changing.join().unwrap();
        assert_eq!(failed, 0, "a user got no answer");
    });
    judge(&[one.seen(), two.seen()].concat());
    assert!(!node.log().contains("panicked"), "{}", node.log());
}

/// Asks in each way in turn.
fn ask(address: std::net::SocketAddr, user: usize) {
    let mut raw = Raw::connect(address);
    for number in 0..REQUESTS {
        let path = ["/status/503", "/copied/x", "/bytes/10"][number % 3];
        raw.send(format!(
            "GET http://VIDEO{path}?of=user-{user}&number={number} HTTP/1.1\r\nHost: VIDEO\r\nuser: user-{user}\r\n\
             x-hermes-broadcast: true\r\n\r\n"
        ));
        let head = raw.head();
        assert!([200, 503].contains(&head.status()), "{head:?}");
        match head.field("content-length") {
            Some(length) => drop(raw.exactly(length.parse().unwrap())),
            None => {
                drop(raw.until(|came| came.ends_with(b"\r\n0\r\n\r\n") || came == b"0\r\n\r\n"))
            }
        }
    }
}

/// Each exchange is of one user at all origins and in all attempts: its own, the house's, or no one's.
fn judge(seen: &[Request]) {
    let mut users: HashMap<&str, Option<String>> = HashMap::new();
    let mut attempts = 0;
    for request in seen {
        let (_, query) = request.path.split_once('?').unwrap();
        let own = query
            .strip_prefix("of=")
            .and_then(|rest| rest.split('&').next());
        let user = request.field("user");
        let may_be = user.is_none() || user.as_deref() == own || user.as_deref() == Some("house");
        assert!(may_be, "{user:?} got the exchange {query}");
        attempts += usize::from(users.contains_key(query));
        let before = users.entry(query).or_insert_with(|| user.clone());
        assert_eq!(*before, user, "two attempts of {query}");
    }
    assert_eq!(users.len(), USERS * REQUESTS);
    assert!(
        attempts > users.len() / 4,
        "{attempts} further attempts raced"
    );
}
