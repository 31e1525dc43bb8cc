//! A rendezvous and its relays: heartbeats and grants that are forged or repeated, relays that claim everything, and redirects without end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl, free, program};

use super::{Asking, post};

const KEY: &str = "a key of sixteen bytes or more";

/// Relays of one rendezvous (docs/relay.md).
const RELAYS: u64 = 1000;

fn rendezvous() -> Node {
    Node::start(
        "rendezvous",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            plugs: {{ relay: {{ key_file: {{ inline: "{KEY}" }} }} }}
            routes: [ {{ handle: {{ rendezvous: {{ lost_after: 1s }} }} }} ]
            "#
        ),
    )
}

/// A relay that serves those whom this rendezvous sends.
fn member(of: &Node) -> Node {
    let place = free::tcp();
    let meeting = of.address("web");
    Node::start(
        "relay",
        &format!(
            r#"
            listeners: {{ web: {{ http: "{place}", gateway: true }} }}
            plugs:
              relay:
                key_file: {{ inline: "{KEY}" }}
                at: "http://{place}"
                rendezvous: ["http://{meeting}"]
                beat: 200ms
                grants: true
            routes: [ {{ handle: relay }} ]
            "#
        ),
    )
}

fn heard(node: &Node) -> u64 {
    let status = node.status();
    let relays = &status["plugs"]["relay"]["rendezvous"]["relays"];
    relays.as_u64().unwrap_or_default()
}

/// A heartbeat as a relay with this key makes it (docs/relay.md).
fn heartbeat(key: &str, relay: &str, time: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let text = format!("hermes relay heartbeat\n{time}\n{relay}");
    let mac = URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes()).as_ref());
    let field = format!("Hermes-Heartbeat: relay=\"{relay}\", time={time}, mac=\"{mac}\"\r\n");
    post("/", &field, "")
}

fn milliseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap().as_millis()).unwrap()
}

/// Someone else finds a relay, and is served there.
fn others_are_served(meeting: &Node, channel: &str) {
    let url = format!("http://{}/c/{channel}", meeting.address("web"));
    let answer = curl(&["-L", "-d", "x", &url]);
    assert_eq!(answer.text(), "no receivers\n", "{answer:?}");
}

#[test]
fn heartbeats_that_are_forged_or_repeated_bring_no_relay() {
    let meeting = rendezvous();
    let _relay = member(&meeting);
    eventually_true("the relay is heard", || heard(&meeting) == 1);
    let before = meeting.peak();
    let mut asking = Asking::new(&meeting);
    let mut status = |request: &str| asking.status(request);
    // One that was heard on the way, of a relay that is gone since.
    let begun = milliseconds();
    let genuine = heartbeat(KEY, "gone.test:80", begun);
    assert_eq!(status(&genuine), 204);
    for round in 0..100 {
        let name = format!("evil{round}.test:80");
        let time = milliseconds();
        assert_eq!(
            status(&heartbeat("another key of this length", &name, time)),
            403
        );
        assert_eq!(status(&genuine), 403);
        assert_eq!(status(&heartbeat(KEY, "gone.test:80", begun - 1)), 403);
        for wrong in [time - 120_000, time + 120_000] {
            assert_eq!(status(&heartbeat(KEY, &name, wrong)), 403);
        }
        // The signature covers the time, too.
        let later = genuine.replace(&begun.to_string(), &(begun + 1).to_string());
        assert_eq!(status(&later), 403);
    }
    let long = format!("{}:80", "x".repeat(300));
    assert_eq!(status(&heartbeat(KEY, &long, milliseconds())), 403);
    eventually_true("it stays gone", || heard(&meeting) == 1);
    assert_eq!(status(&genuine), 403);
    others_are_served(&meeting, "bystander");
    assert!(meeting.peak() - before < super::COST);
}

#[test]
fn a_relay_that_claims_to_be_very_many_puts_out_no_other() {
    let meeting = rendezvous();
    let _relay = member(&meeting);
    eventually_true("the relay is heard", || heard(&meeting) == 1);
    let mut asking = Asking::new(&meeting);
    let mut refused = 0;
    for number in 0..RELAYS + 500 {
        let name = format!("claimed{number}.test:80");
        let status = asking.status(heartbeat(KEY, &name, milliseconds()));
        refused += u64::from(status == 403);
    }
    assert_eq!(refused, 501);
    assert!(heard(&meeting) <= RELAYS);
    // Once it is silent its names are no relays, and the one that is there has all channels.
    eventually_true("only the other is left", || heard(&meeting) == 1);
    for channel in 0..20 {
        others_are_served(&meeting, &channel.to_string());
    }
}

#[test]
fn grants_that_are_forged_open_no_channel() {
    let meeting = rendezvous();
    let relay = member(&meeting);
    eventually_true("the relay is heard", || heard(&meeting) == 1);
    let url = format!("http://{}/c/known", meeting.address("web"));
    let location = curl(&["-d", "x", &url]).field("location").unwrap();
    let (_, grant) = location.split_once("g=").unwrap();
    let mut asking = Asking::new(&relay);
    let longer = grant.replacen(|letter: char| letter.is_ascii_digit(), "9", 1);
    for round in 0..100 {
        let forged = [
            format!("/c/secret{round}?g={grant}"),
            format!("/c/known?g={longer}"),
            format!("/c/known?g={round}.AAAA"),
            format!("/c/known?g={}", "9".repeat(4000)),
            format!("/c/known/more?g={grant}"),
        ];
        for path in forged {
            assert_eq!(asking.status(post(&path, "", "x")), 403, "{path}");
        }
        // Where none is shown, the way to the rendezvous is.
        assert_eq!(asking.status(post("/c/secret", "", "x")), 307);
        if round == 50 {
            others_are_served(&meeting, "bystander");
        }
    }
    others_are_served(&meeting, "bystander");
}

/// A server that sends each client back to itself.
fn circle() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let answer = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{address}/c/x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn redirects_in_a_circle_end_at_the_client() {
    let url = format!("http://{}/c/x", circle());
    for arguments in [&["publish", &url, "x"][..], &["subscribe", &url]] {
        let said = program::run(arguments);
        assert!(said.code != 0, "{arguments:?}");
        assert!(
            said.stderr.contains("from one to another"),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn two_relays_that_hand_over_to_each_other_serve_and_stay_small() {
    let places = [free::tcp(), free::tcp()];
    let yaml = |own: SocketAddr, other: SocketAddr, more: &str| {
        format!(
            r#"
            listeners: {{ web: {{ http: "{own}", gateway: true }} }}
            plugs: {{ relay: {{ key_file: {{ inline: "{KEY}" }}, successor: "http://{other}"{more} }} }}
            routes:
              - {{ match: {{ port: {} }}, to: other }}
              - {{ handle: relay }}
            upstreams: {{ other: {{ endpoints: ["{other}"] }} }}
            "#,
            other.port()
        )
    };
    let [first, second] = places;
    let nodes = [
        Node::start("first", &yaml(first, second, "")),
        Node::start("second", &yaml(second, first, "")),
    ];
    let url = format!("http://{first}/c/x");
    let before: usize = nodes.iter().map(Node::peak).sum();
    for (node, document) in nodes.iter().zip([
        yaml(first, second, ", move: true"),
        yaml(second, first, ", move: true"),
    ]) {
        let (status, report) = node.reload(&document);
        assert_eq!(status, 200, "{report}");
    }
    for round in 0..10 {
        // Whatever each of them says, it says so: a client is not kept, nor sent round for ever.
        let answer = curl(&["-d", "x", "--max-time", "20", &url]);
        assert!(matches!(answer.status, 200 | 502), "{round}: {answer:?}");
    }
    let grown = nodes.iter().map(Node::peak).sum::<usize>() - before;
    assert!(grown < super::COST, "{grown} bytes");
    for node in &nodes {
        assert!(!node.log().contains("panicked"), "{}", node.log());
    }
}
