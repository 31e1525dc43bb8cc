//! What retries may cost.

use hermes_tests::origins::{Act, acting};

use super::{gateway, get};

#[test]
fn a_dead_upstream_gets_no_storm() {
    let origin = acting(&[Act::status(503, "")]);
    let retry = ", retry: { on: 5xx, attempts: 10, backoff: { base: 0s, max: 0s }, budget: { ratio: 20%, min: 0 per second } }";
    let node = gateway(&[origin.address()], retry);
    for _ in 0..50 {
        assert_eq!(get(&node).0, 503);
    }
    assert_eq!(origin.seen().len(), 60, "a fifth more than was asked");
    let metrics = node.metrics();
    assert!(
        metrics.contains(r#"hermes_retry_budget_exhausted_total{upstream="origin"} 50"#),
        "{metrics}"
    );
}

#[test]
fn a_failure_that_the_budget_ends_says_so() {
    let origin = acting(&[Act::Reset]);
    let node = gateway(
        &[origin.address()],
        ", retry: { budget: { ratio: 0%, min: 0 per second } }",
    );
    let (status, fields, _) = get(&node);
    assert_eq!((status, origin.seen().len()), (502, 1));
    assert!(
        fields.contains("(1 attempt; the retry budget is exhausted)"),
        "{fields}"
    );
}

#[test]
fn hedges_are_paid_from_the_same_budget() {
    let (slow, fast) = (
        hermes_tests::origins::http(),
        acting(&[Act::status(200, "")]),
    );
    let keys = ", hedge: { after: 1ms }, retry: { budget: { ratio: 0%, min: 0 per second } }, timeouts: { header: 300ms }";
    let node = gateway(&[slow.address(), fast.address()], keys);
    let got = hermes_tests::curl(&[&format!("{}/hang", node.url("web"))]);
    assert_eq!((got.status, fast.seen().len()), (504, 0), "{got:?}");
}
