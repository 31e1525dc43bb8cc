//! Checks of retries and hedges.

use serde_json::json;

use super::finds;

#[test]
fn retries_that_mean_nothing() {
    let retry = json!({
        "attempts": 11, "on": ["reset", "reset"], "per_try_timeout": "0s", "backoff": { "base": "1s", "max": "1ms" },
    });
    finds(
        json!({ "upstreams": { "next": { "retry": retry } } }),
        &[
            "upstreams.next.retry.attempts: 11 is not a number of attempts; write one from 1 to 10",
            "upstreams.next.retry.on[1]: Reset is listed twice; remove one",
            "upstreams.next.retry.per_try_timeout: a time-out of zero lets nothing happen; give a longer one, or remove it",
            "upstreams.next.retry.backoff.base: pauses would begin with 1s, above their maximum 1ms; write 1ms or less",
        ],
    );
    finds(
        json!({ "routes": [{ "to": "next", "retry": { "on": [] } }] }),
        &[
            "routes[0].retry.on: nothing is tried again; remove `on` for the default, or name a condition",
        ],
    );
    finds(
        json!({ "routes": [{ "to": "next", "retry": { "keep_for": "61m" } }] }),
        &["routes[0].retry.keep_for: 1h1m is longer than a client would wait; write 1h or less"],
    );
}

#[test]
fn hedges_that_mean_nothing() {
    finds(
        json!({ "routes": [{ "to": "next", "hedge": { "after": "0s", "most": 5 } }] }),
        &[
            "routes[0].hedge.most: 5 is not a number of attempts at once; write 2, 3 or 4",
            "routes[0].hedge.after: every request would be sent twice; \
             give the time after which a response is late, such as 50ms",
        ],
    );
}
