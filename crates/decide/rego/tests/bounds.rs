//! Policies that loop, explode or want all memory, in a program with a counting allocator.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::alloc::System;
use std::time::Duration;

use hermes_rego::{Answer, Budget, Evaluator, Excess, Failure, Metered, Policy};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Metered<System> = Metered(System);

/// Long enough for any machine: the other bounds end these evaluations.
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
    for turn in 0..6 {
        rules += &format!("c{} := concat(\"\", [c{turn}, c{turn}])\n", turn + 1);
    }
    let rules = format!(
        "{rules}b := count([text | some i in numbers.range(1, 1000)\n text := concat(\"\", [c6, c6])])"
    );
    assert_eq!(ask(&rules, json!({ "x": "xxxxxxxxxx" })), MEMORY);
}

#[test]
fn a_gigabyte_at_once_costs_a_thread_and_then_the_policy() {
    // A thousand references to one text of a megabyte cost nothing until they are written down,
    // here in the message about a wrong operand, which no estimate covers.
    let rules = "b := count(union({[input.x | some i in numbers.range(1, 1000)]})) if input.x";
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
fn operands_of_a_client_take_neither_a_thread_nor_the_policy() {
    let rules = "b := \"sound\" if input.case == \"none\"\n\
        b := replace(input.x, \"a\", input.y) if input.case == \"replace\"\n\
        b := concat(input.x, split(input.y, \"\")) if input.case == \"concat\"\n\
        b := regex.replace(input.x, \"a\", input.y) if input.case == \"pattern\"\n\
        b := strings.replace_n({\"a\": input.y, \"b\": input.x}, input.x) if input.case == \"turns\"\n\
        b := sprintf(input.format, [1]) if input.case == \"format\"\n\
        b := units.parse(input.number) if input.case == \"units\"\n\
        b := units.parse_bytes(input.number) if input.case == \"bytes\"\n\
        b := bits.lsh(1, input.bits) if input.case == \"shift\"\n\
        b := glob.match(input.glob, [\".\"], \"a\") if input.case == \"glob\"\n\
        b := json.patch({\"a\": {}}, input.patch) if input.case == \"patch\"\n\
        b := count(json.marshal([input.x | some i in numbers.range(1, 5000)])) if input.case == \"json\"";
    let evaluator = evaluator(rules);
    let long = "a".repeat(40_000);
    let nested = format!("{}{}", "{a,".repeat(400), "}".repeat(400));
    let copy = json!({ "op": "copy", "from": "", "path": "/a/x" });
    let hostile = |case: &str| {
        json!({
            "case": case, "x": long, "y": long, "format": "%999999999d", "number": "1e999999999",
            "bits": 4_000_000_000_u64, "glob": nested, "patch": vec![copy.clone(); 60],
        })
    };

    for case in [
        "replace", "concat", "pattern", "turns", "format", "units", "bytes", "shift", "glob",
        "patch", "json",
    ] {
        let answer = evaluator.ask_blocking(hostile(case), LONG);
        let Err(Failure::Broken(wrong)) = answer else {
            panic!("{case}: {answer:?}")
        };
        assert!(
            wrong.to_string().contains("would return more than"),
            "{wrong}"
        );
        assert!(wrong.place.is_some(), "{wrong}");
        let sound = evaluator.ask_blocking(json!({ "case": "none" }), LONG);
        assert_eq!(sound, Ok(Some(json!("sound"))), "{case}");
    }
}

#[test]
fn ordinary_calls_of_what_can_grow_are_as_before() {
    let rules = "b := [replace(\"a-b\", \"-\", \"+\"), concat(\"/\", [\"x\", \"y\"]), sprintf(\"%s=%d\", [\"n\", 3]), \
        regex.replace(\"foo\", \"(o)\", \"<$1>\"), units.parse(\"1.5K\"), units.parse_bytes(\"2Ki\"), bits.lsh(1, 4), \
        glob.match(\"*.example.org\", [\".\"], \"www.example.org\"), json.marshal({\"a\": [1]}), \
        strings.replace_n({\"<\": \"&lt;\"}, \"<b>\"), json.patch({\"a\": 1}, [{\"op\": \"remove\", \"path\": \"/a\"}])]";
    let expected = json!([
        "a+b",
        "x/y",
        "n=3",
        "f<o><o>",
        1500,
        2048,
        16,
        true,
        "{\"a\":[1]}",
        "&lt;b>",
        {}
    ]);
    assert_eq!(ask(rules, json!({})), Ok(Some(expected)));
    let missing = "b := \"none\" if not replace(input.x, \"a\", \"b\")";
    assert_eq!(ask(missing, json!({})), Ok(Some(json!("none"))));
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
