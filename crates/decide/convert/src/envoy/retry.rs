//! Retry policies.

use serde_json::{Value as Json, json};

use crate::draft::Draft;
use crate::quantity::duration;
use crate::source::Node;

/// Attempts that are made at most.
const MOST: u64 = 10;

/// Envoy's conditions for a retry, in our words.
const CONDITIONS: &[(&str, &str)] = &[
    ("5xx", "5xx"),
    ("gateway-error", "gateway-error"),
    ("reset", "reset"),
    ("reset-before-request", "reset"),
    ("connect-failure", "connect-failure"),
    ("refused-stream", "refused-stream"),
    ("http3-post-connect-failure", "connect-failure"),
    ("envoy-ratelimited", "rate-limited"),
];

pub(super) fn convert(policy: &Node, draft: &mut Draft) -> Json {
    policy.skip(&[
        "retry_host_predicate",
        "host_selection_retry_max_attempts",
        "retry_options_predicates",
    ]);
    let mut on: Vec<&str> = Vec::new();
    let written = policy.text("retry_on").unwrap_or_default();
    for word in written
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let known = CONDITIONS.iter().find(|(theirs, _)| *theirs == word);
        match known {
            Some((_, ours)) if !on.contains(ours) => on.push(ours),
            Some(_) => {}
            None => {
                let reason = format!("`{word}` is not tried again");
                draft.left_out(policy.line, "retry_policy", reason);
            }
        }
    }

    let retries = policy.number("num_retries").unwrap_or(1);
    let mut retry = json!({ "attempts": (retries + 1).min(MOST) });
    if !on.is_empty() {
        retry["on"] = json!(on);
    }
    if let Some(time) = policy
        .milliseconds("per_try_timeout")
        .filter(|time| *time > 0)
    {
        retry["per_try_timeout"] = json!(duration(time));
    }
    if let Some(backoff) = policy.field("retry_back_off") {
        let mut said = json!({});
        for (theirs, ours) in [("base_interval", "base"), ("max_interval", "max")] {
            if let Some(time) = backoff.milliseconds(theirs) {
                said[ours] = json!(duration(time));
            }
        }
        retry["backoff"] = said;
    }

    let reason = "requests that may have been processed are tried again only if their method is idempotent, within the budget of their upstream";
    draft.differs(policy.line, "retry_policy", reason);
    retry
}
