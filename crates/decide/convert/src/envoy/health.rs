//! Health checks, outlier detection and circuit breakers of clusters.

use serde_json::{Map, Value as Json, json};

use crate::draft::Draft;
use crate::quantity::duration;
use crate::source::Node;

pub(super) fn convert(
    cluster: &Node,
    subject: &str,
    upstream: &mut Map<String, Json>,
    draft: &mut Draft,
) {
    let checks = cluster.list("health_checks");
    if let Some(check) = checks.first() {
        match health(check, subject, draft) {
            Some(health) => drop(upstream.insert("health".to_owned(), health)),
            None => {
                check.skip_all();
                let reason = "only checks by HTTP and TCP have a counterpart";
                draft.left_out(check.line, subject.to_owned(), reason);
            }
        }
    }
    for further in checks.iter().skip(1) {
        further.skip_all();
        draft.left_out(
            further.line,
            subject.to_owned(),
            "an upstream has one health check",
        );
    }

    if let Some(outliers) = cluster.field("outlier_detection") {
        upstream.insert("eject".to_owned(), ejection(outliers));
    }
    if let Some(breakers) = cluster.field("circuit_breakers") {
        limits(breakers, upstream);
    }
}

fn health(check: &Node, subject: &str, draft: &mut Draft) -> Option<Json> {
    check.skip(&["no_traffic_interval", "reuse_connection"]);
    let mut health = if let Some(http) = check.field("http_health_check") {
        by_http(http)
    } else {
        let tcp = check.field("tcp_health_check")?;
        if tcp.has("send") || tcp.has("receive") {
            tcp.skip_all();
            let reason = "a check by TCP connects, and says nothing";
            draft.differs(tcp.line, subject.to_owned(), reason);
        }
        json!({ "kind": "tcp" })
    };

    for (theirs, ours) in [("interval", "interval"), ("timeout", "timeout")] {
        if let Some(time) = check.milliseconds(theirs) {
            health[ours] = json!(duration(time));
        }
    }
    for (theirs, ours) in [
        ("healthy_threshold", "healthy"),
        ("unhealthy_threshold", "unhealthy"),
    ] {
        if let Some(count) = check.number(theirs) {
            health[ours] = json!(count.clamp(1, 100));
        }
    }
    Some(health)
}

fn by_http(http: &Node) -> Json {
    let mut health = json!({ "kind": "http" });
    for key in ["path", "host"] {
        if let Some(text) = http.text(key) {
            health[key] = json!(text);
        }
    }
    http.skip(&["service_name_matcher", "codec_client_type"]);

    // Envoy's ranges do not have their end.
    let range = |range: &Node| {
        let start = range.number("start")?;
        let end = range.number("end")?.checked_sub(1)?;
        match start == end {
            true => Some(json!(start)),
            false => Some(json!(format!("{start}-{end}"))),
        }
    };
    let expected: Vec<Json> = http
        .list("expected_statuses")
        .iter()
        .filter_map(range)
        .collect();
    if !expected.is_empty() {
        health["expect"] = json!(expected);
    }
    health
}

fn ejection(outliers: &Node) -> Json {
    outliers.skip(&["interval", "enforcing_consecutive_5xx"]);
    let mut eject = json!({});
    if let Some(count) = outliers.number("consecutive_5xx") {
        eject["consecutive"] = json!(count.clamp(1, 1000));
    }
    if let Some(time) = outliers.milliseconds("base_ejection_time") {
        eject["for"] = json!(duration(time));
    }
    if let Some(percent) = outliers.number("max_ejection_percent") {
        eject["most"] = json!(format!("{}%", percent.min(100)));
    }
    eject
}

fn limits(breakers: &Node, upstream: &mut Map<String, Json>) {
    for threshold in breakers.list("thresholds") {
        threshold.skip(&["priority"]);
        for (theirs, ours) in [
            ("max_connections", "connections"),
            ("max_pending_requests", "pending"),
            ("max_requests", "streams"),
        ] {
            if let Some(count) = threshold.number(theirs).filter(|count| *count > 0) {
                put_limit(upstream, ours, json!(count));
            }
        }
    }
}

/// Puts a limit of an upstream.
pub(super) fn put_limit(upstream: &mut Map<String, Json>, key: &str, value: Json) {
    let limits = upstream.entry("limits").or_insert_with(|| json!({}));
    limits[key] = value;
}
