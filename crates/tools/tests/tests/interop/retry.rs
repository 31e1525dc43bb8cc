//! Envoy as the next hop, which retries too.

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::origins::{Act, acting};
use hermes_tests::{Envoy, Node, curl};
use serde_json::{Value, json};

/// Envoy before `origin`, with this retry policy.
fn envoy(origin: std::net::SocketAddr, policy: &Value) -> Envoy {
    let mut routes = bootstrap::forward("origin");
    for route in &mut routes {
        route["route"]["retry_policy"] = policy.clone();
    }
    Envoy::start(
        "sap",
        vec![bootstrap::http("web", &routes)],
        vec![bootstrap::origin("origin", origin)],
    )
}

fn node(envoy: &Envoy, version: Http) -> Node {
    Node::start(
        "dp",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ to: sap }} ]
            upstreams:
              sap:
                endpoints: ["{}"]
                http: {}
                retry: {{ on: [5xx, refused-stream, connect-failure, gateway-error, reset], attempts: 3, per_try_timeout: 25s }}
            "#,
            envoy.address("web"),
            version.number()
        ),
    )
}

#[test]
fn what_envoy_could_not_deliver_is_sent_again() {
    for version in Http::BOTH {
        let origin = acting(&[Act::Reset, Act::status(503, ""), Act::status(200, "")]);
        let sap = envoy(origin.address(), &json!({}));
        let dp = node(&sap, version);
        let got = curl(&[
            "-x",
            &dp.url("web"),
            "-X",
            "PUT",
            "-d",
            "content",
            "http://VIDEO/a",
        ]);
        assert_eq!((got.status, origin.seen().len()), (200, 3), "{got:?}");
        assert!(
            origin
                .seen()
                .iter()
                .all(|request| request.ends_with("content"))
        );
    }
}

#[test]
fn retries_of_envoy_and_of_hermes_multiply_and_end() {
    for version in Http::BOTH {
        let origin = acting(&[Act::status(503, "")]);
        let sap = envoy(
            origin.address(),
            &json!({ "retry_on": "5xx", "num_retries": 1 }),
        );
        let dp = node(&sap, version);
        let got = curl(&["-x", &dp.url("web"), "http://VIDEO/a"]);
        assert_eq!((got.status, origin.seen().len()), (503, 6), "{got:?}");
        assert_eq!(sap.figure("cluster.origin.upstream_rq_retry"), 3);
    }
}
