//! Policies that loop, explode or want everything, in a program whose allocator counts.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::alloc::System;
use std::time::Duration;

use hermes_rego::{Answer, Budget, Evaluator, Excess, Failure, Metered, Policy};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Metered<System> = Metered(System);

/// Long enough for any machine: what ends these evaluations is what they spend.
const LONG: Duration = Duration::from_secs(600);

fn evaluator(rules: &str) -> Evaluator {
    let file = ("a.rego".to_owned(), format!("package a\n{rules}\n"));
    let policy = Policy::new(&[file], "data.a.b").unwrap();
    Evaluator::new(policy, Budget::default(), 8).unwrap()
}

fn ask(rules: &str, input: Value) -> Answer {
    evaluator(rules).ask_blocking(input, LONG)
}

const STEPS: Answer = Err(Failure::Excess(Excess::Steps));
const MEMORY: Answer = Err(Failure::Excess(Excess::Memory));

#[test]
fn a_sound_policy_is_answered_again_and_again() {
    let evaluator = evaluator("b := input.x + 1 if input.x > 0");
    for x in 1..200 {
        let answer = evaluator.ask_blocking(json!({ "x": x }), LONG);
        assert_eq!(answer, Ok(Some(json!(x + 1))));
    }
    assert_eq!(evaluator.ask_blocking(json!({ "x": 0 }), LONG), Ok(None));
}

#[test]
fn loops_within_loops_end_with_the_steps() {
    let rules = "b if {\n some i in numbers.range(1, 5000)\n some j in numbers.range(1, 5000)\n i * j < 0\n}";
    assert_eq!(ask(rules, json!({})), STEPS);
}

#[test]
fn a_text_that_doubles_ends_with_the_memory() {
    let mut rules = "c0 := concat(\"\", [input.x | some i in numbers.range(1, 1000)])\n".to_owned();
    for turn in 0..40 {
        rules += &format!("c{} := concat(\"\", [c{turn}, c{turn}])\n", turn + 1);
    }
    let rules = format!("{rules}b := count(c40)");
    assert_eq!(ask(&rules, json!({ "x": "xxxxxxxxxx" })), MEMORY);
}

#[test]
fn a_gigabyte_at_once_costs_a_thread_and_then_the_policy() {
    // A thousand references to one text of a megabyte cost nothing until they are joined.
    let rules = "b := count(concat(\"\", [input.x | some i in numbers.range(1, 1000)])) if input.x";
    let evaluator = evaluator(rules);
    let large = json!({ "x": "x".repeat(1_000_000) });

    for _ in 0..2 {
        assert_eq!(evaluator.ask_blocking(large.clone(), LONG), MEMORY);
        if evaluator.ask_blocking(json!({}), LONG) == Err(Failure::Stopped) {
            return;
        }
    }
    let stopped = evaluator.ask_blocking(json!({}), LONG);
    assert_eq!(stopped, Err(Failure::Stopped));
}

#[test]
fn a_small_value_that_is_large_in_full_is_no_answer() {
    let mut rules = "c0 := input.x\n".to_owned();
    for turn in 0..30 {
        rules += &format!("c{} := [c{turn}, c{turn}]\n", turn + 1);
    }
    let answer = ask(&format!("{rules}b := c30"), json!({ "x": "x" }));
    assert!(matches!(answer, Err(Failure::Broken(_))), "{answer:?}");
}

#[test]
fn a_range_of_everything_is_undefined() {
    assert_eq!(
        ask("b := numbers.range(1, 1000000000)", json!({})),
        Ok(None)
    );
}

#[test]
fn a_policy_that_is_always_broken_is_not_taken() {
    let wrong = |rules: &str| {
        let file = ("a.rego".to_owned(), format!("package a\n{rules}\n"));
        let policy = Policy::new(&[file], "data.a.b").unwrap();
        let wrong = Evaluator::new(policy, Budget::default(), 8).unwrap_err();
        wrong.to_string()
    };
    assert_eq!(wrong("c := 1"), "data.a.b: there is no such rule");
    assert!(
        wrong("b if c\nc if b").contains("recursion"),
        "{}",
        wrong("b if c\nc if b")
    );
    let network = wrong("b := http.send({\"url\": \"http://127.0.0.1\", \"method\": \"GET\"})");
    assert_eq!(network, "a.rego:2:15: could not find function http.send");
}

#[test]
fn a_rule_that_contradicts_itself_says_where() {
    let Err(Failure::Broken(wrong)) = ask(
        "b := 1 if input.x\nb := 2 if input.y",
        json!({ "x": 1, "y": 1 }),
    ) else {
        panic!()
    };
    assert_eq!(wrong.file, "a.rego", "{wrong}");
    assert!(wrong.place.is_some(), "{wrong}");
}

#[test]
fn more_questions_than_may_wait_are_refused() {
    let rules = "b if {\n input.x\n some i in numbers.range(1, 9000)\n some j in numbers.range(1, 9000)\n i * j < 0\n}";
    let file = ("a.rego".to_owned(), format!("package a\n{rules}\n"));
    let policy = Policy::new(&[file], "data.a.b").unwrap();
    let budget = Budget {
        steps: 1_000_000_000,
        memory: u64::MAX,
    };
    let evaluator = Evaluator::new(policy, budget, 1).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();

    runtime.block_on(async {
        let time = Duration::from_millis(300);
        let questions = (0..16).map(|_| evaluator.ask(json!({ "x": 1 }), time));
        let answers = join(questions).await;
        let crowded = answers
            .iter()
            .filter(|answer| **answer == Err(Failure::Crowded));
        assert!(crowded.count() > 0, "{answers:?}");
        let in_time = answers.iter().all(Result::is_err);
        assert!(in_time, "{answers:?}");
    });
}

/// All answers, asked at once.
async fn join<F: Future<Output = Answer>>(questions: impl Iterator<Item = F>) -> Vec<Answer> {
    let mut questions: Vec<_> = questions.map(Box::pin).collect();
    let mut answers = vec![None; questions.len()];
    std::future::poll_fn(|context| {
        for (question, answer) in questions.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let std::task::Poll::Ready(found) = question.as_mut().poll(context)
            {
                *answer = Some(found);
            }
        }
        match answers.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    answers.into_iter().flatten().collect()
}
