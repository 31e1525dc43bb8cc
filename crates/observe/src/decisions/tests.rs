//! Decisions that find room, and those that do not.

use serde_json::{Value, json};

use super::*;
use crate::AccessSink;

#[test]
fn a_full_queue_costs_decisions_which_are_counted() {
    let telemetry = Telemetry::new("alice", AccessSink::off());
    let line = DecisionLine::new(&json!({ "decision_id": "a" }));
    for _ in 0..QUEUE + 3 {
        telemetry.post_decision(line.clone());
    }

    assert_eq!(
        telemetry.decisions.far.lock().as_ref().unwrap().len(),
        QUEUE
    );
    let text = telemetry.metrics_text();
    assert!(text.contains("hermes_decisions_logged_total{outcome=\"queue_full\"} 3\n"));
    assert!(text.contains("hermes_decisions_logged_total{outcome=\"logged\"} 0\n"));
}

#[test]
fn a_queue_of_long_decisions_is_bounded_in_bytes() {
    let telemetry = Telemetry::new("a", AccessSink::off());
    let long = "x".repeat(16 * 1024);
    for _ in 0..QUEUE {
        telemetry.post_decision(DecisionLine::new(&long));
    }
    let queued = telemetry.decisions.posted_bytes.load(Ordering::Relaxed);
    assert!(
        (QUEUE_BYTES / 2..=QUEUE_BYTES).contains(&queued),
        "{queued}"
    );

    drop(telemetry.decisions.far.lock().take());
    telemetry.post_decision(DecisionLine::new(&1));
    assert_eq!(telemetry.decisions.posted_bytes.load(Ordering::Relaxed), 0);
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
