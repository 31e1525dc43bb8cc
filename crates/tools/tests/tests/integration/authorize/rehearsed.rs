//! `hermes policy test`: cases and tests in Rego, and what is wrong with them.

use std::fs;
use std::process::Command;

use hermes_tests::program;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tokens::Issuer;

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
            &json!("a is not a URL, such as http://VIDEO/one"),
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

/// Tokens, devices and packets.
const GATE: &str = r#"
version: 1
fields: [user, tenant, role]
users: { alice: ["auth0|7"] }
listeners:
  web:
    http: 127.0.0.1:0
    auth: { bearer: { jwks_file: keys, issuer: https://issuer.test, audience: hermes, groups_claim: roles } }
  vpn:
    user: bob
    tun:
      name: hermes9
      addresses: [10.7.0.9/24]
      tunnels:
        lab:  { prefixes: 10.1.0.0/16, set: { tenant: lab } }
        home: { prefixes: 10.2.0.0/16, user: carol }
  far: { user: bob, tun: { name: hermes8, addresses: [10.8.0.9/24] } }
policy:
  rules:
    - { name: devices, match: { kind: connect-ip, user: bob, source: 10.7.0.0/16 }, allow: true }
    - { name: chat, match: { kind: upgrade, path: /chat }, allow: true }
    - { name: ops, match: { user: claim-group:ops }, set: { role: ops }, allow: true }
    - { name: tokens, match: { listener: web, kind: http }, allow: true }
  packets:
    rules:
      - { name: ssh, user: claim-group:ops, to: 10.1.0.0/16, protocol: tcp, port: 22, allow: true }
      - { name: no-gre, protocol: gre, deny: true }
authorize:
  - { name: tenants, timeout: 60s, match: { kind: http }, allow_fields: [tenant], rego: { files: policy.rego, query: data.a.b } }
routes:
  - { name: packets, match: { kind: connect-ip }, respond: { status: 410 } }
  - { name: others, respond: { status: 404 } }
"#;

const TENANTS: &str = r#"package a
import rego.v1
default b := {"allow": false, "status": 402, "reason": "no tenant"}
b := {"allow": true, "fields": {"tenant": input.claims.tenant}} if input.claims.tenant in ["blue", "green"]
b := {"allow": true} if input.claims.org.owner == input.claims.sub
"#;

const OF_ALL_KINDS: &str = r#"config: node.yaml
cases:
  - { name: tenant, ask: GET http://a/, user: "auth0|7", claims: { tenant: blue }, expect: { allow: true, user: alice, fields: { tenant: blue, role: "" } } }
  - { name: another, ask: GET http://a/, user: "auth0|7", claims: { tenant: red }, expect: { allow: false, status: 402, reason: no tenant } }
  - { name: no token, ask: GET http://a/, user: "auth0|7", expect: { allow: false, status: 402 } }
  - { name: owner, ask: GET http://a/, user: eve, claims: { org: { owner: eve } }, expect: { allow: true, user: eve } }
  - { name: groups, ask: GET http://a/, user: bob, claims: { tenant: green, roles: [ops] }, expect: { allow: true, fields: { role: ops, tenant: green } } }
  - { name: also, ask: GET http://a/, user: bob, claims: { tenant: green }, claim_groups: [ops], expect: { allow: true, fields: { role: ops } } }
  - { name: twice, ask: GET http://a/, user: bob, claims: { roles: [ops] }, claim_groups: [ops], expect: { allow: true } }
  - { name: lab, listener: vpn/lab, expect: { allow: true, route: packets, user: bob, fields: { tenant: lab } } }
  - { name: home, listener: vpn/home, expect: { allow: false, status: 403, reason: no rule } }
  - { name: which, listener: vpn, expect: { allow: true } }
  - { name: far, listener: far, expect: { allow: false, status: 403 } }
  - { name: asked, ask: CONNECT-IP 10.1.0.0/16, user: bob, source: 10.7.0.3, expect: { allow: true, route: packets } }
  - { name: chat, ask: UPGRADE websocket http://a/chat, user: bob, expect: { allow: true, route: others } }
  - { name: ssh, ask: "PACKET tcp 10.1.2.3:22", source: 10.7.0.9, user: bob, claim_groups: [ops], expect: { allow: true, reason: rule ssh } }
  - { name: roles, ask: "PACKET tcp 10.1.2.3:22", source: 10.7.0.9, user: bob, listener: web, claims: { roles: ops }, expect: { allow: true } }
  - { name: others, ask: "PACKET tcp 10.1.2.3:22", source: 10.7.0.9, user: bob, claims: { roles: ops }, expect: { allow: false, reason: no rule } }
  - { name: gre, ask: PACKET gre 10.1.2.3, source: 10.7.0.9, expect: { allow: false, reason: no-gre } }
  - { name: wrong, ask: PACKET gre 10.1.2.3, source: 10.7.0.9, expect: { allow: true } }
  - { name: routed, ask: PACKET gre 10.1.2.3, source: 10.7.0.9, expect: { allow: false, route: packets } }
  - { name: from nowhere, ask: PACKET gre 10.1.2.3, expect: { allow: false } }
"#;

#[test]
fn tokens_devices_and_packets_are_cases_as_requests_are() {
    let folder = folder(&[
        ("node.yaml", GATE),
        ("policy.rego", TENANTS),
        ("keys", &Issuer::eddsa().key_set()),
        ("cases.yaml", OF_ALL_KINDS),
    ]);
    let (code, said, wrong) = test(&folder, &["cases.yaml", "--json"]);
    assert_eq!(code, 1, "{said}{wrong}");
    let said: Value = serde_json::from_str(&said).unwrap();
    let tests = said.as_array().unwrap();
    let failed: Vec<_> = tests
        .iter()
        .filter(|test| !test["failed"].is_null())
        .map(|test| {
            (
                test["name"].as_str().unwrap(),
                test["failed"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        failed,
        [
            (
                "twice",
                "the groups are the claim roles: say either of them"
            ),
            (
                "which",
                "the device of vpn has several tunnels; say which: vpn/lab, vpn/home"
            ),
            ("wrong", "rule no-gre on packets denies it"),
            (
                "routed",
                "of a packet, `expect` has `allow` and `reason` only"
            ),
            ("from nowhere", "say which address the packet comes from"),
        ]
    );
    assert_eq!(tests.len(), 20);
}

/// A policy by hours, and one in Rego that asks for the time.
const TIMED: &str = r#"
version: 1
listeners: { web: { http: 127.0.0.1:0, user: alice } }
policy:
  rules: [ { match: { path: /work }, hours: "mon-fri 08:00-18:00", allow: true }, { match: { path: /moon }, allow: true } ]
authorize:
  - { name: moon, match: { path: /moon }, timeout: 60s, rego: { files: moon.rego, query: data.moon.allow, input: envoy } }
routes: [ { respond: { status: 200 } } ]
"#;

const MOON: &str = r#"
package moon
import rego.v1
allow if {
    time.clock(time.now_ns())[0] < 6
    input.attributes.contextExtensions.user == "alice"
    input.attributes.contextExtensions.kind == "http"
}
"#;

#[test]
fn a_case_and_a_question_suppose_a_time() {
    let cases = r#"
config: node.yaml
cases:
  - { name: friday noon, ask: "GET http://a/work", at: "2026-11-27T12:00:00Z", expect: { allow: true } }
  - { name: friday night, ask: "GET http://a/work", at: "2026-11-27T22:00:00Z", expect: { allow: false } }
  - { name: sunday, ask: "GET http://a/work", at: "2026-11-29T12:00:00Z", expect: { allow: false } }
  - { name: night, ask: "GET http://a/moon", at: "2026-11-29T05:59:59Z", expect: { allow: true } }
  - { name: morning, ask: "GET http://a/moon", at: "2026-11-29T06:00:00Z", expect: { allow: false } }
"#;
    let folder = folder(&[
        ("node.yaml", TIMED),
        ("moon.rego", MOON),
        ("cases.yaml", cases),
    ]);
    let (code, said, errors) = test(&folder, &["cases.yaml"]);
    assert_eq!(code, 0, "{said}{errors}");

    let file = folder.path().join("node.yaml");
    let why_url = |url: &str, at: &str| {
        let file = file.to_str().unwrap();
        program::run(&["why", file, "GET", url, "--at", at]).code
    };
    let why = |at: &str| why_url("http://a/work", at);
    assert_eq!(why_url("http://a/moon", "2026-11-29T05:59:59Z"), 0);
    assert_eq!(why_url("http://a/moon", "2026-11-29T06:00:00Z"), 1);
    assert_eq!(why("2026-11-27T12:00:00Z"), 0);
    assert_eq!(why("2026-11-27T22:00:00Z"), 1);
    assert_eq!(why("noon"), 2);
}

#[test]
fn a_builtin_that_is_missing_is_told_of_before_any_exchange_needs_it() {
    let policy = "package moon\nimport rego.v1\nallow if {\n    token := io.jwt.encode_sign({}, {}, {})\n    token\n}\n";
    let folder = folder(&[("node.yaml", TIMED), ("moon.rego", policy)]);
    let file = folder.path().join("node.yaml");
    let said = program::run(&["check", file.to_str().unwrap()]);
    let text = format!("{}{}", said.stdout, said.stderr);
    assert_eq!(said.code, 2, "{text}");
    for part in ["moon.rego:4:", "io.jwt.encode_sign", "input.claims"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_user_who_is_called_as_a_group_is_warned_of() {
    let node = "version: 1\ngroups: { dba: [dave] }\nlisteners: { web: { http: 127.0.0.1:0, user: dave } }\n\
                routes: [ { match: { user: dba }, respond: { status: 200 } }, { match: { user: group:dba }, respond: { status: 201 } } ]\n";
    let folder = folder(&[("node.yaml", node)]);
    let file = folder.path().join("node.yaml");
    let said = program::run(&["check", file.to_str().unwrap()]);
    let text = format!("{}{}", said.stdout, said.stderr);
    assert!(
        said.code == 0 && text.contains("write group:dba"),
        "{said:?}"
    );
}
