//! A file with many mistakes, and everything that is said of it.

use std::path::Path;

#[test]
fn every_mistake_is_reported_at_once() {
    let problems =
        hermes_config::load(Path::new("tests/golden/mistakes.yaml"), &|_| None).unwrap_err();
    let expected = include_str!("golden/mistakes.txt");
    assert_eq!(
        problems.to_string(),
        expected.trim_end(),
        "\n\nas found:\n{problems}\n"
    );
}

#[test]
fn problems_are_json_for_scripts() {
    let problems =
        hermes_config::load(Path::new("tests/golden/mistakes.yaml"), &|_| None).unwrap_err();
    let json = serde_json::to_value(&problems).unwrap();
    assert_eq!(
        json[0],
        serde_json::json!({
            "place": { "file": "tests/golden/mistakes.yaml", "line": 1, "column": 10 },
            "path": "version",
            "reason": "`2` is not allowed here",
            "remedy": "write 1",
        })
    );
}
