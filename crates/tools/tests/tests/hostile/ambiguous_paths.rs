//! Paths that servers read differently: parameters of segments, encoded slashes and backslashes, and what is encoded twice.

use std::fs;

use hermes_tests::attacks::ambiguous_paths::HIDDEN;
use hermes_tests::origins::{self, Answer, deciding};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, program};

use crate::versions::{Came, Versions};

/// What no rule here says otherwise about, however it is read.
const HARMLESS: [&str; 6] = [
    "/public/a;v=1/b",
    "/public/group%2Fproject",
    "/public/a%5Cb",
    "/public/100%25",
    "/public/a%252Fb;c",
    "/public/;x/y",
];

/// What is under `/admin/` is denied, by a route or by the policy.
fn denying(origin: &str, keys: &str) -> [Versions; 2] {
    let ends = format!(
        "  - {{ terminate: video }}\nupstreams: {{ video: {{ endpoints: [\"{origin}\"] }} }}\n{keys}\n"
    );
    [
        format!(
            "routes:\n  - {{ match: {{ path: /admin/* }}, respond: {{ status: 403 }} }}\n{ends}"
        ),
        format!(
            "policy: {{ default: allow, rules: [ {{ match: {{ path: /admin/* }}, deny: true }} ] }}\nroutes:\n{ends}"
        ),
    ]
    .map(|rest| Versions::start("", &rest))
}

/// A GET over each version; how a path is compared does not depend on which, so only some are asked over HTTP/3.
fn over_all_versions(node: &Versions, path: &str) -> Vec<Came> {
    let mut all = vec![
        node.h1("GET", "VIDEO", path, &[]),
        node.h2("GET", "VIDEO", path, &[]),
    ];
    if path.contains("admin;") || path.contains("%2Fs") {
        all.push(node.h3("GET", "VIDEO", path, &[]));
    }
    all
}

#[test]
fn a_path_that_servers_read_differently_passes_no_rule() {
    let origin = origins::http();
    for node in denying(&origin.address().to_string(), "") {
        for path in HIDDEN {
            for came in over_all_versions(&node, path) {
                assert_eq!(came.status, 400, "{path}: {came:?}");
                assert!(came.said.contains("insecure_paths"), "{path}: {came:?}");
            }
        }
        assert_eq!(origin.connections(), 0);
    }
}

#[test]
fn a_path_about_which_no_rule_differs_passes_as_it_is() {
    let origin = origins::http();
    for node in denying(&origin.address().to_string(), "") {
        for path in HARMLESS {
            for came in over_all_versions(&node, path) {
                assert_eq!(came.status, 200, "{path}: {came:?}");
                assert_eq!(origin.last().path, path);
            }
        }
    }
}

#[test]
fn dot_segments_for_some_servers_are_refused_before() {
    let origin = origins::http();
    for node in denying(&origin.address().to_string(), "") {
        for path in [
            "/public/..;/admin/secret",
            "/public/.;/../admin/secret",
            "/public/..%2Fadmin/secret",
            "/public/%2e%2e%5Cadmin/secret",
            "/admin/..;x/admin/secret",
        ] {
            for came in over_all_versions(&node, path) {
                assert_eq!(came.status, 400, "{path}: {came:?}");
            }
        }
        assert_eq!(origin.connections(), 0);
    }
}

#[test]
fn an_operator_may_have_paths_compared_as_they_are_written() {
    let origin = origins::http();
    let keys = "defaults: { insecure_paths: true }";
    for node in denying(&origin.address().to_string(), keys) {
        for came in over_all_versions(&node, "/admin;x/secret") {
            assert_eq!(came.status, 200, "{came:?}");
        }
    }
}

#[test]
fn a_rewrite_is_not_slipped_past() {
    let origin = origins::http();
    let node = Versions::start(
        "",
        &format!(
            "routes: [ {{ rewrite: {{ path: {{ prefix: /public, with: /open }} }}, terminate: video }} ]\n\
             upstreams: {{ video: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        ),
    );
    for path in ["/public;x/secret", "/public%2Fsecret", "/;/public/secret"] {
        for came in over_all_versions(&node, path) {
            assert_eq!(came.status, 400, "{path}: {came:?}");
        }
    }
    for came in over_all_versions(&node, "/public/a;b") {
        assert_eq!((came.status, &*origin.last().path), (200, "/open/a;b"));
    }
}

/// Policies that deny what is under `/admin/`, each in its way.
const POLICIES: [(&str, &str); 3] = [
    ("startswith(input.path, \"/admin/\")", ""),
    (
        "startswith(input.attributes.request.http.path, \"/admin/\")",
        ", input: envoy",
    ),
    ("input.parsed_path[0] == \"admin\"", ", input: envoy"),
];

fn get(node: &Node, path: &str) -> u16 {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://site{path} HTTP/1.1\r\nHost: site\r\n\r\n"
    ));
    raw.head().status()
}

#[test]
fn a_policy_in_rego_is_asked_about_each_reading() {
    for (condition, input) in POLICIES {
        let folder = tempfile::tempdir().unwrap();
        let policy = format!(
            "package overlay\nimport rego.v1\ndefault allow := true\nallow := false if {condition}\n"
        );
        fs::write(folder.path().join("policy.rego"), policy).unwrap();
        let yaml = format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             authorize: [ {{ name: overlay, timeout: 60s, rego: {{ files: policy.rego, query: data.overlay.allow{input} }} }} ]\n\
             routes: [ {{ respond: {{ status: 200 }} }} ]\n"
        );
        let node = Node::start_in(folder, "sap", &yaml, &[]);
        for path in HIDDEN {
            let status = get(&node, path);
            assert!(
                [400, 403].contains(&status),
                "{condition}: {path}: {status}"
            );
        }
        for path in ["/public/a;v=1/b", "/public/group%2Fproject"] {
            assert_eq!(get(&node, path), 200, "{condition}: {path}");
        }

        // Tests of a configuration say the same.
        let cases = node.folder().join("cases.yaml");
        let text = "config: sap.yaml\ncases:\n  \
                    - { name: hidden, ask: \"GET http://site/admin;x/secret\", expect: { allow: false, status: 403 } }\n";
        fs::write(&cases, text.replace("sap.yaml", &file_name(&node))).unwrap();
        let said = program::run(&["policy", "test", cases.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{said:?}");
    }
}

fn file_name(node: &Node) -> String {
    let file = node.file();
    file.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_server_is_asked_about_each_reading() {
    let server = deciding(|question| {
        let uri = question.request.field("x-forwarded-uri");
        let is_denied = uri.is_some_and(|uri| uri.starts_with("/admin/"));
        Answer::new(if is_denied { 403 } else { 200 }, &[])
    });
    for matches in ["", ", match: { path: /admin/* }"] {
        let node = Node::start(
            "sap",
            &format!(
                "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
                 authorize: [ {{ name: check, upstream: authority, timeout: 60s{matches} }} ]\n\
                 routes: [ {{ respond: {{ status: 200 }} }} ]\n\
                 upstreams: {{ authority: {{ endpoints: [\"{}\"] }} }}\n",
                server.address()
            ),
        );
        for path in HIDDEN {
            let status = get(&node, path);
            assert!([400, 403].contains(&status), "{matches}: {path}: {status}");
        }
        server.forget();
        assert_eq!(get(&node, "/public/plain"), 200);
        // An ordinary path is one question, or none.
        assert!(server.seen().len() <= 1);
    }
}
