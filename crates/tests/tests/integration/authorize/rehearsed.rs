//! `hermes policy test`: cases and tests in Rego, and what is wrong with them.

use std::fs;
use std::process::Command;

use hermes_tests::program;
use serde_json::{Value, json};
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// Exit code, standard output and standard error.
fn test(folder: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(program::path())
        .args(["policy", "test"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

const NODE: &str = r#"
version: 1
fields: [user, x-secure, x-other]
listeners:
  web: { http: 127.0.0.1:0, user: alice }
  db: { tcp: 127.0.0.1:0, target: "DB:1" }
authorize:
  - { name: server, url: "http://127.0.0.1:1/" }
  - { name: own, timeout: 60s, match: { listener: web }, allow_fields: [x-secure], rego: { files: policy.rego, query: data.a.b } }
routes:
  - { name: secure, match: { fields: { x-secure: admin } }, respond: { status: 200 } }
  - { name: db, match: { listener: db }, terminate: true }
"#;

const POLICY: &str = r#"package a
b := {"allow": true, "fields": {"x-secure": "admin"}} if input.user == "alice"
b := {"allow": false, "status": 402, "reason": "unpaid"} if input.user != "alice"
"#;

const CASES: &str = r#"config: node.yaml
cases:
  - { name: alice, ask: GET http://a/, fields: { x-secure: forged }, expect: { allow: true, route: secure, user: alice, fields: { x-secure: admin, x-other: "" } } }
  - { name: database, listener: db, source: 10.0.0.1, expect: { allow: true, route: db } }
  - { name: wrong, ask: GET http://a/, expect: { allow: false } }
  - { name: bad, ask: GET a, expect: { allow: false } }
  - { name: nowhere, ask: "CONNECT-UDP a:1", listener: db, expect: { allow: false, status: 404 } }
"#;

#[test]
fn cases_say_what_is_decided_instead() {
    let folder = folder(&[
        ("node.yaml", NODE),
        ("policy.rego", POLICY),
        ("cases.yaml", CASES),
    ]);
    let (code, said, _) = test(&folder, &["cases.yaml", "--json"]);
    assert_eq!(code, 1, "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    let failed: Vec<_> = said
        .as_array()
        .unwrap()
        .iter()
        .map(|test| &test["failed"])
        .collect();
    assert_eq!(
        failed,
        [
            &Value::Null,
            &Value::Null,
            &json!("it takes the route secure"),
            &json!("a is no URL, such as http://VIDEO/one"),
            &json!("it takes the route db"),
        ]
    );
    assert_eq!(said[2]["place"], "cases.yaml:5");
}

#[test]
fn files_that_are_wrong_are_named_with_lines() {
    let bad_cases =
        "config: node.yaml\ncases:\n  - { name: a, asks: x, expect: { allow: true } }\n";
    let folder = folder(&[
        ("cases.yaml", bad_cases),
        ("a.rego", "package a\nb if {\n  x ==\n}\n"),
        ("b_test.rego", "package b\ntest_no if 1 == 2\n"),
    ]);
    let (code, said, _) = test(&folder, &["cases.yaml"]);
    assert_eq!(code, 2);
    assert!(
        said.contains("cases.yaml:3:16: cases[0].asks: unknown key"),
        "{said}"
    );

    let (code, _, said) = test(&folder, &["a.rego"]);
    assert_eq!(code, 2);
    assert!(said.contains("a.rego:4:1: "), "{said}");

    let (code, said, _) = test(&folder, &["b_test.rego"]);
    assert_eq!(code, 1);
    assert!(
        said.contains("FAILED  b_test.rego:2: data.b.test_no: it is not true"),
        "{said}"
    );
    let (code, _, said) = test(&folder, &["missing.rego"]);
    assert_eq!(code, 2);
    assert!(said.contains("missing.rego"), "{said}");
}
