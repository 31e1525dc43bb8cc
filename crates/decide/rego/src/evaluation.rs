//! One evaluation, on any thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use regorus::{Engine, Value};

use crate::budget;
use crate::outcome::{Answer, Failure, to_json};
use crate::wrong::wrong;

const NO_RULE: &str = "there is no such rule";

fn broken(rule: &str, said: &str) -> Failure {
    let said = if said.contains("not a valid rule path") {
        NO_RULE
    } else {
        said
    };
    Failure::Broken(wrong(rule, said))
}

/// Whether an error is the same for every input.
pub(crate) fn is_always_so(reason: &str) -> bool {
    [NO_RULE, "recursion detected", "could not find function"]
        .iter()
        .any(|sign| reason.contains(sign))
}

/// The result of an evaluation.
pub(crate) struct Evaluated {
    pub(crate) answer: Answer,
    /// Whether the engine can be used again.
    pub(crate) is_sound: bool,
}

/// Evaluates within the budget that was begun, and settles it.
pub(crate) fn evaluate(engine: &mut Engine, rule: &str, input: Value) -> Evaluated {
    let evaluated = catch_unwind(AssertUnwindSafe(|| {
        engine.set_input(input);
        let value = engine.eval_rule(rule.to_owned());
        let value = value.map_err(|error| broken(rule, &error.to_string()))?;
        to_json(&value)
    }));
    // Outside of `catch_unwind`: a panic must not leave this thread metered.
    let excess = budget::settle();

    let is_sound = evaluated.is_ok();
    let answer = evaluated.unwrap_or_else(|_| Err(broken(rule, "the interpreter failed")));
    // An excess overrides the answer: the interpreter may have turned it into an undefined value, which `not` takes for permission.
    let answer = excess.map_or(answer, |excess| Err(Failure::Excess(excess)));
    // Prints would otherwise pile up in an engine that is used again.
    _ = engine.take_prints();

    Evaluated { answer, is_sound }
}
