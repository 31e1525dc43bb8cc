//! A document that is almost nothing but mistakes of form and of meaning: all are said, and each is looked up once.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use hermes_tests::program;

/// Routes with a mistake of form, each followed by one with a mistake of meaning.
const PAIRS: usize = 4_000;

/// Seconds of processor time, many times what is needed: a comparison of each finding with each mistake needs more.
const PROCESSOR: &str = "--cpu=20";

#[test]
fn a_check_of_thousands_of_mistakes_costs_as_much_as_there_are() {
    let mut yaml = "version: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\nroutes:\n".to_owned();
    for number in 0..PAIRS {
        let route = "match: { target: ";
        writeln!(yaml, "  - {{ {route}a{number}.example }}, to: x, odd: 1 }}").unwrap();
        writeln!(yaml, "  - {{ {route}b{number}.example }}, to: y{number} }}").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(&file, yaml).unwrap();

    let mut command = Command::new("prlimit");
    command.arg(PROCESSOR).arg(program::path()).arg("check");
    let said = command.arg(&file).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap() + &String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2), "{:?}", said.status);
    assert_eq!(text.matches("unknown key").count(), PAIRS);
    let last = format!("there is no upstream `y{}`", PAIRS - 1);
    assert!(text.contains(&last), "{last}");
}
