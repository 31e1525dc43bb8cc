//! Channels go on at another relay, and no subscriber misses a message or gets one twice.

use std::fs::{self, File};
use std::process::Stdio;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, curl, program};
use rustix::process::Signal;
use serde_json::Value;

use super::script::Script;
use super::{channel, subscriptions};

const KEY: &str = "a key of sixteen bytes or more";

/// A relay that takes channels over, with room for many.
pub(super) fn successor(key: &str) -> Node {
    Node::start(
        "successor",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            plugs: {{ relay: {{ key_file: {{ inline: "{key}" }} }} }}
            routes: [ {{ handle: {{ relay: {{ subscriptions: 20000, queue: 4MiB }} }} }} ]
            "#
        ),
    )
}

/// The document of a relay that hands its channels over to this one.
pub(super) fn document(to: &Node, more: &str) -> String {
    let place = to.address("web");
    format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
        plugs: {{ relay: {{ key_file: {{ inline: "{KEY}" }}, successor: "http://{place}"{more} }} }}
        routes:
          - {{ match: {{ port: {} }}, to: successor }}
          - {{ handle: {{ relay: {{ subscriptions: 20000, queue: 4MiB }} }} }}
        upstreams: {{ successor: {{ endpoints: ["{place}"] }} }}
        "#,
        place.port()
    )
}

fn moves(node: &Node) -> Value {
    node.status()["plugs"]["relay"]["moves"].clone()
}

/// Subscribers of both kinds, each of which checks that it gets every message once, in order; and a publisher that never pauses for
/// them. `EventSource` is that of browsers, by its specification (HTML, section 9.2): it knows nothing of relays.
const SUBSCRIBERS: &str = r#"
    const browser = async (opened, take) => {
        let id = "";
        let retry = 500;
        for (;;) {
            const headers = { accept: "text/event-stream" };
            if (id !== "") headers["last-event-id"] = id;
            const response = await fetch(process.argv[2], { headers, cache: "no-store" });
            if (response.status === 204) return;
            assert.equal(response.status, 200, "an EventSource ends for good");
            opened();
            let rest = "";
            let event = { data: [], name: "message" };
            const decoder = new TextDecoder();
            for await (const bytes of response.body) {
                const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
                rest = lines.pop();
                for (const line of lines) {
                    const [, key, value] = /^([^:]*):? ?(.*)$/.exec(line);
                    if (key === "id") id = value;
                    else if (key === "event") event.name = value;
                    else if (key === "data") event.data.push(value);
                    else if (key === "retry") retry = Number(value);
                    else if (line === "" && event.data.length > 0) {
                        take(event.name, event.data.join("\n"));
                        event = { data: [], name: "message" };
                    }
                }
            }
            await new Promise((wake) => setTimeout(wake, retry));
        }
    };
    const received = new Array(NATIVE + BROWSERS).fill(0);
    let failure;
    const next = (who, text) => {
        if (text !== String(received[who] + 1)) failure ??= `subscriber ${who}: ${text} behind ${received[who]}`;
        received[who] += 1;
    };
    const begun = [];
    for (let who = 0; who < NATIVE; who += 1) {
        begun.push(new Promise((opened) => (async () => {
            for await (const event of channel.subscribe({ opened })) {
                if (event.gap !== undefined) failure ??= `subscriber ${who}: ${event.gap} lost, ${event.reason}`;
                else next(who, event.text());
            }
            failure ??= `subscriber ${who} has ended`;
        })().catch((error) => (failure ??= error))));
    }
    for (let who = NATIVE; who < NATIVE + BROWSERS; who += 1) {
        const take = (name, text) => {
            if (name === "message") next(who, text);
            else if (name !== "moved" && name !== "heartbeat") failure ??= `browser ${who}: ${name} ${text}`;
        };
        begun.push(new Promise((opened) => browser(opened, take).catch((error) => (failure ??= error))));
    }
    await Promise.all(begun);
    console.log("all subscribe");
    for (let message = 1; message <= MESSAGES; message += 1) {
        const counts = await channel.publish(String(message), { reliable: true, wait: 20 });
        assert.deepEqual([counts.receivers, counts.dropped], [NATIVE + BROWSERS, 0], `message ${message}`);
        if (message % 20 === 0) console.log(`message ${message}.`);
        await new Promise((wake) => setTimeout(wake, 10));
    }
    while (failure === undefined && received.some((count) => count < MESSAGES)) {
        await new Promise((wake) => setTimeout(wake, 20));
    }
    assert.equal(failure, undefined);
    console.log("complete");
    setInterval(() => {}, 1000);
"#;

fn go_along(native: u64, browsers: u64, messages: u32) {
    let there = successor(KEY);
    let here = Node::start("here", &document(&there, ""));
    let script = SUBSCRIBERS
        .replace("NATIVE", &native.to_string())
        .replace("BROWSERS", &browsers.to_string())
        .replace("MESSAGES", &messages.to_string());
    let script = Script::begin(&channel(here.address("web")), &script);
    script.sees("message 20.");
    assert_eq!(subscriptions(&here), native + browsers);

    let (status, answer) = here.reload(&document(&there, ", move: true"));
    assert_eq!(status, 200, "{answer}");
    // Step by step: a thousand subscribers take their time.
    for message in (40..=messages).step_by(20) {
        script.sees(&format!("message {message}."));
    }
    script.sees("complete");
    assert_eq!(moves(&here)["moved"], 1, "{}", moves(&here));
    assert_eq!(moves(&here)["refusal"], Value::Null);
    eventually_true("all have left", || subscriptions(&here) == 0);
    assert_eq!(subscriptions(&there), native + browsers);

    // Who comes by the old name is sent there, and hears of the messages of all.
    let new = super::subscriber::Subscriber::begin(&channel(here.address("web")), &["-L"]);
    eventually_true("the other relay answers", || {
        new.head().contains("HTTP/1.1 200")
    });
    let published = curl(&["-d", "by the old name", &channel(here.address("web"))]);
    assert_eq!(
        published.text(),
        format!("receivers: {}\n", native + browsers + 1)
    );
    new.sees("by the old name");
}

#[test]
fn subscribers_of_both_kinds_go_along_with_every_message_once() {
    // A quiet machine may have more of them: HERMES_SUBSCRIBERS=1000,100
    let counts = std::env::var("HERMES_SUBSCRIBERS").unwrap_or_else(|_| "100,20".to_owned());
    let (native, browsers) = counts.split_once(',').unwrap();
    go_along(native.parse().unwrap(), browsers.parse().unwrap(), 200);
}

#[test]
fn a_relay_that_stops_hands_its_subscribers_over() {
    let there = successor(KEY);
    let mut here = Node::start("here", &document(&there, ""));
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let words = folder.path().join("words");
    let mut child = program::command()
        .args(["subscribe", &channel(here.address("web")), "--count", "40"])
        .stdin(Stdio::null())
        .stdout(File::create(&got).unwrap())
        .stderr(File::create(&words).unwrap())
        .spawn()
        .unwrap();
    let json = super::subscriber::Subscriber::begin(
        &channel(here.address("web")),
        &["-H", "Accept: application/x-ndjson"],
    );
    eventually_true("both subscribe", || subscriptions(&here) == 2);
    let publish = |node: &Node, message: u32| {
        let text = message.to_string();
        let got = curl(&["-d", &text, &channel(node.address("web"))]);
        assert_eq!(got.text(), "receivers: 2\n", "{message}");
    };
    (1..=20).for_each(|message| publish(&here, message));
    here.signal(Signal::TERM);
    here.wait();
    // The one whose stream has no way there knows the name of its subscription, which waits.
    let last = json.sees("\"moved\"");
    let moved = last
        .lines()
        .find(|line| line.contains("\"moved\""))
        .unwrap();
    let moved: Value = serde_json::from_str(moved).unwrap();
    (21..=40).for_each(|message| publish(&there, message));
    let again = super::subscriber::Subscriber::begin(
        moved["moved"].as_str().unwrap(),
        &["-H", "Accept: application/x-ndjson"],
    );
    let text = again.sees("\"seq\":40");
    assert!(text.starts_with("{\"seq\":21,"), "{text}");

    let status = child.wait().unwrap();
    assert!(status.success());
    let wanted: String = (1..=40).map(|message| format!("{message}\n")).collect();
    assert_eq!(fs::read_to_string(&got).unwrap(), wanted);
    let words = fs::read_to_string(&words).unwrap();
    assert!(!words.contains("lost"), "{words}");
}

#[test]
fn a_channel_whose_successor_refuses_goes_on_where_it_is() {
    let there = successor("another key of sixteen bytes");
    let here = Node::start("here", &document(&there, ""));
    let subscriber = super::subscriber::Subscriber::begin(&channel(here.address("web")), &[]);
    let (status, answer) = here.reload(&document(&there, ", move: true"));
    assert_eq!(status, 200, "{answer}");
    let refusal = eventually("the refusal", || {
        let moves = moves(&here);
        moves["refusal"].as_str().map(str::to_owned)
    });
    assert!(refusal.contains("403"), "{refusal}");
    let published = curl(&["-d", "still here", &channel(here.address("web"))]);
    assert_eq!(published.text(), "receivers: 1\n");
    subscriber.sees("still here");
    assert_eq!(subscriptions(&there), 0);
}

#[test]
fn no_one_without_the_key_begins_a_channel_at_numbers_of_his_choice() {
    let there = successor(KEY);
    let url = channel(there.address("web"));
    let ask = |field: &str| curl(&["-X", "POST", "-H", field, &url]).status;
    let grants = ["", "1.AAAA", "99999999999.AAAA", "x"];
    for grant in grants {
        let field = format!("Hermes-Move: hold=5, at=\"00c0ffee.7\", grant=\"{grant}\"");
        assert_eq!(ask(&field), 403, "{grant}");
    }
    assert_eq!(ask("Hermes-Move: hold=5, at=\"00c0ffee.7\""), 400);
    assert_eq!(ask("Hermes-Move: hold=x"), 400);
    let without = super::relay("");
    let url = channel(without.address("web"));
    let field = "Hermes-Move: hold=5, at=\"00c0ffee.7\", grant=\"1.AAAA\"";
    assert_eq!(curl(&["-X", "POST", "-H", field, &url]).status, 403);
    assert_eq!(subscriptions(&there) + subscriptions(&without), 0);
}
