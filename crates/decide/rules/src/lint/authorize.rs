//! Checks of authorisation servers.

use std::time::Duration;

use hermes_config::model::{
    Authorize, AuthorizeBody, AuthorizeKind, Document, Fail, FieldPattern, HttpVersion,
};

use super::report::{Check, Report, instead, is_token};
use crate::fields::reserved_in;

pub(super) const CHECKS: &[Check] = &[
    names, filters, policies, upstreams, tls, paths, bodies, times, fields,
];

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
            ("rego", authorize.rego.is_some()),
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

/// Least memory of an evaluation: the input alone may take some of it.
const LEAST_MEMORY: u64 = 64 * 1024;

/// Policies that are evaluated here, and keys that say how a server is asked.
fn policies(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        let Some(rego) = authorize
            .rego
            .as_ref()
            .filter(|_| authorize.filter.is_none())
        else {
            return;
        };
        let keys = [
            ("kind", authorize.kind != AuthorizeKind::default()),
            ("upstream", authorize.upstream.is_some()),
            ("url", authorize.url.is_some()),
            ("tls", authorize.tls.is_some()),
            ("path", authorize.path.is_some()),
            ("send", !authorize.send.is_empty()),
            ("body", authorize.body != AuthorizeBody::default()),
            ("cache", authorize.cache.is_some()),
        ];
        for (key, _) in keys.into_iter().filter(|(_, given)| *given) {
            report.add(
                format!("{path}.{key}"),
                format!("`{key}` is for servers, and the policy is evaluated here"),
                "remove one of them",
            );
        }

        if authorize.fail == Fail::Open {
            report.add(
                format!("{path}.fail"),
                "a policy that cannot decide never opens: a client may be the reason",
                "remove it",
            );
        }
        if !is_rule(&rego.query) {
            report.add(
                format!("{path}.rego.query"),
                format!("`{}` names no rule", rego.query.escape_debug()),
                "write one such as data.overlay.allow",
            );
        }
        if rego.memory.is_some_and(|memory| memory.0 < LEAST_MEMORY) {
            report.add(
                format!("{path}.rego.memory"),
                "no policy can be evaluated in so little",
                format!("write at least {}KiB", LEAST_MEMORY >> 10),
            );
        }
    });
}

/// Names with dots, of which the first is `data`, and the last that of a rule.
fn is_rule(query: &str) -> bool {
    let mut names = query.split('.');
    let is_name = |name: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && name.bytes().all(is_letter)
    };
    names.next() == Some("data") && query.matches('.').count() >= 2 && names.all(is_name)
}

fn upstreams(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        if authorize.filter.is_some() || authorize.rego.is_some() {
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
            (Some(name), None) if authorize.kind == AuthorizeKind::Grpc => {
                grpc(document, name, &format!("{path}.upstream"), report);
            }
            _ => {}
        }
    });
}

/// gRPC is spoken over HTTP/2, which has to be said where TLS does not choose.
fn grpc(document: &Document, name: &str, path: &str, report: &mut Report) {
    let Some(upstream) = document.upstreams.get(name) else {
        return;
    };
    let mut versions = upstream.http.iter().flatten();
    let is_spoken = match &upstream.http {
        Some(_) => versions.any(|version| *version == HttpVersion::H2),
        None => upstream.tls.is_some(),
    };
    if !is_spoken {
        let reason = format!("gRPC needs HTTP/2, which the upstream `{name}` does not speak");
        report.add(path, reason, "write `http: 2` there");
    }
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
            Some(_) if authorize.kind == AuthorizeKind::Grpc => {
                report.add(path, "gRPC has a path of its own", "remove it");
            }
            None if authorize.kind == AuthorizeKind::Opa && authorize.rego.is_none() => {
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
                    format!("`{}` is not a path", given.escape_debug()),
                    "write one such as /check",
                );
            }
            _ => {}
        }
    });
}

fn bodies(document: &Document, report: &mut Report) {
    each(document, |path, authorize| {
        let own = match authorize.kind {
            AuthorizeKind::Http => return,
            AuthorizeKind::Opa => "OPA always gets its own JSON",
            AuthorizeKind::Grpc => "a gRPC server always gets its own message",
        };
        if authorize.body == AuthorizeBody::Json {
            report.add(format!("{path}.body"), own, "remove it");
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
                // The server may see the credentials that were shown to the node.
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
