//! What is sent to a collector and what Prometheus gets, read by those projects' own code.

use hermes_tests::collector::{Collector, openmetrics};
use hermes_tests::eventually::eventually;
use hermes_tests::{Node, curl, origins};
use serde_json::{Value, json};

/// A client's context.
const CONTEXT: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn node(collector: &Collector, own: std::net::SocketAddr) -> Node {
    let address = collector.address();
    Node::start(
        "front",
        &format!(
            r#"
identity: {{ user: "al\"ice" }}
trace: {{ sample: 0%, otlp: "http://{address}", user: name, metrics: 1s }}
listeners: {{ web: {{ http: 127.0.0.1:0, trace: continue }} }}
routes: [ {{ name: own, terminate: own }} ]
upstreams: {{ own: {{ endpoints: ["{own}"] }} }}
"#
        ),
    )
}

#[test]
fn opentelemetrys_definitions_read_spans_and_metrics() {
    let (collector, origin) = (Collector::start(), origins::http());
    let node = node(&collector, origin.address());
    let get = |fields: &[&str]| {
        let proxy = node.url("web");
        let arguments = [
            &["-x", proxy.as_str(), "http://OWN/bytes/10?secret"],
            fields,
        ]
        .concat();
        assert_eq!(curl(&arguments).status, 200);
    };
    get(&[]);
    get(&["-H", CONTEXT, "-H", "tracestate: a=1"]);
    let message = eventually("a span", || collector.messages("/v1/traces").pop());
    let spans = message["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap();
    assert_eq!(
        spans.len(),
        1,
        "a trace that began here is not one of 0%: {spans:#?}"
    );
    let span = &spans[0];
    assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(
        (&span["parentSpanId"], &span["traceState"]),
        (&json!("00f067aa0ba902b7"), &json!("a=1"))
    );
    assert_eq!(
        (&span["kind"], &span["name"]),
        (&json!("SPAN_KIND_SERVER"), &json!("http own"))
    );
    let attribute = |key: &str| {
        let found = span["attributes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|attribute| attribute["key"] == key);
        found.map_or(Value::Null, |attribute| attribute["value"].clone())
    };
    assert_eq!(attribute("user.id"), json!({ "stringValue": "al\"ice" }));
    assert_eq!(
        attribute("hermes.target"),
        json!({ "stringValue": "OWN:80/bytes/10" })
    );
    assert_eq!(
        attribute("hermes.bytes.target_to_client"),
        json!({ "intValue": "10" })
    );

    let ended = |message: &Value| {
        let metrics = message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
            .as_array()
            .unwrap()
            .clone();
        let find = |name: &str| {
            metrics
                .iter()
                .find(|metric| metric["name"] == name)
                .cloned()
        };
        let own = find("hermes_upstream_duration_seconds")?["histogram"]["dataPoints"][0].clone();
        (own["count"] == "2").then(|| (own, find("hermes_user_bytes").unwrap()))
    };
    let (durations, bytes) = eventually("metrics of both exchanges", || {
        collector.messages("/v1/metrics").iter().find_map(ended)
    });
    assert_eq!(durations["bucketCounts"].as_array().unwrap().len(), 15);
    assert_eq!(durations["explicitBounds"].as_array().unwrap().len(), 14);
    assert_eq!(
        bytes["sum"]["dataPoints"][0]["attributes"][0]["value"]["stringValue"],
        "al\"ice"
    );
}

#[test]
fn prometheus_own_parser_reads_the_metrics() {
    let (collector, origin) = (Collector::start(), origins::http());
    let node = node(&collector, origin.address());
    assert_eq!(curl(&["-x", &node.url("web"), "http://OWN/"]).status, 200);
    node.idle();
    let families = openmetrics(&node.metrics());
    for name in [
        "hermes_user_exchanges",
        "hermes_upstream_duration_seconds",
        "hermes_spans",
        "hermes_bytes",
    ] {
        assert!(
            families.iter().any(|family| family == name),
            "{name}: {families:?}"
        );
    }
}
