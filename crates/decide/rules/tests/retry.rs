//! Retries: conditions and outcomes, and requests that are never repeated.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::time::Duration;

use hermes_config::model::{Retry, RetryOn};
use hermes_rules::retry::{
    ATTEMPTS_SILENT, ATTEMPTS_UNPROCESSED, Made, Outcome, Policy, Stop, decide,
};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use serde_json::{Value, json};

fn retry(keys: Value) -> Retry {
    serde_json::from_value(keys).unwrap()
}

fn policy(keys: Value) -> Policy {
    Policy::of(Some(&retry(keys)), None).unwrap()
}

const FIRST: Made = Made {
    attempts: 1,
    elapsed: None,
    idempotent: true,
    replayable: true,
    others: false,
};

fn response(status: u16) -> Outcome {
    Outcome::Response {
        status,
        retry_after: None,
    }
}

/// Outcomes that `on` tries again.
fn tried_again(on: Value) -> Vec<Outcome> {
    let policy = policy(json!({ "on": on }));
    let late = Outcome::Response {
        status: 429,
        retry_after: Some(Duration::ZERO),
    };
    let all = [
        Outcome::ConnectFailure,
        Outcome::Reset,
        Outcome::Timeout,
        response(200),
        response(404),
        response(429),
        response(500),
        response(501),
        response(502),
        response(503),
        response(504),
        late,
    ];
    all.into_iter()
        .filter(|outcome| decide(&policy, *outcome, FIRST, 0).is_ok())
        .collect()
}

#[test]
fn each_condition_means_what_it_says() {
    let (connect, reset, timeout) = (Outcome::ConnectFailure, Outcome::Reset, Outcome::Timeout);
    assert_eq!(tried_again(json!("connect-failure")), [connect]);
    assert_eq!(tried_again(json!("refused-stream")), []);
    assert_eq!(tried_again(json!("reset")), [reset, timeout]);
    let gateway = [response(502), response(503), response(504)];
    assert_eq!(
        tried_again(json!("gateway-error")),
        [&[connect, reset, timeout][..], &gateway].concat()
    );
    let errors = [response(500), response(501)];
    assert_eq!(
        tried_again(json!("5xx")),
        [&[connect, reset, timeout][..], &errors, &gateway].concat()
    );
    let late = Outcome::Response {
        status: 429,
        retry_after: Some(Duration::ZERO),
    };
    assert_eq!(tried_again(json!(["rate-limited"])), [late]);
}

#[test]
fn what_may_have_been_processed_is_repeated_only_if_idempotent() {
    let policy = policy(json!({ "on": "5xx" }));
    let made = Made {
        idempotent: false,
        ..FIRST
    };
    for outcome in [
        Outcome::Reset,
        Outcome::Timeout,
        Outcome::Stale,
        response(500),
        response(503),
    ] {
        assert_eq!(
            decide(&policy, outcome, made, 0),
            Err(Stop::MaybeProcessed),
            "{outcome:?}"
        );
    }
    for outcome in [Outcome::ConnectFailure, Outcome::Refused] {
        assert!(decide(&policy, outcome, made, 0).is_ok(), "{outcome:?}");
    }
}

#[test]
fn without_a_policy_only_what_had_no_effect_is_repeated_at_once() {
    assert_eq!(Policy::of(None, None), None);
    let policy = Policy::unprocessed_only();
    for outcome in [Outcome::Refused, Outcome::Stale] {
        assert_eq!(
            decide(&policy, outcome, FIRST, u64::MAX),
            Ok(Duration::ZERO),
            "{outcome:?}"
        );
        let last = Made {
            attempts: ATTEMPTS_UNPROCESSED,
            ..FIRST
        };
        assert_eq!(
            decide(&policy, outcome, last, 0),
            Err(Stop::Attempts),
            "{outcome:?}"
        );
    }
    for outcome in [
        Outcome::ConnectFailure,
        Outcome::Reset,
        Outcome::Timeout,
        response(503),
    ] {
        assert_eq!(
            decide(&policy, outcome, FIRST, 0),
            Err(Stop::NotNamed),
            "{outcome:?}"
        );
    }
}

#[test]
fn an_endpoint_whose_certificate_is_wrong_is_asked_once_and_the_next_one_is() {
    let kept = json!({ "attempts": 3, "keep_for": "1h", "on": "connect-failure" });
    for policy in [Policy::unprocessed_only(), policy(json!({})), policy(kept)] {
        let alone = Made {
            elapsed: Some(Duration::ZERO),
            ..FIRST
        };
        assert_eq!(
            decide(&policy, Outcome::Untrusted, alone, 0),
            Err(Stop::NotNamed)
        );
        let made = Made {
            idempotent: false,
            others: true,
            ..FIRST
        };
        assert!(decide(&policy, Outcome::Untrusted, made, 0).is_ok());
        let last = Made {
            attempts: ATTEMPTS_UNPROCESSED,
            ..made
        };
        assert_eq!(
            decide(&policy, Outcome::Untrusted, last, 0),
            Err(Stop::Attempts)
        );
    }
}

#[test]
fn what_was_on_a_link_that_fell_silent_is_repeated_once_by_any_policy() {
    for policy in [
        Policy::unprocessed_only(),
        policy(json!({ "attempts": 1, "on": "connect-failure" })),
    ] {
        assert!(decide(&policy, Outcome::Silent, FIRST, 0).is_ok());
        let again = Made {
            attempts: ATTEMPTS_SILENT,
            ..FIRST
        };
        assert_eq!(
            decide(&policy, Outcome::Silent, again, 0),
            Err(Stop::Attempts)
        );
        let made = Made {
            idempotent: false,
            ..FIRST
        };
        assert_eq!(
            decide(&policy, Outcome::Silent, made, 0),
            Err(Stop::MaybeProcessed)
        );
    }
}

#[test]
fn what_was_not_kept_cannot_be_repeated() {
    let made = Made {
        replayable: false,
        ..FIRST
    };
    assert_eq!(
        decide(&policy(json!({})), Outcome::Refused, made, 0),
        Err(Stop::NotKept)
    );
}

#[test]
fn retry_after_is_waited_for_up_to_its_bound() {
    let policy = policy(json!({ "retry_after": "2s" }));
    let wait = |seconds| {
        let retry_after = Some(Duration::from_secs(seconds));
        decide(
            &policy,
            Outcome::Response {
                status: 503,
                retry_after,
            },
            FIRST,
            0,
        )
    };
    assert_eq!(wait(2), Ok(Duration::from_secs(2)));
    assert_eq!(wait(3), Err(Stop::TooLong));
}

#[test]
fn a_route_stands_over_its_upstream_key_by_key() {
    let upstream = retry(
        json!({ "attempts": 5, "on": "reset", "backoff": { "base": "1s" }, "budget": { "ratio": "50%" } }),
    );
    let route = retry(json!({ "attempts": 2, "per_try_timeout": "25s" }));
    let policy = Policy::of(Some(&upstream), Some(&route)).unwrap();
    assert_eq!((policy.attempts, policy.on), (2, vec![RetryOn::Reset]));
    assert_eq!(policy.per_try, Some(Duration::from_secs(25)));
    assert_eq!(
        policy.backoff,
        (Duration::from_secs(1), Duration::from_secs(1))
    );
    assert_eq!(
        (policy.budget.0.to_string().as_str(), policy.budget.1),
        ("50%", 3)
    );
}

proptest! {
    #[test]
    fn pauses_stay_below_what_doubles_and_attempts_end(attempts in 1u32..20, random in any::<u64>()) {
        let policy = policy(json!({ "attempts": 10, "on": "5xx" }));
        let made = Made { attempts, ..FIRST };
        match decide(&policy, Outcome::Reset, made, random) {
            Ok(pause) => {
                let longest = Duration::from_millis(25 * (1 << (attempts - 1))).min(Duration::from_millis(250));
                assert!(pause <= longest && attempts < 10);
            }
            Err(stop) => assert!(stop == Stop::Attempts && attempts >= 10),
        }
    }

    #[test]
    fn nothing_that_may_have_been_processed_is_ever_repeated_unless_idempotent(
        outcome in prop_oneof![
            Just(Outcome::Reset), Just(Outcome::Timeout), Just(Outcome::Stale), Just(Outcome::Silent),
            (100u16..600, proptest::option::of(0u64..5)).prop_map(|(status, after)| {
                Outcome::Response { status, retry_after: after.map(Duration::from_secs) }
            }),
        ],
        attempts in 1u32..10,
        random in any::<u64>(),
    ) {
        let policy = policy(json!({ "attempts": 10, "on": ["5xx", "rate-limited"] }));
        let made = Made { attempts, elapsed: None, idempotent: false, replayable: true, others: false };
        assert!(decide(&policy, outcome, made, random).is_err());
    }
}
