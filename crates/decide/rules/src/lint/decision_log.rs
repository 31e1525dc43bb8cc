//! Checks of the log of decisions.

use hermes_config::model::{DecisionLog, Document};

use super::report::{Check, Report};

pub(super) const CHECKS: &[Check] = &[goes_to_one_place, tls];

fn goes_to_one_place(document: &Document, report: &mut Report) {
    let Some(log) = &document.log.decisions else {
        return;
    };
    match log {
        DecisionLog {
            file: None,
            url: None,
            ..
        } => report.add(
            "log.decisions",
            "neither a file nor a URL for decisions is named",
            "add `file: decisions.json`, or `url: http://HOST:PORT/logs`",
        ),
        DecisionLog {
            file: Some(_),
            url: Some(_),
            ..
        } => report.add(
            "log.decisions.file",
            "decisions are logged in one place",
            "keep either `file` or `url`",
        ),
        _ => {}
    }
}

fn tls(document: &Document, report: &mut Report) {
    let Some(log) = &document.log.decisions else {
        return;
    };
    if log.tls.is_some() && log.url.as_ref().is_none_or(|url| !url.tls) {
        report.add(
            "log.decisions.tls",
            "decisions are not sent over TLS",
            "write `url: https://...`, or remove it",
        );
    }
}
