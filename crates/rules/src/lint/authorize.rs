//! Checks of authorisation servers.

use std::time::Duration;

use hermes_config::model::{Authorize, AuthorizeBody, AuthorizeKind, Document, FieldPattern};

use super::report::{Check, Report, instead, is_token};
use crate::fields::reserved_in;

pub(super) const CHECKS: &[Check] = &[names, filters, upstreams, tls, paths, bodies, times, fields];

/// Longest time that an exchange may wait for a decision.
const LONGEST: Duration = Duration::from_secs(60);

/// Longest time for which a decision on a tunnel counts.
const LONGEST_CHECKED: Duration = Duration::from_secs(24 * 3600);

/// Longest time for which a tunnel goes on without a decision that it needs.
const LONGEST_GRACE: Duration = Duration::from_secs(3600);

fn each(document: &Document, mut check: impl FnMut(&str, &Authorize)) {
    for (index, authorize) in document.authorize.iter().enumerate() {
        check(&format!("authorize[{index}]"), authorize);
    }
}

fn names(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        let path = format!("{path}.name");
        let others = document
            .authorize
            .iter()
            .filter(|other| other.name == authorize.name)
            .count();

        if !is_token(&authorize.name) {
            let reason = format!(
                "`{}` cannot be a filter's name",
                authorize.name.escape_debug()
            );
            report.add(path, reason, "write letters, digits and `-`");
        } else if others > 1 {
            report.add(
                path,
                format!("several filters have the name `{}`", authorize.name),
                "give each its own",
            );
        }
    });
}

/// Keys that say how a server is asked, where a filter of the program decides.
fn filters(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        if authorize.filter.is_none() {
            return;
        }
        let keys = [
            ("upstream", authorize.upstream.is_some()),
            ("url", authorize.url.is_some()),
            ("tls", authorize.tls.is_some()),
            ("path", authorize.path.is_some()),
            ("send", !authorize.send.is_empty()),
            ("allow_fields", !authorize.allow_fields.is_empty()),
            ("cache", authorize.cache.is_some()),
            ("recheck", authorize.recheck.is_some()),
            ("concurrency", authorize.concurrency.is_some()),
        ];
        for (key, _) in keys.into_iter().filter(|(_, given)| *given) {
            report.add(
                format!("{path}.{key}"),
                format!("`{key}` is for servers, and `filter` names a part of the program"),
                "remove one of them",
            );
        }
    });
}

fn upstreams(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        if authorize.filter.is_some() {
            return;
        }
        match (&authorize.upstream, &authorize.url) {
            (Some(_), Some(_)) => {
                report.add(
                    format!("{path}.url"),
                    "the server is named twice",
                    "write `url` or `upstream`, not both",
                );
            }
            (None, None) => {
                let reason = "no server is named";
                report.add(
                    format!("{path}.url"),
                    reason,
                    "write one such as http://127.0.0.1:9191, or an `upstream`",
                );
            }
            (Some(name), None) if !document.upstreams.contains_key(name) => {
                let known = document.upstreams.keys().map(String::as_str);
                let reason = format!("there is no upstream `{name}`");
                report.add(
                    format!("{path}.upstream"),
                    reason,
                    instead(name, known, "upstreams"),
                );
            }
            _ => {}
        }
    });
}

fn tls(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        if authorize.tls.is_some() && authorize.url.as_ref().is_none_or(|url| !url.tls) {
            let reason = "the server is not reached over TLS by a `url`";
            report.add(
                format!("{path}.tls"),
                reason,
                "write `url: https://...`, or put it into the upstream",
            );
        }
    });
}

fn paths(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        let path = format!("{path}.path");
        match authorize.path() {
            Some(_)
                if authorize.path.is_some()
                    && authorize
                        .url
                        .as_ref()
                        .is_some_and(|url| !url.path.is_empty()) =>
            {
                report.add(
                    path,
                    "the url has a path already",
                    "write the path in one of them",
                );
            }
            None if authorize.kind == AuthorizeKind::Opa => {
                report.add(
                    path,
                    "OPA has no decision to give",
                    "write one such as /v1/data/overlay/allow",
                );
            }
            Some(given)
                if !given.starts_with('/')
                    || given.bytes().any(|byte| !(b'!'..=b'~').contains(&byte)) =>
            {
                report.add(
                    path,
                    format!("`{}` is no path", given.escape_debug()),
                    "write one such as /check",
                );
            }
            _ => {}
        }
    });
}

fn bodies(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        if authorize.kind == AuthorizeKind::Opa && authorize.body == AuthorizeBody::Json {
            report.add(
                format!("{path}.body"),
                "OPA always gets its own JSON",
                "remove it",
            );
        }
    });
}

fn times(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        let mut check = |key: &str, time: Duration, longest: Duration| {
            if time.is_zero() || time > longest {
                let remedy = format!("write a time up to {}s", longest.as_secs());
                report.add(format!("{path}.{key}"), "the time cannot be kept", remedy);
            }
        };

        if let Some(timeout) = &authorize.timeout {
            check("timeout", timeout.0, LONGEST);
        }
        if let Some(recheck) = &authorize.recheck {
            check("recheck", recheck.0, LONGEST_CHECKED);
        }

        if let Some(cache) = &authorize.cache {
            check("cache.for", cache.time.0, Duration::from_secs(3600));
        }
        if authorize.grace.is_some_and(|grace| grace.0 > LONGEST_GRACE) {
            let remedy = format!("write a time up to {}s", LONGEST_GRACE.as_secs());
            report.add(
                format!("{path}.grace"),
                "a tunnel goes on for too long without a decision",
                remedy,
            );
        }
    });
}

/// Fields that belong to the connection or to the proxy are neither shown nor taken over.
fn fields(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        let mut check = |key: &str, patterns: &[FieldPattern]| {
            for (index, pattern) in patterns
                .iter()
                .enumerate()
                .filter(|(_, pattern)| !pattern.wildcard)
            {
                // The server may see what was shown to the node.
                let shown = |name: &&str| !(key == "send" && *name == "proxy-authorization");
                if let Some(name) = reserved_in(pattern).filter(shown) {
                    let reason = format!("`{name}` belongs to the connection or to the proxy");
                    report.add(format!("{path}.{key}[{index}]"), reason, "remove it");
                }
            }
        };

        check("send", &authorize.send);
        check("allow_fields", &authorize.allow_fields);
    });
}
