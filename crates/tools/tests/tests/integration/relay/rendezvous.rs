//! A node that knows which relay has a channel, and sends clients there.

use std::net::SocketAddr;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, curl, free, program};
use rustix::process::Signal;

use super::script::Script;
use super::subscriber::Subscriber;

const KEY: &str = "a key of sixteen bytes or more";

/// A rendezvous, with this in its settings.
fn rendezvous(settings: &str) -> Node {
    Node::start(
        "rendezvous",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            plugs: {{ relay: {{ key_file: {{ inline: "{KEY}" }} }} }}
            routes: [ {{ handle: {{ rendezvous: {{ lost_after: 1s {settings} }} }} }} ]
            "#
        ),
    )
}

/// A relay that serves those who come from one of these.
fn member(of: &[&Node]) -> Node {
    let place = free::tcp();
    let all: Vec<_> = of
        .iter()
        .map(|node| format!("\"http://{}\"", node.address("web")))
        .collect();
    Node::start(
        "relay",
        &format!(
            r#"
            listeners: {{ web: {{ http: "{place}", gateway: true }} }}
            plugs:
              relay:
                key_file: {{ inline: "{KEY}" }}
                at: "http://{place}"
                rendezvous: [{}]
                beat: 200ms
                grants: true
            routes: [ {{ handle: relay }} ]
            "#,
            all.join(", ")
        ),
    )
}

/// The number of relays that a rendezvous hears.
fn heard(node: &Node) -> u64 {
    let status = node.status();
    let relays = &status["plugs"]["relay"]["rendezvous"]["relays"];
    relays.as_u64().unwrap_or_default()
}

/// Where a rendezvous sends a client.
fn sent_to(node: &Node, path: &str, arguments: &[&str]) -> String {
    let url = format!("http://{}{path}", node.address("web"));
    let answer = curl(&[arguments, &[&url]].concat());
    assert_eq!(answer.status, 307, "{answer:?}");
    answer.field("location").unwrap()
}

fn is_at(location: &str, node: &Node) -> bool {
    location.starts_with(&format!("http://{}/", node.address("web")))
}

#[test]
fn a_client_is_sent_to_the_relay_of_its_channel_for_one_more_round_trip() {
    let meeting = rendezvous("");
    let by_hash = rendezvous(", mapping: hash");
    let url = format!("http://{}/c/x", meeting.address("web"));
    assert_eq!(curl(&["-d", "early", &url]).status, 503);
    let relays = [(); 2].map(|()| member(&[&meeting, &by_hash]));
    eventually_true("both are heard", || {
        heard(&meeting) == 2 && heard(&by_hash) == 2
    });

    let subscriber = Subscriber::begin(&url, &["-L"]);
    // One redirection, and no more: the next head is the relay's.
    eventually_true("the relay answers", || {
        subscriber.head().contains("HTTP/1.1 200")
    });
    assert_eq!(subscriber.head().matches("HTTP/1.1 ").count(), 2);
    assert_eq!(subscriber.head().matches("HTTP/1.1 307").count(), 1);
    assert_eq!(
        curl(&["-L", "-d", "by curl", &url]).text(),
        "receivers: 1\n"
    );
    let said = program::run(&["publish", &url, "by the program"]);
    assert_eq!(said.stdout, "receivers: 1\n", "{}", said.stderr);
    subscriber.sees("by the program");

    // Who asks for a relay gets it, where no one has asked before.
    for relay in &relays {
        let place = relay.address("web");
        let wish = format!("Hermes-Subscribe: relay=\"{place}\"");
        let path = format!("/c/at/{}", place.port());
        assert!(is_at(&sent_to(&meeting, &path, &["-H", &wish]), relay));
        assert!(is_at(&sent_to(&meeting, &path, &[]), relay));
    }
    // By the hash, each node says the same, and remembers nothing.
    let first = |path: &str| is_at(&sent_to(&by_hash, path, &[]), &relays[0]);
    let chosen: Vec<_> = (0..20)
        .map(|channel| first(&format!("/c/{channel}")))
        .collect();
    assert!(chosen.contains(&true) && chosen.contains(&false));
    let status = by_hash.status();
    assert_eq!(status["plugs"]["relay"]["rendezvous"]["channels"], 0);

    // A relay serves those who were sent there, to this channel.
    let place = relays[0].address("web");
    let direct = format!("http://{place}/c/direct");
    let back = curl(&["-d", "x", &direct]);
    assert_eq!(back.status, 307, "{back:?}");
    assert!(is_at(&back.field("location").unwrap(), &meeting));
    let wish = format!("Hermes-Publish: relay=\"{place}\"");
    let granted = sent_to(&meeting, "/c/granted", &["-H", &wish, "-d", "x"]);
    assert_eq!(curl(&["-d", "x", &granted]).status, 200);
    let other = granted.replace("/c/granted", "/c/other");
    assert_eq!(curl(&["-d", "x", &other]).status, 403);
    assert_eq!(
        curl(&["-d", "x", &format!("{direct}?g=9999999999.AAAA")]).status,
        403
    );
}

#[test]
fn heartbeats_of_those_without_the_key_are_none() {
    let meeting = rendezvous("");
    let url = format!("http://{}/", meeting.address("web"));
    for value in [
        "relay=\"evil.test:80\", time=1796000000000, mac=\"AAAA\"",
        "relay=\"evil.test:80\", time=1796000000000, mac=\"\"",
    ] {
        let field = format!("Hermes-Heartbeat: {value}");
        assert_eq!(curl(&["-X", "POST", "-H", &field, &url]).status, 403);
    }
    let field = "Hermes-Heartbeat: relay=\"evil.test:80\"";
    assert_eq!(curl(&["-X", "POST", "-H", field, &url]).status, 400);
    assert_eq!(heard(&meeting), 0);
}

#[test]
fn subscribers_of_a_relay_that_was_killed_meet_at_another_one() {
    let meeting = rendezvous("");
    let mut relays = [(); 2].map(|()| member(&[&meeting]));
    eventually_true("both are heard", || heard(&meeting) == 2);
    let url = format!("http://{}/c/x", meeting.address("web"));
    let script = Script::begin(
        &url,
        r#"
        for await (const event of channel.subscribe()) {
            console.log(event.gap === undefined ? event.text() : `gap ${event.reason}`);
            if (event.seq !== undefined && event.text() === "last") break;
        }
        process.exit(0);
        "#,
    );
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let mut child = program::command()
        .args(["subscribe", &url, "--json", "--count", "2"])
        .stdout(std::fs::File::create(&got).unwrap())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let publish = |text: &str| {
        eventually(text, || {
            let answer = curl(&["-L", "-d", text, &url]);
            (answer.text() == "receivers: 2\n").then_some(())
        });
    };
    let count = |node: &Node| super::subscriptions(node);
    eventually_true("both subscribe", || {
        relays.iter().map(count).sum::<u64>() == 2
    });
    publish("first");
    script.sees("first");

    let dead = usize::from(count(&relays[1]) > 0);
    let place: SocketAddr = relays[dead].address("web");
    relays[dead].signal(Signal::KILL);
    relays[dead].wait();
    eventually_true("they meet again", || count(&relays[1 - dead]) == 2);
    publish("last");
    assert_eq!(script.ends(), "first\ngap restarted\nlast\n");
    assert!(child.wait().unwrap().success());
    let got = std::fs::read_to_string(&got).unwrap();
    assert!(got.contains("restarted") && got.contains("last"), "{got}");
    assert!(!sent_to(&meeting, "/c/x", &[]).contains(&place.to_string()));
}

#[test]
fn a_rendezvous_over_tls_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("relay.yaml");
    let settings = |place: &str| {
        format!(
            r#"
            version: 1
            listeners: {{ web: {{ http: 127.0.0.1:8081, gateway: true }} }}
            plugs: {{ relay: {{ key_file: {{ inline: "{KEY}" }}, at: "http://127.0.0.1:8081", rendezvous: ["{place}"] }} }}
            routes: [ {{ handle: relay }} ]
            "#
        )
    };
    std::fs::write(&file, settings("http://127.0.0.1:8080")).unwrap();
    let said = program::run(&["check", file.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    std::fs::write(&file, settings("https://127.0.0.1:8080")).unwrap();
    let said = program::run(&["check", file.to_str().unwrap()]);
    assert_ne!(said.code, 0);
    let words = said.stdout + &said.stderr;
    assert!(words.contains("plugs.relay.rendezvous"), "{words}");
    assert!(words.contains("it is no origin of http://"), "{words}");
    assert!(
        words.contains("over TLS it goes by a node beside this one"),
        "{words}"
    );
}
