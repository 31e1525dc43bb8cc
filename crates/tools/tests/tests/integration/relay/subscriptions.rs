//! Subscriptions as resources: how long they last, who may change them, and what outlives a stream.

use std::fs;

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl};

use super::subscriber::Subscriber;
use super::{channel, relay, subscriptions};

#[test]
fn a_refused_time_changes_nothing_and_a_subscription_is_renewed_and_left_by_its_uri() {
    let node = relay("max_timeout: 1h");
    let url = channel(node.address("web"));
    let refused = curl(&["-H", "Hermes-Subscribe: timeout=7200", &url]);
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.field("hermes-subscribe").as_deref(),
        Some("max-timeout=3600")
    );
    assert_eq!(subscriptions(&node), 0);

    let mut subscriber = Subscriber::begin(&url, &["-H", "Hermes-Subscribe: timeout=600"]);
    assert!(
        subscriber
            .field("hermes-subscribe")
            .starts_with("timeout=600, at=")
    );
    let uri = format!("http://{}{}", node.address("web"), subscriber.location());
    let refused = curl(&["-X", "POST", "-H", "Hermes-Subscribe: timeout=7200", &uri]);
    assert_eq!(refused.status, 422);
    let renewed = curl(&["-X", "POST", "-H", "Hermes-Subscribe: timeout=3000", &uri]);
    assert_eq!(renewed.status, 204);
    let until = renewed.field("hermes-subscribe").unwrap();
    assert!(until.starts_with("timeout=3000, at="), "{until}");
    curl(&["-d", "still here", &url]);
    subscriber.sees("still here");

    assert_eq!(curl(&["-X", "DELETE", &uri]).status, 204);
    assert!(subscriber.ends().ends_with("[hermes: end: left]\n"));
    assert_eq!(curl(&["-X", "DELETE", &uri]).status, 404);
    assert_eq!(subscriptions(&node), 0);
    assert_eq!(curl(&["-d", "x", &url]).text(), "no receivers\n");
}

#[test]
fn a_subscription_ends_with_its_time_and_says_so() {
    let node = relay("");
    let url = channel(node.address("web"));
    let fields = [
        "-H",
        "Hermes-Subscribe: timeout=1",
        "-H",
        "Accept: text/event-stream",
    ];
    let mut subscriber = Subscriber::begin(&url, &fields);
    assert_eq!(subscriber.ends(), "event: end\ndata: timeout\n\n");
    eventually_true("nothing is left", || subscriptions(&node) == 0);
}

#[test]
fn a_silent_channel_gives_signs_of_life_where_the_form_has_one() {
    let node = relay("heartbeat: 1s");
    let url = channel(node.address("web"));
    let events = Subscriber::begin(&url, &["-H", "Accept: text/event-stream"]);
    let lines = Subscriber::begin(&url, &[]);
    events.sees("event: heartbeat\ndata: 0\n\n");
    curl(&["-d", "hi", &url]);
    events.sees("event: heartbeat\ndata: 1\n\n");
    assert_eq!(lines.sees("hi"), "hi\n");
}

#[test]
fn a_subscriber_that_comes_again_gets_what_waited_and_hears_of_what_it_missed() {
    let node = relay("");
    let url = channel(node.address("web"));
    let events = ["-H", "Accept: text/event-stream"];
    let subscriber = Subscriber::begin(&url, &events);
    for message in ["one", "two"] {
        curl(&["-d", message, &url]);
    }
    let text = subscriber.sees("data: two\n\n");
    let id = text.lines().find_map(|line| line.strip_prefix("id: "));
    let id = id.unwrap().to_owned();
    drop(subscriber);
    eventually_true("the node knows that the stream broke off", || {
        let records = node.access();
        records.iter().any(|record| record["method"] == "GET")
    });
    assert_eq!(curl(&["-d", "three", &url]).text(), "receivers: 1\n");

    // A browser says the last event that it knows: here it has not seen the second.
    let last = format!("Last-Event-ID: {id}");
    let again = Subscriber::begin(&url, &["-H", "Accept: text/event-stream", "-H", &last]);
    let text = again.sees("data: three\n\n");
    assert!(
        text.starts_with("event: gap\ndata: {\"count\":1,\"reason\":\"away\"}\n\n"),
        "{text}"
    );
    assert!(!again.field("hermes-subscribe").contains("recovered, "));
    assert_eq!(subscriptions(&node), 1);
}

#[test]
fn a_position_of_another_life_of_the_channel_is_said_to_be_lost() {
    let node = relay("");
    let url = channel(node.address("web"));
    let from = "Hermes-Subscribe: from=\"00000000.7\"";
    let fields = ["-H", from, "-H", "Accept: application/x-ndjson"];
    let subscriber = Subscriber::begin(&url, &fields);
    subscriber.sees("{\"gap\":0,\"reason\":\"restarted\"}\n");
    assert!(
        subscriber
            .field("hermes-subscribe")
            .contains("recovered=?0")
    );
}

#[test]
fn a_subscription_is_another_users_as_little_as_no_ones() {
    let users: String = ["alice", "bob"]
        .iter()
        .map(|user| format!("{user}:{}\n", bcrypt::hash("secret", 4).unwrap()))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("users"), users).unwrap();
    let yaml = "listeners: { web: { http: 127.0.0.1:0, gateway: true, auth: { basic: { file: users } } } }\n\
                routes: [ { handle: relay } ]\n";
    let node = Node::start_in(folder, "relay", yaml, &[]);
    let url = channel(node.address("web"));
    let subscriber = Subscriber::begin(&url, &["-u", "alice:secret"]);
    let uri = format!("http://{}{}", node.address("web"), subscriber.location());
    for method in ["GET", "POST", "DELETE"] {
        let got = curl(&["-u", "bob:secret", "-X", method, &uri]);
        assert_eq!(got.status, 404, "{got:?}");
    }
    let own = curl(&["-u", "alice:secret", "-X", "POST", &uri]);
    assert_eq!(own.status, 204);
}

#[test]
fn reloads_drop_no_subscriber_and_rules_that_deny_one_end_its_stream() {
    let yaml = |policy: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}\n{policy}\
             routes: [ {{ handle: relay }} ]\n"
        )
    };
    let open = "policy: { default: allow }\n";
    let node = Node::start("relay", &yaml(open));
    let url = channel(node.address("web"));
    let mut subscriber = Subscriber::begin(&url, &[]);
    for count in 0..100 {
        let (status, report) = node.reload(&yaml(&format!("{open}# {count}\n")));
        assert_eq!(status, 200, "{report}");
        let sent = curl(&["-d", &format!("message {count}."), &url]);
        assert_eq!(sent.text(), "receivers: 1\n");
    }
    let text = subscriber.sees("message 99.");
    assert_eq!(text.lines().count(), 100);

    let closed = "policy: { default: allow, rules: [ { deny: true, match: { method: GET } } ] }\n";
    let (status, report) = node.reload(&yaml(closed));
    assert_eq!(status, 200, "{report}");
    subscriber.ends();
    eventually_true("the subscription is gone", || subscriptions(&node) == 0);
}

#[test]
fn a_sign_of_life_finds_out_who_is_gone_behind_a_proxy_that_cannot_see_it() {
    let node = relay("heartbeat: 1s, grace: 1s");
    // Clients of this one may end their side and read on: one that is gone looks the same until something is sent to it.
    let way = Node::start(
        "way",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true, half_close: true }} }}
            routes: [ {{ to: hub }} ]
            upstreams: {{ hub: {{ endpoints: ["{}"], http: 1 }} }}
            "#,
            node.address("web")
        ),
    );
    for form in [
        "application/hermes-adu",
        "text/event-stream",
        "application/x-ndjson",
        "application/http",
    ] {
        let mut reader = Raw::connect(way.address("web"));
        reader.send(format!(
            "GET /c/x HTTP/1.1\r\nHost: relay\r\nAccept: {form}\r\n\r\n"
        ));
        assert!(reader.head().line.contains("200"));
        assert_eq!(subscriptions(&node), 1);
        drop(reader);
        eventually_true("no one is left", || subscriptions(&node) == 0);
    }
}
