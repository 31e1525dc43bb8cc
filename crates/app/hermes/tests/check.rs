//! What `hermes check` and `hermes run` say of a file with mistakes of its form and of its meaning.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::process::{Command, Output};

const FORM: &str = "tests/golden/form.yaml";
const MEANING: &str = "tests/golden/meaning.yaml";
const OF_FORM: &str = include_str!("golden/form.txt");
const OF_MEANING: &str = include_str!("golden/meaning.txt");

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
fn mistakes_of_form_and_of_meaning_are_reported_at_once_in_the_order_of_lines_and_nothing_that_follows_from_them()
 {
    let output = hermes(&["check", FORM]);
    assert_eq!(text(output.stdout), OF_FORM);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn mistakes_of_meaning_are_reported_at_once_in_the_order_of_lines() {
    let output = hermes(&["check", MEANING]);
    assert_eq!(text(output.stdout), OF_MEANING);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_node_that_does_not_start_says_the_same() {
    for (file, expected, count) in [(FORM, OF_FORM, 7), (MEANING, OF_MEANING, 3)] {
        let output = hermes(&["run", file]);
        let said = text(output.stderr);
        let problems = said
            .lines()
            .filter(|line| line.starts_with(&format!("{file}:")))
            .count();
        assert!(
            expected.lines().take(count).all(|line| said.contains(line)),
            "{said}"
        );
        assert_eq!((problems, output.status.code()), (count, Some(2)), "{said}");
    }
}

#[test]
fn every_problem_has_its_place_for_scripts() {
    let problems: serde_json::Value =
        serde_json::from_slice(&hermes(&["--json", "check", MEANING]).stdout).unwrap();
    let place = |problem: &serde_json::Value| {
        (
            problem["place"]["line"].as_u64(),
            problem["place"]["column"].as_u64(),
        )
    };
    let places: Vec<_> = problems.as_array().unwrap().iter().map(place).collect();
    let expected = [(5, 18), (11, 9), (12, 5)].map(|(line, column)| (Some(line), Some(column)));
    assert_eq!(places, expected);
}
