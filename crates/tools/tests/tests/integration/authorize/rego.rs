//! Policies in Rego that the node evaluates itself.

use std::fs;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins, program};
use serde_json::json;

/// A policy in the form in which the prototype's were written, for OPA's plugin for Envoy.
const PROTOTYPE: &str = include_str!("prototype.rego");

/// A node with this policy, whose routes answer with their names. `keys` are further keys of `rego`.
fn yaml(keys: &str) -> String {
    format!(
        r#"
        fields: [user, service, x-secure]
        listeners: {{ web: {{ http: 127.0.0.1:0, user: alice }} }}
        authorize:
          - {{ name: overlay, timeout: 60s, allow_fields: [x-secure], rego: {{ files: policy.rego, {keys} }} }}
        routes:
          - {{ match: {{ fields: {{ x-secure: admin }} }}, respond: {{ status: 200, body: admin }} }}
          - {{ match: {{ fields: {{ x-secure: user }} }}, respond: {{ status: 200, body: user }} }}
          - {{ respond: {{ status: 200, body: stranger }} }}
        "#
    )
}

fn start(policy: &str, yaml: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.rego"), policy).unwrap();
    Node::start_in(folder, "sap", yaml, &[])
}

const ENVOY: &str = "query: data.envoy.authz.allow, input: envoy";

fn ask(node: &Node, arguments: &[&str]) -> (u16, String) {
    let url = node.url("web");
    let arguments = [&["-x", &url], arguments, &["http://onl/org/web/a?b=c"]].concat();
    let got = curl(&arguments);
    (got.status, got.text())
}

#[test]
fn the_prototype_s_policy_decides_unedited() {
    let node = start(PROTOTYPE, &yaml(ENVOY));
    let ok = |role: &str| (200, role.to_owned());
    assert_eq!(ask(&node, &["-H", "token: admin"]), ok("admin"));
    assert_eq!(ask(&node, &["-H", "token: user"]), ok("user"));
    let forged = ["-H", "token: user", "-H", "x-secure: admin"];
    assert_eq!(ask(&node, &forged), ok("user"));

    assert_eq!(ask(&node, &["-H", "x-secure: admin"]).0, 403);
    let database = ["-X", "POST", "-H", "clientip: 192.168.252.20"];
    assert_eq!(ask(&node, &database), ok("user"));
    let other = ["-X", "POST", "-H", "clientip: 192.168.252.21"];
    assert_eq!(ask(&node, &other).0, 403);

    let record = node.record(|record| record["status"] == 403);
    assert_eq!(record["filters"], json!(["overlay denied: false"]));
    let counted =
        "hermes_filter_decisions_total{filter=\"overlay\",outcome=\"allowed\",remembered=\"no\"} 4";
    assert!(node.metrics().contains(counted), "{}", node.metrics());
}

/// A policy of our own form: who may do what, with words for the others.
const OWN: &str = r#"
package overlay

import rego.v1

default decision := {"allow": false, "status": 402, "body": "pay", "reason": "unpaid"}

decision := {"allow": true, "fields": {"x-secure": "user"}} if {
    input.user == "alice"
    input.kind == "http"
    input.target == "onl:80"
    input.path == "/org/web/a"
    input.query == "b=c"
    input.fields["x-paid"] == "1"
    net.cidr_contains("127.0.0.0/8", input.source)
}

decision := {"allow": true} if {
    input.kind == "connect"
    input.port == 7
}
"#;

#[test]
fn a_policy_sees_requests_and_tunnels_in_our_form() {
    let echo = origins::tcp_echo();
    let port = echo.address().port();
    let policy = OWN.replace("input.port == 7", &format!("input.port == {port}"));
    let yaml = yaml("query: data.overlay.decision").replace(
        "routes:",
        "egress: { allow: [127.0.0.0/8] }\n        routes:\n          - { match: { kind: connect }, terminate: true }",
    );
    let node = start(&policy, &yaml);

    assert_eq!(ask(&node, &["-H", "x-paid: 1"]), (200, "user".to_owned()));
    assert_eq!(ask(&node, &["-H", "x-paid: 2"]), (402, "pay".to_owned()));
    let record = node.record(|record| record["status"] == 402);
    assert_eq!(record["filters"], json!(["overlay denied: unpaid"]));

    let web = node.address("web");
    let mut tunnel = Raw::tunnel(web, &echo.address().to_string(), "").unwrap();
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    let refused = Raw::tunnel(web, "127.0.0.1:1", "").err().unwrap();
    assert_eq!(refused.status(), 402);
}

#[test]
fn a_policy_that_cannot_decide_refuses() {
    let cases = [
        (
            "b if { some i in numbers.range(1, 5000); some j in numbers.range(1, 5000); i < 0 }",
            " than ",
        ),
        (
            "b := {\"allow\": true, \"fields\": {\"x-other\": \"1\"}}",
            "`x-other`",
        ),
        ("b := 1", "neither a truth value"),
        (
            "b := 1 if input.user\nb := 2 if input.host",
            "policy.rego:2",
        ),
    ];
    for (rules, word) in cases {
        let node = start(&format!("package a\n{rules}\n"), &yaml("query: data.a.b"));
        assert_eq!(ask(&node, &[]).0, 503, "{rules}");
        let record = node.record(|record| record["status"] == 503);
        let said = record["filters"][0].as_str().unwrap();
        assert!(said.starts_with("overlay failed_closed: "), "{said}");
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_broken_file_leaves_the_last_good_policy_in_force() {
    let yaml = yaml(ENVOY);
    let node = start(PROTOTYPE, &yaml);
    let file = node.folder().join("policy.rego");
    let admin = || ask(&node, &["-H", "token: admin"]);
    assert_eq!(admin(), (200, "admin".to_owned()));

    fs::write(&file, "package envoy.authz\nallow { input.x == }\n").unwrap();
    let (status, answer) = node.reload(&yaml);
    assert_eq!(status, 422, "{answer}");
    assert!(
        answer.to_string().contains("policy.rego:2:7: expecting }"),
        "{answer}"
    );
    fs::write(&file, "package other\nallow := true\n").unwrap();
    let (status, answer) = node.reload(&yaml);
    assert_eq!(status, 422, "{answer}");
    assert!(answer.to_string().contains("no such rule"), "{answer}");
    assert_eq!(admin(), (200, "admin".to_owned()));

    fs::write(&file, "package envoy.authz\ndefault allow := false\n").unwrap();
    assert_eq!(node.reload(&yaml).0, 200);
    assert_eq!(admin().0, 403);
}

#[test]
fn the_destination_of_a_proxy_header_is_what_a_policy_sees() {
    let policy = "package overlay\nimport rego.v1\ndefault decision := false\n\
                  decision if {\n  input.destination.address == \"192.0.2.1\"\n  input.destination.port == 8443\n}\n";
    let yaml = "
        listeners: { web: { http: 127.0.0.1:0, proxy_protocol: accept, proxy_protocol_from: [127.0.0.0/8] } }
        authorize: [ { name: overlay, timeout: 60s, rego: { files: policy.rego, query: data.overlay.decision } } ]
        routes: [ { respond: { status: 204 } } ]
    ";
    let node = start(policy, yaml);
    for (destination, status) in [
        ("192.0.2.1 4660 8443", 204),
        ("192.0.2.1 4660 443", 403),
        ("192.0.2.2 4660 8443", 403),
    ] {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!("PROXY TCP4 203.0.113.9 {destination}\r\n"));
        raw.send("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(raw.head().status(), status, "{destination}");
    }
}

/// A policy in the form of those for OPA's plugin for Envoy, which verifies tokens itself.
const VERIFIES: &str = r#"
package envoy.authz

import rego.v1

default allow := false

allow if {
    token.holds
    token.claims.role == "guest"
    input.attributes.request.http.method == "GET"
}

token := {"holds": holds, "claims": claims} if {
    [_, encoded] := split(input.attributes.request.http.headers.authorization, " ")
    [holds, _, claims] := io.jwt.decode_verify(encoded, {"secret": "s3cret", "iss": "issuer", "aud": "people"})
}
"#;

#[test]
fn a_policy_verifies_tokens_as_opa_does() {
    let node = start(VERIFIES, &yaml(ENVOY));
    let bearer = |secret: &str, changes: serde_json::Value| {
        let mut claims = json!({ "iss": "issuer", "aud": "people", "role": "guest", "nbf": 1_500_000_000, "exp": 4_000_000_000_u64 });
        for (key, value) in changes.as_object().unwrap() {
            claims[key] = value.clone();
        }
        let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
        let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap();
        format!("authorization: Bearer {token}")
    };
    let status = |field: String| ask(&node, &["-H", &field]).0;

    assert_eq!(status(bearer("s3cret", json!({}))), 200);
    assert_eq!(status(bearer("guessed", json!({}))), 403);
    for changes in [
        json!({ "exp": 1_600_000_000 }),
        json!({ "nbf": 3_900_000_000_u64 }),
        json!({ "iss": "other" }),
        json!({ "aud": "others" }),
        json!({ "role": "admin" }),
    ] {
        assert_eq!(status(bearer("s3cret", changes.clone())), 403, "{changes}");
    }
    assert_eq!(status("authorization: Bearer none".to_owned()), 403);
    assert_eq!(status("x-other: 1".to_owned()), 403);
}

/// Envoy's requests say when they came; a policy that compares that with the clock finds one time, supposed or not.
#[test]
fn the_time_of_a_request_is_where_opas_plugin_for_envoy_has_it() {
    let policy = r#"
        package envoy.authz
        came := time.parse_rfc3339_ns(input.attributes.request.time)
        is_now if abs(came - time.now_ns()) < 60000000000
        is_day if time.format([came, "Europe/Oslo", "2006-01-02 15:04 MST"]) == "2026-11-27 19:30 CET"
        allow if { input.parsed_path[0] == "org"; is_now }
        allow if { input.parsed_path[0] == "day"; is_day; is_now }
    "#;
    let node = start(policy, &yaml(ENVOY));
    assert_eq!(ask(&node, &[]).0, 200);

    let file = node.file();
    let why = |path: &str, at: &str| {
        let url = format!("http://onl{path}");
        program::run(&["why", file.to_str().unwrap(), "GET", &url, "--at", at])
    };
    let allowed = why("/day", "2026-11-27T18:30:00Z");
    assert!(allowed.stdout.contains("overlay allowed"), "{allowed:?}");
    let later = why("/day", "2026-11-27T18:31:00Z");
    assert!(later.stdout.contains("overlay denied"), "{later:?}");
}

/// The machine's time zone may change while a node runs: a reload sees it.
#[test]
fn a_reload_sees_the_time_zone_that_the_machine_has_now() {
    let policy =
        "package envoy.authz\nimport rego.v1\nallow if time.clock([0, \"Local\"])[0] == 1\n";
    let folder = tempfile::tempdir().unwrap();
    let zone = folder.path().join("localtime");
    let take = |name: &str| fs::copy(format!("/usr/share/zoneinfo/{name}"), &zone).unwrap();
    take("Etc/UTC");
    fs::write(folder.path().join("policy.rego"), policy).unwrap();
    let named = zone.display().to_string();
    let yaml = yaml(ENVOY);
    let node = Node::start_in(folder, "sap", &yaml, &[("TZ", &named)]);
    assert_eq!(ask(&node, &[]).0, 403);

    // An hour ahead of UTC, also at the beginning of 1970.
    take("Etc/GMT-1");
    let (status, report) = node.reload(&yaml);
    assert_eq!(status, 200, "{report}");
    assert_eq!(ask(&node, &[]).0, 200);
}
