//! Which endpoint another attempt goes to, and attempts beside each other.

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{Act, acting};

use super::{gateway, gateway_called, get, send};

#[test]
fn an_attempt_that_takes_too_long_is_followed_by_one_elsewhere() {
    let (slow, fast) = (acting(&[Act::Hang]), acting(&[Act::status(200, "")]));
    let node = gateway(
        &[slow.address(), fast.address()],
        ", retry: { on: reset, per_try_timeout: 100ms }",
    );
    assert_eq!(get(&node).0, 200);
    eventually_true("the first attempt is cancelled", || slow.seen().len() == 2);
    assert_eq!((slow.last().as_str(), fast.seen().len()), ("cancelled", 1));
    let record = node.record(|_| true);
    let tried = [slow.address().to_string(), fast.address().to_string()];
    assert_eq!(record["tried"], serde_json::json!(tried), "{record}");
    assert!(
        node.metrics()
            .contains(r#"hermes_retries_total{upstream="origin",reason="timeout"} 1"#)
    );
}

#[test]
fn a_post_that_takes_too_long_is_not_sent_elsewhere() {
    let (slow, fast) = (acting(&[Act::Hang]), acting(&[Act::status(200, "")]));
    let node = gateway(
        &[slow.address(), fast.address()],
        ", retry: { on: 5xx, per_try_timeout: 100ms }",
    );
    assert_eq!(
        (send(&node, "POST", b"content").0, fast.seen().len()),
        (504, 0)
    );
}

#[test]
fn every_endpoint_has_its_turn_before_one_is_asked_twice() {
    let origins = [(); 3].map(|()| acting(&[Act::status(503, "")]));
    let addresses = origins.each_ref().map(|origin| origin.address());
    let node = gateway(
        &addresses,
        ", balance: least_request, retry: { on: 5xx, attempts: 4 }",
    );
    assert_eq!(get(&node).0, 503);
    let mut seen = origins.each_ref().map(|origin| origin.seen().len());
    seen.sort_unstable();
    assert_eq!(seen, [1, 1, 2]);
}

#[test]
fn a_slow_response_is_overtaken_by_a_fast_one_elsewhere() {
    let (slow, fast) = (acting(&[Act::Hang]), acting(&[Act::status(200, "")]));
    let node = gateway(
        &[slow.address(), fast.address()],
        ", hedge: { after: 50ms }",
    );
    assert_eq!(get(&node).0, 200);
    eventually_true("the slow attempt is cancelled", || slow.seen().len() == 2);
    assert_eq!((slow.last().as_str(), fast.seen().len()), ("cancelled", 1));
    let record = node.record(|_| true);
    assert_eq!(
        (&record["attempts"], &record["endpoint"]),
        (&2.into(), &fast.address().to_string().into()),
        "{record}"
    );
    assert!(
        node.metrics()
            .contains(r#"hermes_retries_total{upstream="origin",reason="hedge"} 1"#)
    );
}

#[test]
fn a_response_in_time_is_alone() {
    let (one, other) = (
        acting(&[Act::status(200, "")]),
        acting(&[Act::status(200, "")]),
    );
    let node = gateway(&[one.address(), other.address()], ", hedge: { after: 10s }");
    assert_eq!(get(&node).0, 200);
    assert_eq!((one.seen().len(), other.seen().len()), (1, 0));
}

#[test]
fn a_failure_beside_a_slow_attempt_does_not_win() {
    let slow = hermes_tests::origins::http();
    let failing = acting(&[Act::status(500, "")]);
    let node = gateway(
        &[slow.address(), failing.address()],
        ", hedge: { after: 50ms }",
    );
    let asking = std::thread::scope(|scope| {
        let asked = scope.spawn(|| hermes_tests::curl(&[&format!("{}/hang", node.url("web"))]));
        eventually_true("both were asked", || {
            slow.seen().len() == 1 && failing.seen().len() == 1
        });
        slow.release();
        asked.join().unwrap()
    });
    assert_eq!((asking.status, asking.text().as_str()), (200, "released\n"));
}

#[test]
fn what_is_not_safe_is_never_sent_twice_at_once() {
    let origin = hermes_tests::origins::http();
    let other = acting(&[Act::status(200, "")]);
    let node = gateway(
        &[origin.address(), other.address()],
        ", hedge: { after: 1ms }, timeouts: { header: 500ms }",
    );
    let got = hermes_tests::curl(&["-X", "PUT", "-d", "x", &format!("{}/hang", node.url("web"))]);
    assert_eq!(
        (got.status, origin.seen().len(), other.seen().len()),
        (504, 1, 0),
        "{got:?}"
    );
}

#[test]
fn over_http_2_the_slow_attempt_is_reset_too() {
    let (slow, fast) = (acting(&[Act::Hang]), hermes_tests::origins::http());
    let inner = gateway_called("inner", &[slow.address()], "");
    let node = gateway(
        &[inner.address("web"), fast.address()],
        ", http: 2, hedge: { after: 50ms }",
    );
    assert_eq!(get(&node).0, 200);
    eventually_true("the slow attempt is cancelled", || slow.seen().len() == 2);
    assert_eq!((slow.last().as_str(), fast.seen().len()), ("cancelled", 1));
    inner.idle();
}

#[test]
fn as_many_attempts_stand_beside_each_other_as_the_policy_says() {
    let origins = [
        acting(&[Act::Hang]),
        acting(&[Act::Hang]),
        acting(&[Act::status(200, "")]),
    ];
    let addresses = origins.each_ref().map(|origin| origin.address());
    let node = gateway(&addresses, ", hedge: { after: 20ms, most: 3 }");
    assert_eq!(get(&node).0, 200);
    eventually_true("the others are cancelled", || {
        origins[..2]
            .iter()
            .all(|origin| origin.last() == "cancelled")
    });
    assert_eq!(
        (
            origins[2].seen().len(),
            node.record(|_| true)["attempts"].as_u64()
        ),
        (1, Some(3))
    );
}
