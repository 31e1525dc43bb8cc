//! Decisions that find room, and those that do not.

use serde_json::{Value, json};

use super::*;
use crate::AccessSink;

fn queued(telemetry: &Telemetry) -> usize {
    telemetry.decisions.far.lock().as_ref().unwrap().len()
}

/// A short decision about an exchange of this user.
fn of(user: &str) -> DecisionLine {
    DecisionLine::new(&json!({ "decision_id": "a" })).owned_by(Owner::User(user.into()))
}

#[test]
fn who_has_decisions_without_end_leaves_room_for_others_and_what_is_lost_is_counted() {
    let telemetry = Telemetry::new("alice", AccessSink::off());
    for _ in 0..QUEUE + 3 {
        telemetry.post_decision(of("greedy"));
    }
    let greedy = queued(&telemetry);
    assert!((QUEUE / 4..QUEUE * 3 / 4).contains(&greedy), "{greedy}");
    for _ in 0..100 {
        telemetry.post_decision(of("bob"));
    }
    assert_eq!(queued(&telemetry), greedy + 100);

    let text = telemetry.metrics_text();
    let lost = QUEUE + 3 - greedy;
    let lost = format!("hermes_decisions_logged_total{{outcome=\"queue_full\"}} {lost}\n");
    assert!(text.contains(&lost), "{text}");
    assert!(text.contains("hermes_decisions_logged_total{outcome=\"logged\"} 0\n"));
}

#[test]
fn a_queue_of_long_decisions_is_bounded_in_bytes() {
    let telemetry = Telemetry::new("a", AccessSink::off());
    let long = "x".repeat(16 * 1024);
    for _ in 0..QUEUE {
        telemetry.post_decision(DecisionLine::new(&long));
    }
    let bytes = queued(&telemetry) * long.len();
    assert!((QUEUE_BYTES / 4..=QUEUE_BYTES).contains(&bytes), "{bytes}");

    // Lines that were taken have given their room back.
    while let Ok(line) = telemetry.decisions.far.lock().as_mut().unwrap().try_recv() {
        drop(line);
    }
    telemetry.post_decision(DecisionLine::new(&long));
    assert_eq!(queued(&telemetry), 1);
}

#[test]
fn a_file_that_takes_nothing_leaves_room_for_decisions_about_others() {
    let telemetry = Telemetry::new("a", AccessSink::off());
    let (reader, writer) = io::pipe().unwrap();
    let place = Place::Other(Box::new(writer));
    *telemetry.decisions.file.write() =
        Writer::start(Some(place), telemetry.decisions.fates.clone());
    let lost = || telemetry.decisions.fates.crowded_out.get();
    for _ in 0..QUEUE * 2 {
        telemetry.write_decision(of("greedy"));
    }
    let before = lost();
    assert!(before > 0);
    (0..100).for_each(|_| telemetry.write_decision(of("bob")));
    assert_eq!(lost(), before);
    drop(reader);
}

#[test]
fn a_file_gets_a_line_for_each_decision_and_a_new_one_is_begun_where_it_was_moved() {
    let folder = tempfile::tempdir().unwrap();
    let limit = Duration::from_secs(20);
    let path = folder.path().join("decisions.json");
    let old = folder.path().join("decisions.json.1");
    let telemetry = Telemetry::new("alice", AccessSink::off());
    // Without a place, nothing is kept for one.
    telemetry.write_decision(DecisionLine::new(&json!({ "decision_id": "lost" })));

    telemetry.redirect_decisions(Some(&path)).unwrap();
    telemetry.write_decision(DecisionLine::new(&json!({ "decision_id": "\u{9b}a" })));
    assert!(telemetry.flush_decisions(limit));
    std::fs::rename(&path, &old).unwrap();
    telemetry.reopen_decisions();
    telemetry.write_decision(DecisionLine::new(&json!({ "decision_id": "b" })));
    assert!(telemetry.flush_decisions(limit));

    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&old), "{\"decision_id\":\"\\u009ba\"}\n");
    assert_eq!(read(&path), "{\"decision_id\":\"b\"}\n");
    let text = telemetry.metrics_text();
    assert!(text.contains("hermes_decisions_logged_total{outcome=\"logged\"} 2\n"));
}

#[test]
fn a_batch_is_one_list() {
    let lines = ["a", "b"].map(|id| DecisionLine::new(&json!({ "decision_id": id })));
    let bytes = upload::compressed(&lines).unwrap();
    let list: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&*bytes)).unwrap();
    assert_eq!(
        list,
        json!([{ "decision_id": "a" }, { "decision_id": "b" }])
    );
}
