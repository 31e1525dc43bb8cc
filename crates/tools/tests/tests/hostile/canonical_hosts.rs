//! Hosts and addresses that can be written in several ways, before rules, filters and policies about one of them.

use std::fs;

use hermes_tests::attacks::spelled_hosts::{SPELLINGS, asked, templates};
use hermes_tests::origins::{self, Answer, deciding};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, program};

use crate::versions::Versions;

/// How rules say that 127.0.0.1 is denied.
fn rules(port: u16) -> Vec<String> {
    let rest = "routes: [ { terminate: true } ]";
    let policy = |target: &str| {
        format!(
            "policy: {{ default: allow, rules: [ {{ match: {{ target: {target} }}, deny: true }} ] }}\n{rest}\n"
        )
    };
    vec![
        policy("127.0.0.1"),
        policy(&format!("\"127.0.0.1:{port}\"")),
        policy("[DB, 127.0.0.1, 192.0.2.1]"),
        policy("\"[::ffff:127.0.0.1]\""),
        policy("127.0.0.0/30"),
        policy("\"~^127[.]0[.]0[.]1$\""),
        format!(
            "services: {{ inner: [127.0.0.1] }}\n{}",
            policy("service:inner")
        ),
        "routes: [ { match: { target: 127.0.0.1 }, respond: { status: 403 } }, { terminate: true } ]\n"
            .to_owned(),
        // More than are compared one by one.
        "routes: [ { match: { target: [127.0.0.1, a] }, respond: { status: 403 } }, { match: { target: b }, respond: { status: 200 } }, \
         { match: { target: c }, respond: { status: 200 } }, { match: { target: d }, respond: { status: 200 } }, \
         { match: { target: e }, respond: { status: 200 } }, { terminate: true } ]\n"
            .to_owned(),
    ]
}

#[test]
fn an_address_in_another_spelling_passes_no_rule_about_it() {
    let origin = origins::http();
    let port = origin.port();
    for (number, rules) in rules(port).into_iter().enumerate() {
        let node = Versions::start("", &format!("egress: {{ allow: [127.0.0.0/8] }}\n{rules}"));
        for host in SPELLINGS {
            refused_in_all_forms(&node, host, port);
        }

        // How a rule is compared does not depend on the version.
        if number == 0 {
            refused_over_http_3(&node, SPELLINGS[0], port);
        }
    }
    assert_eq!(origin.connections(), 0);
}

fn refused_over_http_3(node: &Versions, host: &str, port: u16) {
    let came = node.h3("GET", &format!("{host}:{port}"), "/", &[]);
    assert_eq!(came.status, 403, "{host}: {came:?}");
    for (protocol, path) in templates(host, port) {
        let came = node.h3_upgrade(protocol, "proxy", &path);
        assert_eq!(came.status, 403, "{protocol} {host}: {came:?}");
    }
}

/// Messages of both versions on TCP, and tunnels of three kinds.
fn refused_in_all_forms(node: &Versions, host: &str, port: u16) {
    for (form, status) in asked(node.node.address("web"), host, port) {
        assert_eq!(status, 403, "{host}: {form}");
    }
}

#[test]
fn an_authority_in_another_spelling_passes_no_rule_about_it() {
    let origin = origins::http();
    let port = origin.port();
    for condition in ["127.0.0.1".to_owned(), format!("\"127.0.0.1:{port}\"")] {
        let rules = format!(
            "egress: {{ allow: [127.0.0.0/8] }}\n\
             policy: {{ default: allow, rules: [ {{ match: {{ authority: {condition} }}, deny: true }} ] }}\n\
             routes: [ {{ terminate: true }} ]\n"
        );
        let node = Versions::start("", &rules);
        for host in SPELLINGS {
            // Tunnels by template have the proxy's own authority.
            let forms = asked(node.node.address("web"), host, port);
            let has_it = |form: &str| form.starts_with("GET") || form.starts_with("CONNECT,");
            for (form, status) in forms.into_iter().filter(|(form, _)| has_it(form)) {
                assert_eq!(status, 403, "{condition}: {host}: {form}");
            }
        }
    }
}

#[test]
fn records_name_the_address_that_is_reached() {
    let origin = origins::http();
    let port = origin.port();
    let node = Versions::start(
        "",
        "egress: { allow: [127.0.0.0/8] }\nroutes: [ { terminate: true } ]\n",
    );
    let authority = format!("[::ffff:127.0.0.1]:{port}");
    for came in node.get(&authority, "/x", &[]) {
        assert_eq!(came.status, 200, "{came:?}");
    }
    let written = format!("127.0.0.1:{port}/x");
    node.node
        .record(|record| record["target"] == written.as_str());
}

/// A policy in Rego with a denial of a name and of an address.
const POLICY: &str = r#"
package overlay

import rego.v1

default allow := true

allow := false if input.host in {"secret.example.org", "127.0.0.1"}

allow := false if startswith(input.target, "other.example.org:")
"#;

/// The same in the form of the plugin for Envoy.
const ENVOY: &str = r#"
package overlay

import rego.v1

default allow := true

http := input.attributes.request.http

allow := false if http.host in {"secret.example.org", "127.0.0.1", "other.example.org"}

allow := false if http.headers[":authority"] in {"secret.example.org:443", "other.example.org:443"}
"#;

/// Names and addresses that these deny.
const DENIED: [&str; 5] = [
    "SECRET.example.org",
    "secret.Example.ORG.",
    "Other.EXAMPLE.org",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:1]",
];

fn with_policy(policy: &str, input: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.rego"), policy).unwrap();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         authorize: [ {{ name: overlay, timeout: 60s, rego: {{ files: policy.rego, query: data.overlay.allow{input} }} }} ]\n\
         routes: [ {{ respond: {{ status: 200 }} }} ]\n"
    );
    Node::start_in(folder, "sap", &yaml, &[])
}

fn get(node: &Node, host: &str) -> u16 {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n"
    ));
    raw.head().status()
}

#[test]
fn a_policy_in_rego_sees_one_form_of_each_host() {
    for (policy, input) in [(POLICY, ""), (ENVOY, ", input: envoy")] {
        let node = with_policy(policy, input);
        assert_eq!(get(&node, "open.example.org"), 200);
        for host in DENIED {
            assert_eq!(get(&node, host), 403, "{host}");
        }
        let tunnel = |host: &str| {
            let tunnel = Raw::tunnel(node.address("web"), host, "");
            tunnel.map(drop).unwrap_err().status()
        };
        assert_eq!(tunnel("Secret.example.org:443"), 403);
        // Else the route would answer, which a tunnel cannot be.
        assert_eq!(tunnel("open.example.org:443"), 500);
    }
}

#[test]
fn a_case_and_a_question_see_the_same_form_as_traffic() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("policy.rego", POLICY);
    write(
        "node.yaml",
        "version: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\n\
         authorize: [ { name: overlay, rego: { files: policy.rego, query: data.overlay.allow } } ]\n\
         routes: [ { respond: { status: 200 } } ]\n",
    );
    let cases: String = DENIED
        .iter()
        .map(|host| {
            format!("  - {{ name: \"{host}\", ask: \"GET http://{host}/\", expect: {{ allow: false, status: 403 }} }}\n")
        })
        .collect();
    write("cases.yaml", &format!("config: node.yaml\ncases:\n{cases}"));

    let file = folder.path().join("cases.yaml");
    let said = program::run(&["policy", "test", file.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");

    let file = folder.path().join("node.yaml");
    let why = |host: &str| {
        let url = format!("http://{host}/");
        program::run(&["why", file.to_str().unwrap(), "GET", &url])
    };
    assert!(!why("open.example.org").stdout.contains("403"));
    for host in DENIED {
        let said = why(host);
        assert!(said.stdout.contains("403"), "{host}: {said:?}");
    }
}

#[test]
fn a_server_is_asked_about_one_form_of_each_host() {
    let server = deciding(|question| {
        let host = question
            .request
            .field("x-forwarded-host")
            .unwrap_or_default();
        let told = format!("{host} {}", question.content);
        let is_denied = ["secret.example.org", "192.0.2.9"]
            .iter()
            .any(|denied| told.contains(denied));
        match question.request.path.as_str() {
            "/v1/data/allow" => Answer {
                content: format!("{{ \"result\": {} }}", !is_denied),
                ..Answer::new(200, &[])
            },
            _ => Answer::new(if is_denied { 403 } else { 200 }, &[]),
        }
    });

    for keys in ["", ", kind: opa, path: /v1/data/allow", ", body: json"] {
        let node = Node::start(
            "sap",
            &format!(
                "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
                 authorize: [ {{ name: check, upstream: authority, timeout: 60s{keys} }} ]\n\
                 routes: [ {{ respond: {{ status: 200 }} }} ]\n\
                 upstreams: {{ authority: {{ endpoints: [\"{}\"] }} }}\n",
                server.address()
            ),
        );
        assert_eq!(get(&node, "open.example.org"), 200);
        for host in [
            "SECRET.example.org",
            "Secret.example.org.",
            "[::ffff:192.0.2.9]",
        ] {
            assert_eq!(get(&node, host), 403, "{keys}: {host}");
        }
    }
}

#[test]
fn a_filter_about_an_address_is_asked_about_each_spelling() {
    let server = deciding(|_| Answer::new(403, &[]));
    let node = Node::start(
        "sap",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             authorize: [ {{ name: check, upstream: authority, timeout: 60s, match: {{ target: 127.0.0.1 }} }} ]\n\
             routes: [ {{ respond: {{ status: 200 }} }} ]\n\
             upstreams: {{ authority: {{ endpoints: [\"{}\"] }} }}\n",
            server.address()
        ),
    );
    assert_eq!(get(&node, "127.0.0.2"), 200);
    for host in SPELLINGS {
        assert_eq!(get(&node, host), 403, "{host}");
    }
}

#[test]
fn the_log_of_decisions_names_hosts_in_one_form() {
    let node = Node::start(
        "sap",
        "listeners: { web: { http: 127.0.0.1:0 } }\n\
         log: { decisions: { file: decisions.json } }\n\
         policy: { default: deny }\n\
         routes: [ { respond: { status: 200 } } ]\n",
    );
    for host in ["SECRET.example.org", "[::ffff:192.0.2.1]"] {
        assert_eq!(get(&node, host), 403);
    }
    hermes_tests::eventually::eventually_true("decisions", || {
        let text = fs::read_to_string(node.folder().join("decisions.json")).unwrap_or_default();
        text.contains("\"secret.example.org:80\"") && text.contains("\"192.0.2.1:80\"")
    });
}
