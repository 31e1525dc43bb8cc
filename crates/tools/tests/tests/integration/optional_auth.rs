//! Clients that may show nothing: the policy decides about them, and what is shown must be right.

use std::fs;
use std::process::Command;

use hermes_tests::{Node, curl, origins, program};
use serde_json::Value;

/// A site whose preflights and health page are for everyone, and a proxy with the same rules.
fn node(origin: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let users = format!("alice:{}\n", bcrypt::hash("secret", 4).unwrap());
    fs::write(folder.path().join("users"), users).unwrap();
    let yaml = format!(
        r#"
        listeners:
          site: {{ http: 127.0.0.1:0, gateway: true, auth: {{ basic: {{ file: users, realm: site }}, optional: true }} }}
          proxy: {{ http: 127.0.0.1:0, auth: {{ basic: {{ file: users }}, optional: true }} }}
        policy:
          rules:
            - {{ match: {{ path: /secret/* , user: false }}, deny: {{ status: 451 }} }}
            - {{ match: {{ method: OPTIONS, user: false }}, allow: true }}
            - {{ match: {{ path: /health, user: [bob, false] }}, allow: true }}
            - {{ match: {{ user: alice, path: /app/* }}, allow: true }}
        routes: [ {{ terminate: "{origin}" }} ]
        "#
    );
    Node::start_in(folder, "edge", &yaml, &[])
}

/// The status of a request at the site, and its challenge.
fn ask(node: &Node, path: &str, arguments: &[&str]) -> (u16, Option<String>) {
    let url = format!("{}{path}", node.url("site"));
    let got = curl(&[arguments, &[url.as_str()]].concat());
    (got.status, got.field("www-authenticate"))
}

#[test]
fn the_policy_decides_about_those_who_show_nothing() {
    let origin = origins::http();
    let node = node(&origin.address().to_string());
    let challenge = Some("Basic realm=\"site\", charset=\"UTF-8\"".to_owned());
    let alice = ["-u", "alice:secret"];
    let wrong = ["-u", "alice:wrong"];

    assert_eq!(ask(&node, "/app/a", &["-X", "OPTIONS"]).0, 200);
    assert_eq!(ask(&node, "/health", &[]).0, 200);
    assert_eq!(origin.last().field("authorization"), None);

    // A client that may not go on as no one is asked who it is, and may then.
    assert_eq!(ask(&node, "/app/a", &[]), (401, challenge.clone()));
    assert_eq!(ask(&node, "/app/a", &alice).0, 200);
    assert_eq!(ask(&node, "/elsewhere", &[]), (401, challenge.clone()));
    assert_eq!(ask(&node, "/elsewhere", &alice), (403, None));
    // A rule that says with which status keeps it.
    assert_eq!(ask(&node, "/secret/a", &[]), (451, None));

    // What is shown must be right, even where nothing need be.
    assert_eq!(ask(&node, "/health", &wrong), (401, challenge.clone()));
    let bearer = ["-H", "authorization: Bearer abc"];
    assert_eq!(ask(&node, "/health", &bearer), (401, challenge));
    // Alice is someone: the page is for Bob and for those who are not known.
    assert_eq!(ask(&node, "/health", &alice).0, 403);

    let record = node.record(|record| record["status"] == 200);
    assert_eq!(record["user"], Value::Null);
    let got = curl(&["-x", &node.url("proxy"), "http://a/app/a"]);
    assert_eq!(got.status, 407);
    assert!(
        got.field("proxy-authenticate")
            .unwrap()
            .starts_with("Basic ")
    );
}

#[test]
fn why_says_that_they_are_asked() {
    let origin = origins::http();
    let node = node(&origin.address().to_string());
    for (listener, words, status) in [
        ("site", vec!["GET", "http://a/app/a"], Value::from(401)),
        ("proxy", vec!["GET", "http://a/app/a"], Value::from(407)),
        (
            "site",
            vec!["GET", "http://a/app/a", "--user", "bob"],
            Value::from(403),
        ),
        ("site", vec!["GET", "http://a/secret/a"], Value::from(451)),
        ("site", vec!["GET", "http://a/health"], Value::Null),
    ] {
        let output = Command::new(program::path())
            .arg("why")
            .arg(node.file())
            .args(&words)
            .args(["--listener", listener, "--json"])
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["status"], status, "{words:?}: {answer}");
    }
}

#[test]
fn a_file_that_would_let_strangers_in_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    fs::write(folder.path().join("users"), "alice:x\n").unwrap();
    for policy in ["", "policy: { default: allow }\n"] {
        let yaml = format!(
            "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:8080, auth: {{ basic: {{ file: users }}, optional: true }} }} }}\n\
             {policy}routes: [ {{ respond: {{ status: 200 }} }} ]\n"
        );
        fs::write(&file, yaml).unwrap();
        let checked = Command::new(program::path())
            .arg("check")
            .arg(&file)
            .output()
            .unwrap();
        let said = [checked.stdout, checked.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!checked.status.success());
        assert!(said.contains("listeners.web.auth.optional"), "{said}");
        assert!(said.contains("default: deny"), "{said}");
    }
}
