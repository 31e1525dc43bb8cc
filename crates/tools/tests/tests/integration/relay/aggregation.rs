//! A node on the way subscribes once for all its subscribers.

use std::process::Command;

use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};
use rustix::process::Signal;

use super::subscriber::Subscriber;
use super::{relay, subscriptions};

/// A node that joins the subscriptions to this relay, with this in its settings.
pub(super) fn aggregate(hub: &Node, settings: &str) -> Node {
    Node::start(
        "aggregate",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            functions: {{ join: {{ aggregate: {{ {settings} }} }} }}
            routes: [ {{ through: [join], to: hub }} ]
            upstreams: {{ hub: {{ endpoints: ["{}"] }} }}
            "#,
            hub.address("web")
        ),
    )
}

/// The channel is that of one name at each node.
const HOST: [&str; 2] = ["-H", "Host: hub.test"];

fn channel(node: &Node) -> String {
    super::channel(node.address("web"))
}

fn subscribe(node: &Node, arguments: &[&str]) -> Subscriber {
    Subscriber::begin(&channel(node), &[&HOST[..], arguments].concat())
}

/// The answer to a request of curl: its head and content.
fn curl(arguments: &[&str]) -> String {
    let program = std::env::var_os("HERMES_CURL").unwrap_or_else(|| "curl".into());
    let output = Command::new(program)
        .args(["-q", "-sSi", "--max-time", "20"])
        .args(HOST)
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Subscriptions of this node at a relay.
fn joined(node: &Node) -> u64 {
    let status = node.status();
    let joined = &status["plugs"]["relay"]["aggregated"];
    joined.as_u64().unwrap_or_default()
}

#[test]
fn twenty_subscribers_are_one_at_the_relay_and_all_are_counted() {
    let hub = relay("grace: 1s");
    let way = aggregate(&hub, "grace: 1s");
    let subscribers: Vec<_> = (0..20).map(|_| subscribe(&way, &[])).collect();
    assert_eq!(subscriptions(&hub), 1);
    assert_eq!(subscriptions(&way), 20);
    assert_eq!(joined(&way), 1);

    // The count comes up by itself, and says that it is one of another relay.
    let answer = eventually("20 receivers", || {
        let answer = curl(&["-d", "counted", &channel(&hub)]);
        answer.contains("receivers=20,").then_some(answer)
    });
    assert!(answer.contains("exact=?0"), "{answer}");
    let answer = curl(&["-d", "by the way", &channel(&way)]);
    assert!(
        answer.contains("receivers=20, enqueued=20, dropped=0"),
        "{answer}"
    );
    let direct = subscribe(&hub, &["-H", "Accept: application/x-ndjson"]);
    curl(&["-d", "last", &channel(&hub)]);
    let last = direct.sees("last");
    for subscriber in &subscribers {
        subscriber.sees("by the way\nlast\n");
    }
    drop(direct);

    // Numbers are those of the relay, wherever one subscribes.
    let late = subscribe(&way, &["-H", "Accept: application/x-ndjson"]);
    curl(&["-d", "numbered", &channel(&hub)]);
    let number = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
        line["seq"].as_u64().unwrap()
    };
    assert_eq!(number(&late.sees("numbered")), number(&last) + 1);

    drop(late);
    drop(subscribers);
    eventually_true("the last leaves, and so does the node", || {
        subscriptions(&hub) == 0 && joined(&way) == 0
    });
}

#[test]
fn the_first_refusal_is_everyones_and_a_refused_wish_for_longer_changes_nothing() {
    let hub = relay("max_timeout: 100s, timeout: 20s");
    let way = aggregate(&hub, "");
    let too_long = ["-H", "Hermes-Subscribe: timeout=101"];
    let refused = |url: &str| {
        let answer = curl(&[&too_long[..], &[url]].concat());
        assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
        assert!(answer.contains("max-timeout=100"), "{answer}");
    };
    refused(&channel(&way));
    refused(&channel(&way));
    assert_eq!(subscriptions(&hub), 0);

    let subscriber = subscribe(&way, &["-H", "Hermes-Subscribe: timeout=30"]);
    assert!(subscriber.field("hermes-subscribe").contains("timeout=30"));
    refused(&channel(&way));
    // One who wants to stay longer is let in, at the relay too.
    let longer = subscribe(&way, &["-H", "Hermes-Subscribe: timeout=90"]);
    assert_eq!(subscriptions(&hub), 1);
    let location = format!("http://{}{}", way.address("web"), longer.location());
    let wish = ["-X", "POST", &location];
    let answer = curl(&[&too_long[..], &wish].concat());
    assert!(answer.starts_with("HTTP/1.1 422"), "{answer}");
    curl(&["-d", "here", &channel(&way)]);
    subscriber.sees("here");
    longer.sees("here");
}

#[test]
fn users_are_not_joined_with_each_other() {
    let hub = relay("");
    let way = aggregate(&hub, "");
    let as_user = |user: &str| {
        let field = format!("Authorization: Bearer {user}");
        subscribe(&way, &["-H", &field])
    };
    let _all = [as_user("alice"), as_user("alice"), as_user("bob")];
    assert_eq!(subscriptions(&hub), 2);
}

#[test]
fn an_answer_that_is_no_channel_passes_as_it_is() {
    let hub = Node::start(
        "plain",
        r#"
        listeners: { web: { http: 127.0.0.1:0, gateway: true } }
        routes: [ { respond: { status: 203, body: "plain" } } ]
        "#,
    );
    let way = aggregate(&hub, "");
    let answer = curl(&[&channel(&way)]);
    assert!(answer.starts_with("HTTP/1.1 203"), "{answer}");
    assert!(answer.ends_with("plain"), "{answer}");
    assert_eq!(joined(&way), 0);
}

#[test]
fn subscribers_come_again_behind_a_relay_that_was_killed() {
    let place = hermes_tests::free::tcp();
    let yaml =
        format!("listeners: {{ web: {{ http: \"{place}\" }} }}\nroutes: [ {{ handle: relay }} ]\n");
    let mut hub = Node::start("hub", &yaml);
    let way = aggregate(&hub, "");
    let mut subscriber = subscribe(&way, &["-H", "Accept: text/event-stream"]);
    curl(&["-d", "before", &channel(&way)]);
    let before = subscriber.sees("before");
    hub.signal(Signal::KILL);
    hub.wait();
    hub.restart();
    // The relay has forgotten the channel: the stream ends, and a browser comes again with the name of its last event.
    let end = subscriber.ends();
    assert!(end.contains("event: end\ndata: stopping"), "{end}");
    let id = before.lines().find_map(|line| line.strip_prefix("id: "));
    let field = format!("Last-Event-ID: {}", id.unwrap());
    let arguments = ["-H", "Accept: text/event-stream", "-H", &field];
    let subscriber = subscribe(&way, &arguments);
    curl(&["-d", "after", &channel(&way)]);
    let text = subscriber.sees("after");
    assert!(text.contains("event: gap"), "{text}");
    assert!(text.contains("restarted"), "{text}");
}

#[test]
fn a_reliable_message_waits_for_a_reader_behind_the_node() {
    let hub = relay("queue: 64KiB, message: 64KiB");
    let way = aggregate(&hub, "queue: 64KiB, message: 64KiB");
    let fast = subscribe(&way, &["-H", "Accept: application/octet-stream"]);
    let slow = subscribe(&way, &["-H", "Accept: application/octet-stream"]);
    slow.pause();
    // More than the buffers of connections between it and the relay hold.
    const COUNT: usize = 400;
    let message = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(message.path(), vec![b'x'; 60_000]).unwrap();
    let data = format!("@{}", message.path().display());
    let url = channel(&hub);
    let sending = std::thread::spawn(move || {
        for _ in 0..COUNT {
            let mode = "Hermes-Publish: mode=reliable";
            let answer = curl(&[
                "-H",
                mode,
                "-H",
                "Prefer: wait=20",
                "--data-binary",
                &data,
                &url,
            ]);
            assert!(answer.contains("HTTP/1.1 200"), "{answer}");
        }
    });
    eventually_true("the publisher waits", || {
        let waits = |node: &Node| {
            let waiting = &node.status()["plugs"]["relay"]["waiting_bytes"];
            waiting.as_u64() >= Some(60_000)
        };
        waits(&way) && waits(&hub)
    });
    assert!(!sending.is_finished());
    slow.resume();
    sending.join().unwrap();
    for reader in [&fast, &slow] {
        eventually_true("all came", || reader.text().len() == COUNT * 60_000);
    }
}
