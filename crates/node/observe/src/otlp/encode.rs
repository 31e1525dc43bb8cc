//! Spans as OTLP writes them in JSON: identifiers in hexadecimal, 64-bit numbers as strings, enumerations as numbers.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use hermes_config::model::TraceUser;
use serde_json::{Value, json};

use super::super::live::Attempt;
use super::super::record::Record;
use super::Ended;

/// `SPAN_KIND_SERVER`: the request was someone else's.
const SERVER: u8 = 2;

/// `STATUS_CODE_ERROR`; a status that is not set means that nothing is wrong.
const ERROR: u8 = 2;

/// The resource: the measuring node.
pub(super) fn resource(node: &str) -> Value {
    let attributes = [
        text("service.name", "hermes"),
        text("service.instance.id", node),
        text("service.version", env!("CARGO_PKG_VERSION")),
    ];
    json!({ "attributes": attributes })
}

/// The scope: the measuring program.
pub(super) fn scope() -> Value {
    json!({ "name": "hermes", "version": env!("CARGO_PKG_VERSION") })
}

/// An `ExportTraceServiceRequest`.
pub(super) fn request(node: &str, ended: &[Ended], user: TraceUser) -> Value {
    let spans: Vec<Value> = ended.iter().map(|ended| span(ended, user)).collect();
    json!({ "resourceSpans": [{ "resource": resource(node), "scopeSpans": [{ "scope": scope(), "spans": spans }] }] })
}

fn span(ended: &Ended, user: TraceUser) -> Value {
    let context = &ended.span.context;
    let record = &ended.record;
    let name = record.route.as_ref().map_or_else(
        || record.kind.to_owned(),
        |route| format!("{} {route}", record.kind),
    );

    let mut span = json!({
        "traceId": context.trace.to_string(),
        "spanId": context.parent.to_string(),
        // Bit 8 says that bit 9 is known: whether the parent was another process (both: yes).
        "flags": u32::from(context.sampled) | u32::from(context.random) << 1 | 0x100 | u32::from(ended.span.parent.is_some()) << 9,
        "name": name,
        "kind": SERVER,
        "startTimeUnixNano": nanoseconds(ended.began),
        // The wall clock may have been set back meanwhile.
        "endTimeUnixNano": nanoseconds(ended.ended.max(ended.began)),
        "attributes": attributes(ended, user),
        "events": events(record),
    });

    if let Some(parent) = ended.span.parent {
        span["parentSpanId"] = json!(parent.to_string());
    }
    if let Some(state) = ended
        .span
        .state
        .as_ref()
        .and_then(|state| state.to_str().ok())
    {
        span["traceState"] = json!(state);
    }

    if ended.failed {
        span["status"] = json!({ "code": ERROR, "message": record.reason });
    }
    span
}

/// An event for each attempt: its destination, and its outcome if another followed.
fn events(record: &Record) -> Vec<Value> {
    let event = |(count, attempt): (u64, &Attempt)| {
        let attributes = [
            number("hermes.attempt", count),
            text("hermes.endpoint", &attempt.endpoint),
        ];
        let outcome = attempt
            .outcome
            .map(|outcome| text("hermes.outcome", outcome));
        json!({
            "name": "attempt",
            "timeUnixNano": nanoseconds(attempt.at),
            "attributes": attributes.into_iter().chain(outcome).collect::<Vec<_>>(),
        })
    };
    (1..).zip(&record.made).map(event).collect()
}

fn attributes(ended: &Ended, user: TraceUser) -> Vec<Value> {
    let record = &ended.record;
    let texts = [
        ("hermes.kind", Some(record.kind)),
        ("hermes.protocol", Some(record.protocol)),
        ("hermes.exchange", Some(record.id.as_str())),
        ("hermes.target", Some(record.target.as_str())),
        ("hermes.listener", Some(record.listener.as_str())),
        ("hermes.route", record.route.as_deref()),
        ("hermes.upstream", record.upstream.as_deref()),
        ("hermes.endpoint", record.endpoint.as_deref()),
        ("hermes.reason", Some(record.reason.as_str())),
        ("http.request.method", Some(record.method.as_str())),
    ];

    let texts = texts
        .into_iter()
        .filter_map(|(name, value)| Some(text(name, value.filter(|value| !value.is_empty())?)));
    let numbers = [
        (
            "hermes.bytes.client_to_target",
            record.bytes.client_to_target,
        ),
        (
            "hermes.bytes.target_to_client",
            record.bytes.target_to_client,
        ),
        (
            "hermes.datagrams.client_to_target",
            record.datagrams.client_to_target,
        ),
        (
            "hermes.datagrams.target_to_client",
            record.datagrams.target_to_client,
        ),
        ("hermes.datagrams.dropped", record.datagrams.dropped),
    ];

    let numbers = numbers
        .into_iter()
        .filter(|(name, value)| !name.contains("datagrams") || *value > 0);
    let status = record
        .status
        .map(|status| ("http.response.status_code", u64::from(status)));
    let user = record
        .user
        .as_deref()
        .and_then(|name| user_text(name, user))
        .map(|name| text("user.id", &name));

    texts
        .chain(
            numbers
                .chain(status)
                .map(|(name, value)| number(name, value)),
        )
        .chain(user)
        .collect()
}

fn user_text(name: &str, user: TraceUser) -> Option<String> {
    match user {
        TraceUser::Omit => None,
        TraceUser::Name => Some(name.to_owned()),
        TraceUser::Hash => {
            let hash = digest(&SHA256, name.as_bytes());
            Some(
                hash.as_ref()[..16]
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            )
        }
    }
}

/// An attribute that is a text.
pub(super) fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// Time since 1970, in nanoseconds.
pub(super) fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
        .to_string()
}
