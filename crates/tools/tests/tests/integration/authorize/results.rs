//! What a decision asks for besides fields of the request: changes of the query, and fields of any answer.

use std::fs;

use hermes_tests::origins::Origin;
use hermes_tests::origins::{self, Request};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl};
use serde_json::Value;

const POLICY: &str = r#"
package envoy.authz
import rego.v1
default allow := {"allowed": true, "response_headers_to_add": {"x-seen": "yes", "set-cookie": "b=2"}}
allow := {
    "allowed": true,
    "response_headers_to_add": {"x-seen": "yes"},
    "query_parameters_to_set": {"tenant": "blue&admin=1"},
    "query_parameters_to_remove": ["admin"],
} if startswith(input.attributes.request.http.path, "/query")
allow := {"allowed": true, "query_parameters_to_set": {"a": "1"}} if input.attributes.request.http.host == "echo:2"
"#;

/// A node that asks this policy about everything, before an origin and an echo.
fn node(origin: &Origin<Request>, echo: &Origin<Vec<u8>>) -> Node {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.rego"), POLICY).unwrap();
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }}, site: {{ http: 127.0.0.1:0, gateway: true }} }}
        authorize:
          - {{ name: page, timeout: 60s, rego: {{ files: policy.rego, query: data.envoy.authz.allow, input: envoy }} }}
        routes:
          - {{ match: {{ path: /here }}, respond: {{ status: 200, body: here, fields: {{ set-cookie: a=1 }} }} }}
          - {{ match: {{ path: /away }}, redirect: {{ location: "http://shop/" }} }}
          - {{ match: {{ target: shop }}, terminate: shop }}
          - {{ match: {{ target: ECHO }}, terminate: echo }}
        upstreams:
          shop: {{ endpoints: ["{}"] }}
          echo: {{ endpoints: ["{}"] }}
        "#,
        origin.address(),
        echo.address()
    );
    Node::start_in(folder, "gate", &yaml, &[])
}

#[test]
fn every_answer_gets_the_fields_that_the_policy_adds() {
    let origin = origins::http();
    let echo = origins::tcp_echo();
    let node = node(&origin, &echo);
    let proxy = node.url("web");
    for (url, status) in [
        ("http://shop/", 200),
        ("http://shop/status/204", 204),
        ("http://shop/here", 200),
        ("http://shop/away", 302),
        ("http://nowhere/", 404),
    ] {
        let got = curl(&["-x", &proxy, url]);
        assert_eq!(got.status, status, "{url}");
        assert_eq!(got.field("x-seen").as_deref(), Some("yes"), "{url}");
    }
    let cookies = curl(&["-x", &proxy, "http://shop/here"]);
    assert_eq!(cookies.field("set-cookie").as_deref(), Some("a=1, b=2"));

    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let url = format!("{}/here", node.url("site"));
        let got = curl(&[version, "-H", "host: shop", &url]);
        assert_eq!(got.status, 200, "{version}");
        assert_eq!(got.field("x-seen").as_deref(), Some("yes"), "{version}");
    }

    let mut tunnel = Raw::connect(node.address("web"));
    tunnel.send("CONNECT ECHO:1 HTTP/1.1\r\nHost: ECHO:1\r\n\r\n");
    let head = tunnel.head();
    assert_eq!(
        (head.status(), head.field("x-seen").as_deref()),
        (200, Some("yes"))
    );
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
}

#[test]
fn the_query_is_what_the_policy_makes_of_it() {
    let origin = origins::http();
    let echo = origins::tcp_echo();
    let node = node(&origin, &echo);
    let proxy = node.url("web");
    let url = "http://shop/query?%61dmin=1&tenant=red&x=%26&admin";
    let got: Value = serde_json::from_str(&curl(&["-x", &proxy, url]).text()).unwrap();
    assert_eq!(got["uri"], "/query?x=%26&tenant=blue%26admin=1");
    curl(&["-x", &proxy, "http://shop/query"]);
    assert_eq!(origin.last().path, "/query?tenant=blue%26admin=1");
}

#[test]
fn parameters_of_what_has_no_query_are_passed_over_and_said() {
    let origin = origins::http();
    let echo = origins::tcp_echo();
    let node = node(&origin, &echo);
    let mut tunnel = Raw::tunnel(node.address("web"), "ECHO:2", "").unwrap();
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    drop(tunnel);
    let record = node.record(|record| record["method"] == "CONNECT");
    let reason = "page allowed: true; parameters are not set: there is no query";
    assert_eq!(record["filters"][0], reason);
}
