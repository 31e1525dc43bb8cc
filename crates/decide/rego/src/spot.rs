//! Asks a brief policy on the thread that has the question.
//!
//! The limits of such an evaluation are a small part of those on a thread of its own: enough for
//! some dozens of rules. One that needs more is begun again over there; if that happens often,
//! nothing is tried here any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use regorus::{Engine, Value};
use serde_json::Value as Json;

use crate::budget::{self, Budget, Excess};
use crate::evaluation::evaluate;
use crate::outcome::{Answer, Failure};
use crate::policy::Policy;

/// Steps of an evaluation here: a fraction of a millisecond.
#[doc(alias = "bound")]
const STEPS: u64 = 2000;

/// Bytes that an evaluation may ask for here.
#[doc(alias = "bound")]
const MEMORY: u64 = 1024 * 1024;

/// How long an evaluation may take here. So many steps take far less, unless the system let the thread wait meanwhile.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_millis(100);

/// Bytes of the texts in an input, and values in it, that are looked at here.
#[doc(alias = "bound")]
const INPUT: usize = 16 * 1024;

/// Evaluations that exceed these bounds before the policy is no longer tried here.
#[doc(alias = "bound")]
const OVERRUNS: u32 = 16;

/// A brief policy.
pub(crate) struct Spot {
    policy: Mutex<Policy>,
    rule: String,
    budget: Budget,
    /// Idle engines: at most one for each thread that has asked at the same time.
    engines: Mutex<Vec<Engine>>,
    overruns: AtomicU32,
}

impl Spot {
    /// `budget` is that of a thread of its own.
    pub(crate) fn new(policy: Policy, budget: Budget) -> Self {
        Self {
            rule: policy.rule().to_owned(),
            policy: Mutex::new(policy),
            budget: Budget {
                steps: budget.steps.min(STEPS),
                memory: budget.memory.min(MEMORY),
            },
            engines: Mutex::default(),
            overruns: AtomicU32::new(0),
        }
    }

    /// Whether a question is to be asked here.
    pub(crate) fn takes(&self, input: &Json) -> bool {
        self.overruns.load(Ordering::Relaxed) < OVERRUNS && Self::fits(input)
    }

    /// Whether a question is small enough to be asked here.
    pub(crate) fn fits(input: &Json) -> bool {
        let mut room = INPUT;
        fits(input, &mut room)
    }

    /// Asks; `None` if the evaluation exceeds the bounds here.
    pub(crate) fn ask(&self, input: &Value) -> Option<Answer> {
        // Taken out for the evaluation: no lock is held while a policy runs.
        let idle = self.engines.lock().pop();
        let mut engine = idle.unwrap_or_else(|| self.policy.lock().engine());

        budget::begin(self.budget, Instant::now() + TIME, None);
        let evaluated = evaluate(&mut engine, &self.rule, input.clone());
        if evaluated.is_sound {
            self.engines.lock().push(engine);
        }

        match evaluated.answer {
            // The machine is busy: not counted as an overrun of the policy.
            Err(Failure::Excess(Excess::Time)) => None,
            Err(Failure::Excess(_)) => {
                self.overruns.fetch_add(1, Ordering::Relaxed);
                None
            }
            answer => Some(answer),
        }
    }
}

/// Whether an input fits in `room`, which it uses up.
fn fits(input: &Json, room: &mut usize) -> bool {
    let own = match input {
        Json::String(text) => text.len() + 1,
        _ => 1,
    };
    let Some(rest) = room.checked_sub(own) else {
        return false;
    };
    *room = rest;

    match input {
        Json::Array(items) => items.iter().all(|item| fits(item, room)),
        Json::Object(fields) => fields.iter().all(|(name, value)| {
            *room = room.saturating_sub(name.len());
            fits(value, room)
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spot(rules: &str) -> Spot {
        let file = ("a.rego".to_owned(), format!("package a\n{rules}\n"));
        let policy = Policy::new(&[file], "data.a.allow").unwrap();
        assert!(policy.is_brief(), "{rules}");
        Spot::new(policy, Budget::default())
    }

    #[test]
    fn a_brief_policy_answers_here_again_and_again() {
        let spot = spot("allow if input.user == \"alice\"");
        for (user, allowed) in [("alice", Some(true)), ("bob", None), ("alice", Some(true))] {
            let input = json!({ "user": user });
            assert!(spot.takes(&input));
            let answer = spot.ask(&Value::from(input)).unwrap().unwrap();
            assert_eq!(answer, allowed.map(Json::Bool), "{user}");
        }
        assert_eq!(spot.engines.lock().len(), 1);
    }

    #[test]
    fn what_needs_more_is_left_to_others_and_then_not_tried() {
        let spot = spot(
            "allow if { some i in input.many; some j in input.many; some k in input.many; i + j + k < 0 }",
        );
        let input = json!({ "many": (0..100).collect::<Vec<_>>() });
        for _ in 0..OVERRUNS {
            assert!(spot.takes(&input));
            assert!(spot.ask(&Value::from(input.clone())).is_none());
        }
        assert!(!spot.takes(&input));
    }

    #[test]
    fn a_zone_that_was_not_read_yet_is_read_by_others() {
        let spot = spot("allow if time.clock([0, \"Asia/Kathmandu\"]) == [5, 30, 0]");
        let input = Value::from(json!({}));
        assert!(spot.ask(&input).is_none());

        // As a thread does that may wait for a file.
        let zoned = Value::from(vec![Value::from(0_i64), Value::from("Asia/Kathmandu")]);
        assert!(crate::times::clock(&[zoned]).is_some());
        assert_eq!(spot.ask(&input).unwrap().unwrap(), Some(Json::Bool(true)));
    }

    #[test]
    fn a_large_input_is_left_to_others() {
        let spot = spot("allow if input.user == \"alice\"");
        assert!(spot.takes(&json!({ "user": "a".repeat(INPUT / 2) })));
        assert!(!spot.takes(&json!({ "user": "a".repeat(INPUT) })));
        assert!(!spot.takes(&json!({ "claims": vec![1; INPUT] })));
        let names = (0..INPUT / 8).map(|number| (format!("name-{number}"), json!(1)));
        assert!(!spot.takes(&Json::Object(names.collect())));
    }

    #[test]
    fn a_step_that_takes_much_memory_stops_no_thread() {
        let spot = spot("allow if count(split(input.text, \"a\")) == 1");
        let small = Spot {
            budget: Budget {
                steps: STEPS,
                memory: 16,
            },
            ..spot
        };
        let input = json!({ "text": "a".repeat(INPUT / 2) });
        let answer = small.ask(&Value::from(input));
        assert!(answer.is_none_or(|answer| answer.is_ok()));
    }
}
