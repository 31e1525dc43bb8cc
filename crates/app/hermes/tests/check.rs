//! What `hermes check` and `hermes run` say of a file with mistakes of its form and of its meaning.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::process::{Command, Output};

const FILE: &str = "tests/golden/five.yaml";
const EXPECTED: &str = include_str!("golden/five.txt");

fn hermes(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hermes"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn mistakes_of_form_and_meaning_are_reported_at_once_in_the_order_of_lines() {
    let output = hermes(&["check", FILE]);
    assert_eq!(text(output.stdout), EXPECTED);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_node_that_does_not_start_says_the_same() {
    let output = hermes(&["run", FILE]);
    let said = text(output.stderr);
    let problems = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with(&format!("{FILE}:")))
            .count()
    };
    assert!(
        EXPECTED.lines().take(5).all(|line| said.contains(line)),
        "{said}"
    );
    assert_eq!(
        (problems(&said), output.status.code()),
        (5, Some(2)),
        "{said}"
    );
}

#[test]
fn every_problem_has_its_place_for_scripts() {
    let problems: serde_json::Value =
        serde_json::from_slice(&hermes(&["--json", "check", FILE]).stdout).unwrap();
    let place = |problem: &serde_json::Value| {
        (
            problem["place"]["line"].as_u64(),
            problem["place"]["column"].as_u64(),
        )
    };
    let places: Vec<_> = problems.as_array().unwrap().iter().map(place).collect();
    let expected = [(4, 34), (5, 18), (6, 40), (11, 9), (12, 5)]
        .map(|(line, column)| (Some(line), Some(column)));
    assert_eq!(places, expected);
}
