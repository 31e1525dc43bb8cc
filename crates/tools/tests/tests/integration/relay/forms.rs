//! Messages in the form that each subscriber accepts, over each version of HTTP.

use hermes_tests::{curl, program};

use super::subscriber::Subscriber;
use super::versions::Hub;
use super::{channel, relay};
use crate::http3::overlay::VERSIONS;

/// The media types, and the message `hi` in each of them.
const FORMS: [(&str, &str); 6] = [
    ("*/*", "hi\n"),
    ("application/octet-stream", "hi"),
    ("application/x-ndjson", "{\"seq\":1,\"data\":\"hi\"}\n"),
    ("text/event-stream", "data: hi\n\n"),
    ("application/http", "\r\nHermes-Sequence: 1\r\n\r\nhi"),
    ("application/hermes-adu", "\u{1}\0hi"),
];

#[test]
fn each_subscriber_gets_a_message_in_the_form_that_it_accepts() {
    let node = relay("");
    let url = channel(node.address("web"));
    let subscribers = FORMS.map(|(accept, wanted)| {
        let accept = format!("Accept: {accept}");
        (Subscriber::begin(&url, &["-H", &accept]), wanted)
    });
    let sent = curl(&["-d", "hi", &url]);
    assert_eq!((sent.status, sent.text().as_str()), (200, "receivers: 6\n"));
    let delivered = sent.field("hermes-delivered").unwrap();
    assert!(
        delivered.contains("receivers=6, enqueued=6, dropped=0, exact"),
        "{delivered}"
    );
    for (subscriber, wanted) in &subscribers {
        subscriber.sees(wanted);
    }
}

#[test]
fn publishers_and_subscribers_may_speak_any_version_of_http() {
    let hub = Hub::start("");
    let ways = VERSIONS.map(|version| hub.way(version));
    let url = "http://relay.test/c/x";
    let subscribers = ways.each_ref().map(|way| {
        let proxy = way.url("web");
        Subscriber::begin(url, &["-x", &proxy])
    });
    for (version, way) in VERSIONS.iter().zip(&ways) {
        let proxy = way.url("web");
        let message = format!("by HTTP/{version}");
        let sent = curl(&["-x", &proxy, "-d", &message, url]);
        assert_eq!(sent.text(), "receivers: 3\n", "{sent:?}");
        for subscriber in &subscribers {
            subscriber.sees(&message);
        }
    }
    for version in VERSIONS {
        let protocol = format!("h{version}");
        hub.node
            .record(|record| record["protocol"] == protocol.as_str());
    }
}

#[test]
fn a_reader_that_takes_one_answer_at_a_time_gets_one_message() {
    let node = relay("");
    let url = channel(node.address("web"));
    let none = curl(&["-H", "Prefer: wait=1", &url]);
    assert_eq!(none.status, 204);

    let waiting = url.clone();
    let reader = std::thread::spawn(move || curl(&["-H", "Prefer: wait=20", &waiting]));
    hermes_tests::eventually::eventually_true("the reader waits", || {
        super::subscriptions(&node) == 1
    });
    curl(&["-d", "{}", "-H", "Content-Type: application/json", &url]);
    let got = reader.join().unwrap();
    assert_eq!((got.status, got.text().as_str()), (200, "{}"));
    assert_eq!(
        got.field("content-type").as_deref(),
        Some("application/json")
    );
}

#[test]
fn a_mistake_elsewhere_in_a_file_is_told_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.yaml");
    let yaml = "version: 1\nlisteners: { web: { http: 127.0.0.1:0, gateway: true, mode: x } }\n\
                routes: [ { handle: relay } ]\n";
    std::fs::write(&file, yaml).unwrap();
    let said = program::run(&["check", file.to_str().unwrap()]);
    assert!(said.stdout.contains("unknown key"), "{}", said.stdout);
    assert!(said.stdout.ends_with("1 problem\n"), "{}", said.stdout);
}

#[test]
fn requests_that_mean_nothing_are_told_what_would() {
    let node = relay("");
    let url = channel(node.address("web"));
    for (arguments, status, word) in [
        (&["-X", "PATCH"][..], 405, "subscribed to by GET"),
        (&["-H", "Accept: image/png"], 406, "text/event-stream"),
        (&["-H", "Hermes-Subscribe: timeout=x"], 400, "`timeout`"),
        (
            &["-d", "x", "-H", "Hermes-Publish: mode=fast"],
            400,
            "realtime or reliable",
        ),
    ] {
        let got = curl(&[arguments, &[&url]].concat());
        assert_eq!(got.status, status, "{got:?}");
        assert!(got.text().contains(word), "{}", got.text());
    }
    let missing = curl(&[&format!("{url}?s=AAAAAAAAAAAAAAAAAAAAAA")]);
    assert_eq!(missing.status, 404);
}
