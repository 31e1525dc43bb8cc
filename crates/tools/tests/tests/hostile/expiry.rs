//! Times that someone else has chosen.

#[path = "../integration/tokens/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod tokens;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins};
use serde_json::{Value, json};
use tokens::Issuer;

/// A tunnel that was opened with a token which never ends is carried as any other, and the node goes on.
#[test]
fn a_token_that_never_ends_opens_a_tunnel() {
    let issuer = Issuer::eddsa();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), issuer.key_set()).unwrap();
    let yaml = r#"
        listeners:
          web:
            http: 127.0.0.1:0
            auth: { bearer: { jwks_file: keys.json, issuer: "https://issuer.test", audience: hermes } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#;
    let node = Node::start_in(folder, "edge", yaml, &[]);
    let origin = origins::tcp_echo();
    let ends: [Value; 6] = [
        json!(1_u64 << 63),
        json!(u64::MAX),
        json!(u64::MAX - 30),
        json!(i64::MAX),
        json!(1e300),
        json!(9e15),
    ];
    for end in ends {
        let mut claims = issuer.claims("alice");
        claims["exp"] = end.clone();
        let field = format!("Proxy-Authorization: Bearer {}\r\n", issuer.token(&claims));
        let mut tunnel =
            Raw::tunnel(node.address("web"), &origin.address().to_string(), &field).unwrap();
        assert_eq!(tunnel.exchange(b"hello").unwrap(), b"hello", "{end}");
    }
    for end in [json!(-1), json!(-1e300), json!("never"), Value::Null] {
        let mut claims = issuer.claims("alice");
        claims["exp"] = end.clone();
        let field = format!("Proxy-Authorization: Bearer {}\r\n", issuer.token(&claims));
        let refused =
            Raw::tunnel(node.address("web"), &origin.address().to_string(), &field).unwrap_err();
        assert_eq!(refused.status(), 407, "{end}");
    }
    assert!(!node.log().contains("panicked"), "{}", node.log());
}

/// `Retry-After` of an origin, at the end of numbers and of time.
#[test]
fn a_retry_after_without_end_is_not_waited_for() {
    for after in [
        "18446744073709551615",
        "99999999999999999999999",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: {after}\r\nContent-Length: 0\r\n\r\n"
        );
        let origin = origins::scripted(&answer);
        let node = Node::start(
            "edge",
            &format!(
                r#"
                listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
                routes: [ {{ terminate: video, retry: {{ on: gateway-error, attempts: 3 }} }} ]
                upstreams: {{ video: {{ endpoints: ["{}"] }} }}
                "#,
                origin.address()
            ),
        );
        let got = hermes_tests::curl(&["-x", &node.url("web"), "http://VIDEO/"]);
        assert_eq!(
            (got.status, origin.seen().len()),
            (503, 1),
            "{after}: {got:?}"
        );
        assert!(!node.log().contains("panicked"), "{}", node.log());
    }
}
