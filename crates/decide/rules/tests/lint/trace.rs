//! Checks of traces and metrics.

use serde_json::json;

use super::finds;

#[test]
fn what_is_sent_needs_a_collector() {
    finds(
        json!({ "trace": { "sample": "1%", "metrics": "15s", "user": "name" } }),
        &[
            "trace.metrics: `metrics` does nothing without a collector; add `otlp: http://HOST:4318`, or remove it",
            "trace.user: `user` does nothing without a collector; add `otlp: http://HOST:4318`, or remove it",
        ],
    );
    finds(
        json!({ "trace": { "otlp": "http://127.0.0.1:4318", "metrics": "15s", "user": "hash" } }),
        &[],
    );
}

#[test]
fn metrics_are_not_sent_at_any_pace() {
    finds(
        json!({ "trace": { "otlp": "http://127.0.0.1:4318", "metrics": "10ms" } }),
        &["trace.metrics: metrics are sent once a second at most; write 1s or more, such as 15s"],
    );
}

#[test]
fn tls_is_for_a_collector_that_is_reached_over_it() {
    let tls = json!({ "insecure_skip_verify": true });
    finds(
        json!({ "trace": { "otlp": "http://127.0.0.1:4318", "tls": tls } }),
        &[
            "trace.tls: the collector is not reached over TLS; write `otlp: https://...`, or remove it",
        ],
    );
    finds(
        json!({ "trace": { "otlp": "https://127.0.0.1:4318", "tls": tls } }),
        &[],
    );
}

#[test]
fn trace_fields_may_be_accepted_and_exposed() {
    finds(
        json!({
            "listeners": { "web": { "accepts": ["traceparent", "tracestate"] } },
            "routes": [{ "terminate": true, "expose": ["trace*"] }],
        }),
        &[],
    );
}

#[test]
fn connections_have_no_trace_to_go_on() {
    finds(
        json!({ "listeners": { "db": { "http": null, "tcp": "127.0.0.1:5432", "target": "DB:5432", "trace": "continue" } } }),
        &[
            "listeners.db.trace: `trace: continue` is for `http` listeners; remove it: each connection begins a trace",
        ],
    );
}
