//! Messages that are too long to be kept: they pass in pieces, and are never whole at the relay.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{curl, program};

use super::aggregation::aggregate;
use super::script::Script;
use super::subscriber::Subscriber;
use super::versions::{Hub, gate};
use super::{channel, relay, subscriptions};
use crate::http3::overlay::VERSIONS;

const RELIABLE: [&str; 2] = ["-H", "Hermes-Publish: mode=reliable"];

/// Bytes that no two pieces have in common.
fn file(folder: &Path, bytes: usize) -> String {
    let file = folder.join("long");
    let mut content = Vec::with_capacity(bytes + 8);
    for number in 0..bytes.div_ceil(8) as u64 {
        content.extend(number.to_le_bytes());
    }
    content.truncate(bytes);
    fs::write(&file, content).unwrap();
    file.display().to_string()
}

/// `hermes subscribe`, whose output is a file.
fn subscribe(url: &str, arguments: &[&str], output: &Path) -> Child {
    program::command()
        .args(["subscribe", url])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(File::create(output).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_message_of_100_mb_passes_through_a_node_that_stays_small() {
    const BYTES: usize = 100_000_000;
    /// Its queues, and buffers of its connections.
    const MOST: usize = 48 << 20;

    let folder = tempfile::tempdir().unwrap();
    let sent = file(folder.path(), BYTES);
    let node = relay("");
    let url = channel(node.address("web"));
    let got = folder.path().join("got");
    let mut reader = subscribe(&url, &["--count", "1"], &got);
    let lines = Subscriber::begin(&url, &["-H", "Accept: application/x-ndjson"]);
    let octets = Subscriber::begin(&url, &["-H", "Accept: application/octet-stream"]);
    eventually_true("three subscribe", || subscriptions(&node) == 3);
    let before = node.peak();

    let answer = curl(&[&RELIABLE[..], &["-T", &sent, &url]].concat());
    assert_eq!(answer.status, 200, "{answer:?}");
    let counts = answer.field("hermes-delivered").unwrap();
    assert!(
        counts.starts_with("receivers=3, enqueued=1, dropped=2"),
        "{counts}"
    );
    assert!(reader.wait().unwrap().success());
    assert!(fs::read(&got).unwrap() == fs::read(&sent).unwrap());
    let grown = node.peak() - before;
    assert!(grown < MOST, "{grown} bytes");

    // Who takes no pieces is told so, or its content breaks off.
    curl(&["-d", "short", &url]);
    let told = lines.sees("short");
    let told = told.lines().filter(|line| !line.contains("heartbeat"));
    let told: Vec<_> = told.collect();
    assert_eq!(told[0], "{\"gap\":1,\"reason\":\"long\"}");
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(octets.text(), "");
}

#[test]
fn a_long_message_comes_whole_over_each_version() {
    let hub = Hub::start("message: 64KiB, grace: 1s");
    let folder = tempfile::tempdir().unwrap();
    let sent = file(folder.path(), 5_000_000);
    for version in VERSIONS {
        let way = hub.way(version);
        let url = format!("http://relay.test/c/{version}");
        let got = folder.path().join("got");
        let proxy = way.url("web");
        let mut reader = subscribe(&url, &["--count", "1", "--proxy", &proxy], &got);
        eventually_true("it subscribes", || subscriptions(&hub.node) == 1);
        let answer = curl(&[&RELIABLE[..], &["-x", &proxy, "-T", &sent, &url]].concat());
        assert_eq!(answer.text(), "receivers: 1\n", "{answer:?}");
        assert!(reader.wait().unwrap().success());
        assert!(fs::read(&got).unwrap() == fs::read(&sent).unwrap());
        eventually_true("it has left", || {
            curl(&["-x", &proxy, "-d", "x", &url]);
            let records = hub.node.access();
            let ended = records.iter().filter(|record| record["method"] == "GET");
            ended.count() == usize::from(version)
        });
        eventually_true("its grace is over", || subscriptions(&hub.node) == 0);
    }
}

#[test]
fn what_may_not_pass_in_pieces_is_refused_with_the_reason() {
    let node = relay("message: 1KiB, long_message: 1MiB");
    let url = channel(node.address("web"));
    let _reader = Subscriber::begin(&url, &["-H", "Accept: application/hermes-adu"]);
    let folder = tempfile::tempdir().unwrap();
    let sent = file(folder.path(), 100_000);
    let refused = curl(&["-T", &sent, &url]);
    assert_eq!(refused.status, 413);
    assert!(refused.text().contains("mode `reliable`"), "{refused:?}");
    assert_eq!(
        curl(&[&RELIABLE[..], &["-T", &sent, &url]].concat()).status,
        200
    );
    // One with a number would have to be remembered whole.
    let numbered = [
        "-H",
        "Hermes-Publish: mode=reliable, seq=7",
        "-T",
        &sent,
        &url,
    ];
    assert_eq!(curl(&numbered).status, 413);
    let sent = file(folder.path(), 2 << 20);
    assert_eq!(
        curl(&[&RELIABLE[..], &["-T", &sent, &url]].concat()).status,
        413
    );
}

#[test]
fn a_publisher_that_breaks_off_in_the_midst_is_told_and_the_channel_goes_on() {
    let node = relay("message: 1KiB");
    let url = channel(node.address("web"));
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let mut reader = subscribe(&url, &["--json"], &got);
    let saw = |wanted: &str| fs::read_to_string(&got).unwrap().contains(wanted);
    eventually_true("it subscribes", || subscriptions(&node) == 1);
    let mut publisher = Raw::connect(node.address("web"));
    let host = node.address("web");
    publisher.send(format!(
        "POST /c/x HTTP/1.1\r\nHost: {host}\r\nHermes-Publish: mode=reliable\r\nContent-Length: 100000\r\n\r\n"
    ));
    publisher.send(vec![b'x'; 50_000]);
    eventually_true("it begins", || saw("\"more\":true"));
    // Another one waits for its turn: nothing comes between the pieces.
    let other = url.clone();
    let waiting = std::thread::spawn(move || curl(&["-d", "behind it", &other]).text());
    publisher.reset();
    eventually_true("the end is told", || saw("aborted"));
    assert_eq!(waiting.join().unwrap(), "receivers: 1\n");
    eventually_true("the next one comes", || saw("behind it"));
    let text = fs::read_to_string(&got).unwrap();
    assert!(text.find("aborted") < text.find("behind it"), "{text}");
    reader.kill().unwrap();
    reader.wait().unwrap();
}

#[test]
fn a_script_gets_a_long_message_in_pieces() {
    let hub = Hub::start("message: 64KiB");
    let way = hub.way(2);
    let script = Script::begin(
        &gate(&way),
        r#"
        const opened = () => console.log("open");
        const pieces = [];
        for await (const event of channel.subscribe({ opened })) {
            assert.equal(event.gap, undefined);
            pieces.push(event);
            if (!event.more) break;
        }
        const length = pieces.reduce((sum, { data }) => sum + data.length, 0);
        assert.deepEqual([pieces[0].seq, length, pieces.length > 2], [1, 1000000, true]);
        "#,
    );
    script.sees("open");
    let folder = tempfile::tempdir().unwrap();
    let sent = file(folder.path(), 1_000_000);
    let url = channel(way.address("gate"));
    assert_eq!(
        curl(&[&RELIABLE[..], &["-T", &sent, &url]].concat()).status,
        200
    );
    script.ends();
}

#[test]
fn a_long_message_passes_through_a_node_that_subscribes_for_others() {
    const BYTES: usize = 40_000_000;
    /// Its queues, and buffers of its connections.
    const MOST: usize = 24 << 20;

    let hub = relay("grace: 1s");
    let way = aggregate(&hub, "");
    let url = channel(way.address("web"));
    let folder = tempfile::tempdir().unwrap();
    let sent = file(folder.path(), BYTES);
    let got = ["one", "two"].map(|name| folder.path().join(name));
    let mut readers = got
        .each_ref()
        .map(|got| subscribe(&url, &["--count", "1"], got));
    let lines = Subscriber::begin(&url, &["-H", "Accept: application/x-ndjson"]);
    eventually_true("three subscribe", || subscriptions(&way) == 3);
    assert_eq!(subscriptions(&hub), 1);
    let before = way.peak();

    let answer = curl(&[&RELIABLE[..], &["-T", &sent, &url]].concat());
    assert_eq!(answer.status, 200, "{answer:?}");
    for (reader, got) in readers.iter_mut().zip(&got) {
        assert!(reader.wait().unwrap().success());
        assert!(fs::read(got).unwrap() == fs::read(&sent).unwrap());
    }
    let grown = way.peak() - before;
    assert!(grown < MOST, "{grown} bytes");
    curl(&["-d", "short", &url]);
    let told = lines.sees("short");
    assert!(told.contains("{\"gap\":1,\"reason\":\"long\"}"), "{told}");
}

#[test]
fn a_message_that_breaks_off_before_a_node_is_told_behind_it() {
    let mut hub = relay("message: 1KiB");
    let way = aggregate(&hub, "message: 1KiB, grace: 1s");
    let url = channel(way.address("web"));
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let mut reader = subscribe(&url, &["--json"], &got);
    let saw = |wanted: &str| fs::read_to_string(&got).unwrap().contains(wanted);
    eventually_true("it subscribes", || subscriptions(&hub) == 1);
    let begin = || {
        let host = way.address("web");
        let mut publisher = Raw::connect(host);
        publisher.send(format!(
            "POST /c/x HTTP/1.1\r\nHost: {host}\r\nHermes-Publish: mode=reliable\r\nContent-Length: 100000\r\n\r\n"
        ));
        publisher.send(vec![b'x'; 50_000]);
        publisher
    };
    let publisher = begin();
    eventually_true("it begins", || saw("\"more\":true"));
    publisher.reset();
    eventually_true("the end is told", || saw("aborted"));
    assert_eq!(curl(&["-d", "behind it", &url]).text(), "receivers: 1\n");
    eventually_true("the next one comes", || saw("behind it"));

    // The same where the way to the relay breaks off.
    let pieces = || {
        let text = fs::read_to_string(&got).unwrap();
        text.matches("\"more\":true").count()
    };
    let before = pieces();
    let _publisher = begin();
    eventually_true("another begins", || pieces() > before);
    hub.signal(rustix::process::Signal::KILL);
    hub.wait();
    eventually_true("its end is told, too", || {
        let text = fs::read_to_string(&got).unwrap();
        text.matches("aborted").count() == 2
    });
    reader.kill().unwrap();
    reader.wait().unwrap();
}
