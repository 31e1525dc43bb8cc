//! The problems of files that are not valid YAML.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::fs;

/// The problems of a file with these lines after its version, without the file's name.
fn problems(lines: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(&file, format!("version: 1\n{lines}\n")).unwrap();
    let problems = hermes_config::load(&file, &|_| None)
        .unwrap_err()
        .to_string();
    problems.replace(&format!("{}:", file.display()), "")
}

#[test]
fn usual_slips_are_refused_with_a_remedy() {
    for (lines, remedy) in [
        (
            "node: *.example.com",
            "if it is text such as *.example.com, write it in quotes; else repeat the value",
        ),
        (
            "node: [*]",
            "write text that begins with `*` or `&` in quotes",
        ),
        ("node: `x", "write text that begins with it in quotes"),
        ("node: @x", "write text that begins with it in quotes"),
        ("node: !x", "if it is text, write it in quotes"),
        (
            "node: [::1]:80",
            "write an IPv6 address and port in quotes: \"[::1]:80\"",
        ),
        (
            "log: { level: ${LEVEL} }",
            "within `{ }` and `[ ]`, write \"${NAME}\" in quotes",
        ),
        ("log:\n\tlevel: info", "indent with spaces"),
        (
            "node: a: b",
            "write text with `: ` in it in quotes, or mend the indentation",
        ),
        ("---\nnode: a", "remove the `---`"),
        ("? [a]\n: b", "if it is text, write it in quotes"),
        ("node: ${NODE}", "set it, or write ${NODE:-default}"),
        ("node: \"${NODE\"", "write $${ for ${ as it stands"),
        ("~: a", "keys here are version, $schema, node"),
    ] {
        let problems = problems(lines);
        assert!(
            problems.lines().count() == 1 && problems.contains(remedy),
            "{lines:?}\n{problems}"
        );
    }
}

#[test]
fn broken_yaml_is_refused_with_its_place() {
    assert!(problems("node: \"x").starts_with("2:7: this is not YAML"));
    assert!(problems("{a: 1").contains("this is not YAML"));
    assert!(problems("- a").contains("this is not YAML"));
}

#[test]
fn keys_given_twice_are_refused_with_both_places() {
    let problems = problems("log:\n  level: info\n  access: \"off\"\n  level: debug");
    assert_eq!(
        problems,
        "5:3: log.level: this was already given at 3:3; keep one of them"
    );
}

#[test]
fn aliases_are_refused_so_that_few_bytes_never_stand_for_many() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..30 {
        let before = format!("*a{}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    let problems = problems(&bomb);
    assert!(
        problems.lines().count() == 1 && problems.contains("aliases are not read"),
        "{problems}"
    );
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        for depth in [65, 10_000, 500_000] {
            let nested = format!("routes: {}{}", open.repeat(depth), close.repeat(depth));
            let problems = problems(&nested);
            assert!(
                problems.contains("more than 64 levels"),
                "{depth} {open} {problems}"
            );
        }
    }
    let block: String = (0..200)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    assert!(problems(&block).contains("more than 64 levels"));
}

#[test]
fn an_empty_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    for text in ["", "# nothing\n", "---\n"] {
        fs::write(&file, text).unwrap();
        let problems = hermes_config::load(&file, &|_| None)
            .unwrap_err()
            .to_string();
        assert!(
            problems.ends_with("the file is empty; begin with `version: 1`"),
            "{problems}"
        );
    }
}

#[test]
fn large_missing_and_binary_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    let load = || {
        hermes_config::load(&file, &|_| None)
            .unwrap_err()
            .to_string()
    };
    assert!(load().contains("cannot read"));
    fs::write(&file, "#".repeat((4 << 20) + 1)).unwrap();
    assert!(load().contains("larger than 4 MiB"));
    fs::write(&file, b"version: 1\nnode: \xff\n").unwrap();
    assert!(load().contains("node.yaml:2: this is not UTF-8"));
}

#[test]
fn a_byte_order_mark_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(&file, "\u{feff}version: 1\nnode: a\n").unwrap();
    assert!(hermes_config::load(&file, &|_| None).is_ok());
}
