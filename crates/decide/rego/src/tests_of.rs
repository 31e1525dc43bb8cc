//! Tests that are written in Rego: rules with names that begin with `test_`, as `opa test` finds
//! them.

use std::time::Duration;

use serde_json::Value as Json;

use crate::budget::Budget;
use crate::evaluator::Evaluator;
use crate::policy::Policy;
use crate::wrong::Wrong;

/// How long one test may take.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_secs(10);

/// A test and how it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegoTest {
    /// The rule: `data.overlay_test.test_admins`.
    pub rule: String,
    /// The file that it stands in.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// Why it failed, if it did.
    pub failed: Option<String>,
}

/// Runs the tests in these files, each with its name and its text, on all of them together.
///
/// # Errors
/// The mistakes in each file.
pub fn run_tests(files: &[(String, String)], budget: Budget) -> Result<Vec<RegoTest>, Vec<Wrong>> {
    // Read once to find mistakes; a test then asks for its own rule.
    Policy::new(files, "data")?;
    let found = files.iter().flat_map(|(file, text)| find(file, text));
    found
        .map(|mut test| {
            let policy = Policy::new(files, &test.rule)?;
            test.failed = run(policy, budget);
            Ok(test)
        })
        .collect()
}

fn run(policy: Policy, budget: Budget) -> Option<String> {
    let evaluator = match Evaluator::new(policy, budget, 1) {
        Ok(evaluator) => evaluator,
        Err(wrong) => return Some(wrong.to_string()),
    };
    match evaluator.ask_blocking(Json::Null, TIME) {
        Ok(Some(Json::Bool(true))) => None,
        Ok(Some(other)) => Some(format!("it is {other}, not true")),
        Ok(None) => Some("it is not true".to_owned()),
        Err(failure) => Some(failure.to_string()),
    }
}

/// The tests that a file has. A rule begins its line; one that has several bodies is one test.
fn find(file: &str, text: &str) -> Vec<RegoTest> {
    let mut package = "";
    let mut found: Vec<RegoTest> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name.split('#').next().unwrap_or_default().trim();
        }
        if !line.starts_with("test_") {
            continue;
        }

        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let name: String = line.chars().take_while(|letter| is_name(*letter)).collect();
        let rule = format!("data.{package}.{name}");
        if !found.iter().any(|test| test.rule == rule) {
            found.push(RegoTest {
                rule,
                file: file.to_owned(),
                line: number,
                failed: None,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn a_test_replaces_the_time() {
        let files = [
            file(
                "a.rego",
                "package a\nimport rego.v1\nallow if time.now_ns() > 1000\n",
            ),
            file(
                "a_test.rego",
                "package a_test\nimport rego.v1\nimport data.a\n\
                 test_now if a.allow\n\
                 test_early if not a.allow with time.now_ns as 5\n\
                 test_late if a.allow with time.now_ns as 1001\n",
            ),
        ];
        let tests = run_tests(&files, Budget::default()).unwrap();
        let failed: Vec<_> = tests
            .iter()
            .filter_map(|test| test.failed.as_deref())
            .collect();
        assert!(tests.len() == 3 && failed.is_empty(), "{failed:?}");
    }

    #[test]
    fn tests_pass_fail_and_break_with_their_lines() {
        let files = [
            file(
                "a.rego",
                "package a\nimport rego.v1\nallow if input.user == \"alice\"\n",
            ),
            file(
                "a_test.rego",
                "package a_test\nimport rego.v1\nimport data.a\n\
                 test_alice if a.allow with input as {\"user\": \"alice\"}\n\
                 test_bob if a.allow with input as {\"user\": \"bob\"}\n\
                 test_odd := 1\n\
                 todo_test_later if false\n\
                 test_broken := http.send({})\n",
            ),
        ];
        let tests = run_tests(&files, Budget::default()).unwrap();
        let shown: Vec<_> = tests
            .iter()
            .map(|test| (test.line, test.failed.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                (4, None),
                (5, Some("it is not true")),
                (6, Some("it is 1, not true")),
                (
                    8,
                    Some("a_test.rego:8:25: could not find function http.send")
                ),
            ]
        );
        assert_eq!(tests[0].rule, "data.a_test.test_alice");
    }
}
