//! Checks of traces and metrics.

use std::time::Duration;

use hermes_config::model::{Continue, Document, TraceUser};

use super::report::{Check, Report, each_listener};

pub(super) const CHECKS: &[Check] = &[needs_a_collector, tls, interval, continued];

/// Metrics sent more often would cost more than they say.
const SHORTEST: Duration = Duration::from_secs(1);

fn needs_a_collector(document: &Document, report: &mut Report) {
    let trace = &document.trace;
    let keys = [
        ("metrics", trace.metrics.is_some()),
        ("user", trace.user != TraceUser::Omit),
    ];
    for (key, _) in keys
        .into_iter()
        .filter(|(_, given)| *given && trace.otlp.is_none())
    {
        let reason = format!("`{key}` does nothing without a collector");
        report.add(
            format!("trace.{key}"),
            reason,
            "add `otlp: http://HOST:4318`, or remove it",
        );
    }
}

fn tls(document: &Document, report: &mut Report) {
    let trace = &document.trace;
    if trace.tls.is_some() && trace.otlp.as_ref().is_none_or(|collector| !collector.tls) {
        report.add(
            "trace.tls",
            "the collector is not reached over TLS",
            "write `otlp: https://...`, or remove it",
        );
    }
}

fn interval(document: &Document, report: &mut Report) {
    if document
        .trace
        .metrics
        .is_some_and(|every| every.0 < SHORTEST)
    {
        report.add(
            "trace.metrics",
            "metrics are sent once a second at most",
            "write 1s or more, such as 15s",
        );
    }
}

/// Only requests have fields that could say which trace goes on.
fn continued(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if listener.trace == Continue::Continue && listener.purpose().is_some() {
            let reason = "`trace: continue` is for `http` listeners";
            report.add(
                format!("{path}.trace"),
                reason,
                "remove it: each connection begins a trace",
            );
        }
    });
}
