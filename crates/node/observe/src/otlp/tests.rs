//! Messages to the collector.

use std::time::{Duration, UNIX_EPOCH};

use hermes_config::model::TraceUser;
use hermes_net::PeerAddress;
use hermes_proto::trace_context::TraceContext;
use http::Method;
use serde_json::{Value, json};

use super::super::span::Span;
use super::super::{AccessSink, Begin, Telemetry};
use super::{QUEUE, encode, metrics};

fn telemetry() -> std::sync::Arc<Telemetry> {
    let telemetry = Telemetry::new("alice", AccessSink::off());
    telemetry
        .spans
        .on
        .store(true, std::sync::atomic::Ordering::Relaxed);
    telemetry
}

fn exchange(telemetry: &std::sync::Arc<Telemetry>, flags: &str) -> super::super::Exchange {
    let begin = Begin {
        kind: "http",
        listener: "web".into(),
        source: PeerAddress::Ip(([192, 0, 2, 1], 4711).into()),
        protocol: "h1",
    };

    let exchange = telemetry.begin(begin);
    let context = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
    let context = TraceContext::parse(context.as_bytes()).unwrap();
    exchange.trace(Span {
        context,
        parent: Some(context.parent),
        state: None,
    });

    exchange
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let found = span["attributes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |attribute| &attribute["value"])
}

#[test]
fn only_sampled_exchanges_are_queued_and_only_while_there_is_room() {
    let telemetry = telemetry();
    exchange(&telemetry, "00").finish("done");
    for _ in 0..QUEUE {
        exchange(&telemetry, "01").finish("done");
    }

    // One source leaves room to others.
    let queued = telemetry.spans.far.lock().as_ref().unwrap().len();
    assert!((QUEUE / 2..QUEUE).contains(&queued), "{queued}");
    let lost = format!(
        "hermes_spans_total{{outcome=\"queue_full\"}} {}\n",
        QUEUE - queued
    );
    assert!(telemetry.metrics_text().contains(&lost));

    let other = exchange(&telemetry, "01");
    other.user("alice");
    other.finish("done");
    let with_hers = telemetry.spans.far.lock().as_ref().unwrap().len();
    assert_eq!(with_hers, queued + 1);
}

#[test]
fn a_span_says_what_the_record_says_and_of_users_only_what_it_may() {
    let telemetry = telemetry();
    let exchange = exchange(&telemetry, "03");
    exchange.method(&Method::GET);
    exchange.user("alice");
    exchange.route(&"video".into());
    exchange.status(502);
    exchange.upstream(&"video".into(), &"192.0.2.1:80".into(), None);
    exchange.attempt_ended("reset");
    exchange.upstream(&"video".into(), &"192.0.2.2:80".into(), None);
    exchange.finish("connection_refused: 192.0.2.1:80");

    let ended = telemetry
        .spans
        .far
        .lock()
        .as_mut()
        .unwrap()
        .try_recv()
        .unwrap();

    let batch = [ended];
    let span = |user| {
        encode::request("alice", &batch, user)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
            .clone()
    };

    let omitted = span(TraceUser::Omit);
    assert_eq!(omitted["name"], "http video");
    assert_eq!(omitted["flags"], 0x303);
    assert_eq!(
        (&omitted["parentSpanId"], &omitted["kind"]),
        (&json!("00f067aa0ba902b7"), &json!(2))
    );
    assert_eq!(
        omitted["status"],
        json!({ "code": 2, "message": "connection_refused: 192.0.2.1:80" })
    );
    assert_eq!(
        attribute(&omitted, "http.response.status_code"),
        &json!({ "intValue": "502" })
    );
    assert_eq!(attribute(&omitted, "user.id"), &Value::Null);
    let first = &omitted["events"][0];
    let second = &omitted["events"][1];
    assert_eq!(
        (&first["name"], attribute(first, "hermes.outcome")),
        (&json!("attempt"), &json!({ "stringValue": "reset" }))
    );
    assert_eq!(
        attribute(second, "hermes.endpoint"),
        &json!({ "stringValue": "192.0.2.2:80" })
    );
    assert_eq!(
        (
            attribute(second, "hermes.attempt"),
            attribute(second, "hermes.outcome")
        ),
        (&json!({ "intValue": "2" }), &Value::Null)
    );

    assert_eq!(
        attribute(&span(TraceUser::Name), "user.id")["stringValue"],
        "alice"
    );

    // printf alice | sha256sum
    assert_eq!(
        attribute(&span(TraceUser::Hash), "user.id")["stringValue"],
        "2bd806c97f0e00af1a1fc3328fa763a9"
    );
}

#[test]
fn metrics_are_sums_gauges_and_histograms() {
    let text = "# HELP a_bytes Bytes moved.\n# TYPE a_bytes counter\na_bytes_total{x=\"q\\\"u,o}te\",y=\"\"} 3\n\
                # HELP t Time.\n# TYPE t histogram\n# UNIT t seconds\nt_sum{k=\"v\"} 2.5\nt_count{k=\"v\"} 3\n\
                t_bucket{le=\"1.0\",k=\"v\"} 2\nt_bucket{le=\"+Inf\",k=\"v\"} 3\n\
                # HELP g Now.\n# TYPE g gauge\ng 1.5\n# EOF\n";
    let message = metrics::request(
        "alice",
        text,
        UNIX_EPOCH,
        UNIX_EPOCH + Duration::from_nanos(7),
    );

    let metrics = &message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    assert_eq!(metrics.as_array().unwrap().len(), 3, "{metrics:#}");
    let sum = &metrics[0]["sum"];
    assert_eq!(
        (&metrics[0]["name"], &sum["isMonotonic"]),
        (&json!("a_bytes"), &json!(true))
    );
    let point = &sum["dataPoints"][0];
    assert_eq!(
        (&point["asInt"], &point["timeUnixNano"]),
        (&json!("3"), &json!("7"))
    );
    assert_eq!(
        attribute(point, "x"),
        &json!({ "stringValue": "q\"u,o}te" })
    );
    let point = &metrics[1]["histogram"]["dataPoints"][0];
    assert_eq!((&point["count"], &point["sum"]), (&json!("3"), &json!(2.5)));
    assert_eq!(
        (&point["bucketCounts"], &point["explicitBounds"]),
        (&json!(["2", "1"]), &json!([1.0]))
    );
    assert_eq!(metrics[2]["gauge"]["dataPoints"][0]["asDouble"], 1.5);
}
