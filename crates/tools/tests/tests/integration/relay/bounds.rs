//! Receivers that are slow, publishers that wait, and the bounds of both.

use hermes_tests::curl;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;

use super::subscriber::Subscriber;
use super::{channel, relay, subscriptions};

/// A message, larger than the buffers of a connection take many of.
const LARGE: usize = 256 * 1024;

fn large(folder: &std::path::Path) -> String {
    let file = folder.join("large");
    std::fs::write(&file, vec![b'x'; LARGE]).unwrap();
    format!("@{}", file.display())
}

#[test]
fn a_slow_reader_loses_messages_alone_and_hears_how_many() {
    let node = relay("queue: 600KiB");
    let url = channel(node.address("web"));
    let folder = tempfile::tempdir().unwrap();
    let message = large(folder.path());
    let form = ["-H", "Accept: application/x-ndjson"];
    let slow = Subscriber::begin(&url, &form);
    let fast = Subscriber::begin(&url, &form);
    slow.pause();

    let mut lost = 0;
    let mut sent = 0;
    while lost < 3 {
        let answer = curl(&["--data-binary", &message, &url]);
        let delivered = answer.field("hermes-delivered").unwrap();
        assert!(delivered.starts_with("receivers=2, "), "{delivered}");
        lost += usize::from(delivered.contains("dropped=1"));
        sent += 1;
        assert!(sent < 200, "buffers take everything");
        // The fast one has taken it, so that it has room for the next.
        eventually_true("the fast reader takes all", || {
            fast.text().matches("\"seq\":").count() == sent
        });
    }
    slow.resume();
    let told = slow.sees("\"reason\":\"full\"");
    assert!(told.contains("{\"gap\":3,"), "the gap is told as one");
    assert!(!fast.text().contains("gap"));
}

#[test]
fn a_reliable_message_waits_for_room_and_otherwise_goes_to_no_one() {
    let node = relay("queue: 600KiB");
    let url = channel(node.address("web"));
    let folder = tempfile::tempdir().unwrap();
    let message = large(folder.path());
    let publish = |wait: &str| {
        let wait = format!("Prefer: wait={wait}");
        let reliable = "Hermes-Publish: mode=reliable";
        curl(&["-H", reliable, "-H", &wait, "--data-binary", &message, &url])
    };
    let form = ["-H", "Accept: application/x-ndjson"];
    let slow = Subscriber::begin(&url, &form);
    slow.pause();
    let mut sent = 0;
    let refused = loop {
        let answer = publish("1");
        if answer.status != 200 {
            break answer;
        }
        sent += 1;
        assert!(sent < 200, "buffers take everything");
    };
    assert_eq!(refused.status, 503);
    let delivered = refused.field("hermes-delivered").unwrap();
    assert!(
        delivered.starts_with("receivers=1, enqueued=0"),
        "{delivered}"
    );

    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| publish("30"));
        slow.resume();
        assert_eq!(waiting.join().unwrap().status, 200);
    });
    let all = slow.sees(&format!("\"seq\":{}", sent + 1));
    assert!(!all.contains("gap"));
}

#[test]
fn a_message_that_is_sent_again_is_delivered_once() {
    let node = relay("");
    let url = channel(node.address("web"));
    let subscriber = Subscriber::begin(&url, &[]);
    for _ in 0..3 {
        let sent = curl(&["-H", "Hermes-Publish: seq=7", "-d", "once", &url]);
        assert_eq!(sent.text(), "receivers: 1\n");
    }
    curl(&["-H", "Hermes-Publish: seq=8", "-d", "then", &url]);
    assert_eq!(subscriber.sees("then\n"), "once\nthen\n");
}

#[test]
fn messages_and_subscriptions_are_bounded() {
    let node = relay("message: 1KiB, subscriptions: 2");
    let url = channel(node.address("web"));
    let folder = tempfile::tempdir().unwrap();
    let sent = curl(&["--data-binary", &large(folder.path()), &url]);
    assert_eq!(sent.status, 413);

    let first = Subscriber::begin(&url, &[]);
    let _second = Subscriber::begin(&url, &[]);
    let third = curl(&[&url]);
    assert_eq!(third.status, 429);
    assert!(third.field("retry-after").is_some());
    drop(first);
    eventually_true("the first is gone", || subscriptions(&node) == 1);
    Subscriber::begin(&url, &[]);
}

#[test]
fn readers_that_stop_hold_no_more_than_their_owners_share_and_others_go_on() {
    /// Bytes of messages of one owner.
    const OWNER: u64 = 16 << 20;

    let node = relay("queue: 16MiB");
    let address = node.address("web");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("message");
    std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    let message = format!("@{}", file.display());
    let url = |number: usize| format!("http://{address}/c/{number}");
    let readers: Vec<_> = (0..40)
        .map(|number| {
            let mut reader = Raw::connect_narrow(address);
            let head = format!("GET /c/{number} HTTP/1.1\r\nHost: {address}\r\n\r\n");
            reader.send(head);
            assert_eq!(reader.head().status(), 200);
            reader
        })
        .collect();

    // Until the account of this source is full: then its messages are lost, or not taken at all.
    let lost = (0..4 * readers.len()).any(|number| {
        let sent = curl(&["--data-binary", &message, &url(number % readers.len())]);
        sent.status == 503 || sent.text().contains("lost for want of room: 1")
    });
    assert!(lost, "readers that stop hold whatever comes");
    let status = node.status();
    let waiting = status["plugs"]["relay"]["waiting_bytes"].as_u64().unwrap();
    assert!(waiting <= OWNER, "{waiting} bytes wait");

    let other = ["--interface", "127.0.0.2"];
    let url = url(1000);
    let subscriber = Subscriber::begin(&url, &other);
    let arguments = [&other[..], &["-d", "still here", &url]].concat();
    assert_eq!(curl(&arguments).text(), "receivers: 1\n");
    subscriber.sees("still here\n");
    drop(readers);
    eventually_true("what readers held is given back", || {
        node.status()["plugs"]["relay"]["waiting_bytes"] == 0
    });
}

#[test]
fn the_name_of_a_subscription_is_in_no_log() {
    let node = relay("");
    let subscriber = Subscriber::begin(&channel(node.address("web")), &[]);
    let location = subscriber.location();
    let uri = format!("http://{}{location}", node.address("web"));
    assert_eq!(curl(&["-X", "POST", &uri]).status, 204);
    assert_eq!(curl(&["-X", "DELETE", &uri]).status, 204);
    let (_, name) = location.split_once("s=").unwrap();
    eventually_true("all is recorded", || node.access().len() == 3);
    let records = format!("{:?}{}", node.access(), node.log());
    assert!(!records.contains(name), "{records}");
}

/// The length of a message, and how many of them are more than waits for one owner, with what the buffers of a connection take.
const MEBIBYTE: usize = 1 << 20;
const MORE_THAN_WAITS: usize = 32;

#[test]
fn a_stream_of_messages_waits_where_those_that_wait_fill_the_share_of_its_owner() {
    let node = relay("queue: 16MiB");
    let url = channel(node.address("web"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("messages");
    // A capsule: its type, a length of four bytes, a sequence, flags and the content.
    let mut message = vec![0xad, 0x7c, 0x51, 0xc0, 0x80, 0x10, 0x00, 0x02, 0, 0];
    message.resize(message.len() + MEBIBYTE, b'x');
    std::fs::write(&file, message.repeat(MORE_THAN_WAITS)).unwrap();
    let slow = Subscriber::begin(&url, &["-H", "Accept: application/octet-stream"]);
    slow.pause();

    let waiting = || {
        let status = node.status();
        let bytes = &status["plugs"]["relay"]["waiting_bytes"];
        bytes.as_u64().unwrap_or_default()
    };
    let publish = || {
        curl(&[
            "-H",
            "Content-Type: application/hermes-adu",
            "-H",
            "Hermes-Publish: mode=reliable",
            "-H",
            "Prefer: wait=50",
            "-T",
            file.to_str().unwrap(),
            "-X",
            "POST",
            &url,
        ])
    };
    std::thread::scope(|threads| {
        let publishing = threads.spawn(publish);
        eventually_true("the share is full", || waiting() > 14 << 20);
        assert!(!publishing.is_finished());
        slow.resume();
        let answer = publishing.join().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let delivered = answer.field("hermes-delivered").unwrap();
        assert!(
            delivered.starts_with("receivers=1, enqueued=32, dropped=0"),
            "{delivered}"
        );
    });
    let whole = (MORE_THAN_WAITS * MEBIBYTE) as u64;
    eventually_true("all came", || slow.length() == whole);
}
