//! Receivers that are slow, publishers that wait, and the bounds of both.

use hermes_tests::curl;
use hermes_tests::eventually::eventually_true;

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
