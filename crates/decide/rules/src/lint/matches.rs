//! Checks of the conditions of routes, filters and rules: those that cannot be met.

use hermes_config::child;
use hermes_config::model::{Document, Match, PathMatch};
use hermes_proto::path::has_dot_segments;
use http::HeaderName;

use super::report::{Check, Report, instead, is_token};

pub(super) const CHECKS: &[Check] = &[listeners, methods, field_names, paths, empty];

pub(crate) fn each_match(document: &Document, mut check: impl FnMut(&str, &Match)) {
    for (index, route) in document.routes.iter().enumerate() {
        check(&format!("routes[{index}].match"), &route.matches);
    }
    for (index, authorize) in document.authorize.iter().enumerate() {
        check(&format!("authorize[{index}].match"), &authorize.matches);
    }
    let rules = document.policy.iter().flat_map(|policy| &policy.rules);
    for (index, rule) in rules.enumerate() {
        check(&format!("policy.rules[{index}].match"), &rule.matches);
    }
}

fn listeners(document: &Document, report: &mut Report) {
    each_match(document, |path, matches| {
        for (index, name) in matches
            .listener
            .iter()
            .flat_map(|list| list.iter().enumerate())
        {
            if !document.listeners.contains_key(name) {
                let known = document.listeners.keys().map(String::as_str);
                let reason = format!("there is no listener `{name}`");
                report.add(
                    format!("{path}.listener[{index}]"),
                    reason,
                    instead(name, known, "listeners"),
                );
            }
        }
    });
}

/// Methods are compared with their case (RFC 9110, 9.1), and all registered ones are in capitals.
fn methods(document: &Document, report: &mut Report) {
    each_match(document, |path, matches| {
        for (index, method) in matches
            .method
            .iter()
            .flat_map(|list| list.iter().enumerate())
        {
            let path = format!("{path}.method[{index}]");
            if !is_token(method) {
                report.add(
                    path,
                    format!("`{method}` cannot be a method"),
                    "write one such as GET or CONNECT",
                );
            } else if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
                let reason = format!("method `{method}` would not match: methods are in capitals");
                report.add(
                    path,
                    reason,
                    format!("write {}", method.to_ascii_uppercase()),
                );
            }
        }
    });
}

fn field_names(document: &Document, report: &mut Report) {
    each_match(document, |path, matches| {
        for name in matches
            .fields
            .keys()
            .filter(|name| name.parse::<HeaderName>().is_err())
        {
            let remedy = if name.starts_with(':') {
                "match `method`, `path`, `authority` or `protocol` instead"
            } else {
                "write a name of letters, digits and `-`"
            };
            report.add(
                child(&format!("{path}.fields"), name),
                format!("`{name}` cannot be a field's name"),
                remedy,
            );
        }
    });
}

fn paths(document: &Document, report: &mut Report) {
    each_match(document, |path, matches| {
        for (index, condition) in matches.path.iter().flat_map(|list| list.iter().enumerate()) {
            let (PathMatch::Exact(text) | PathMatch::Prefix(text)) = condition else {
                continue;
            };
            if has_dot_segments(text.as_bytes()) {
                let reason = format!(
                    "`{condition}` never matches: dot segments are resolved before, or refused"
                );
                report.add(
                    format!("{path}.path[{index}]"),
                    reason,
                    "write the path without `.` and `..`",
                );
            }
        }
    });
}

fn empty(document: &Document, report: &mut Report) {
    fn is_empty<T>(list: Option<&[T]>) -> bool {
        list.is_some_and(<[T]>::is_empty)
    }
    each_match(document, |path, matches| {
        let empty = [
            ("target", is_empty(matches.target.as_deref())),
            ("port", is_empty(matches.port.as_deref())),
            ("authority", is_empty(matches.authority.as_deref())),
            ("path", is_empty(matches.path.as_deref())),
            ("method", is_empty(matches.method.as_deref())),
            ("protocol", is_empty(matches.protocol.as_deref())),
            ("user", is_empty(matches.user.as_deref())),
            ("source", is_empty(matches.source.as_deref())),
            ("listener", is_empty(matches.listener.as_deref())),
        ];
        for (key, _) in empty.into_iter().filter(|(_, is_empty)| *is_empty) {
            report.add(
                format!("{path}.{key}"),
                "an empty list matches nothing",
                "remove it to match anything",
            );
        }
    });
}
