//! Checks of changes by listeners, routes and rules: fields and paths.

use hermes_config::child;
use hermes_config::model::{Document, FieldPattern, Template, TemplatePart};
use hermes_proto::path::has_dot_segments;
use http::HeaderName;
use indexmap::IndexMap;

use super::report::{Check, Report};
use super::split_tunnels::each_tunnel;
use crate::fields::{field_value, is_reserved};

pub(super) const CHECKS: &[Check] = &[written, removed, answered, rewritten_paths];

type Templates = IndexMap<String, Template>;

/// Runs a check on everything that changes fields.
fn each_change(
    document: &Document,
    mut check: impl FnMut(&str, [(&str, &Templates); 2], &[FieldPattern]),
) {
    for (name, listener) in &document.listeners {
        let changes = [("set", &listener.set), ("append", &listener.append)];
        check(&child("listeners", name), changes, &listener.remove);
    }
    let nothing = Templates::new();
    for (path, tunnel) in each_tunnel(document) {
        check(&path, [("set", &tunnel.set), ("append", &nothing)], &[]);
    }
    for (index, route) in document.routes.iter().enumerate() {
        check(
            &format!("routes[{index}]"),
            [("set", &route.set), ("append", &route.append)],
            &route.remove,
        );
        if let Some(answer) = &route.answer {
            check(
                &format!("routes[{index}].answer"),
                [("set", &answer.set), ("append", &answer.append)],
                &answer.remove,
            );
        }
    }
    let rules = document.policy.iter().flat_map(|policy| &policy.rules);
    for (index, rule) in rules.enumerate() {
        let changes = [("set", &rule.set), ("append", &nothing)];
        check(&format!("policy.rules[{index}]"), changes, &[]);
    }
}

fn written(document: &Document, report: &mut Report) {
    each_change(document, |path, changes, _| {
        for (key, templates) in changes {
            for (name, template) in templates {
                let path = child(&format!("{path}.{key}"), name);
                field_name(&path, name, report);
                if !template.parts.iter().all(is_clean) {
                    report.add(path, "the value holds a control character", "remove it");
                }
            }
        }
    });
}

fn is_clean(part: &TemplatePart) -> bool {
    match part {
        TemplatePart::Text(text) => !text.trim_matches([' ', '\t']).chars().any(char::is_control),
        TemplatePart::Variable(_) => true,
    }
}

pub(super) fn field_name(path: &str, name: &str, report: &mut Report) {
    match name.parse::<HeaderName>() {
        Err(_) => {
            report.add(
                path,
                format!("`{name}` cannot be a field's name"),
                "write a name of letters, digits and `-`",
            );
        }
        Ok(parsed) if is_reserved(parsed.as_str()) => {
            let reason =
                format!("`{name}` belongs to the connection or to the proxy and cannot be changed");
            report.add(path, reason, "remove it");
        }
        Ok(_) => {}
    }
}

fn removed(document: &Document, report: &mut Report) {
    each_change(document, |path, _, patterns| {
        let named = |pattern: &FieldPattern| !pattern.wildcard && is_reserved(&pattern.prefix);
        for (index, pattern) in patterns
            .iter()
            .enumerate()
            .filter(|(_, pattern)| named(pattern))
        {
            let reason = format!(
                "`{pattern}` belongs to the connection or to the proxy and cannot be changed"
            );
            report.add(format!("{path}.remove[{index}]"), reason, "remove it");
        }
    });
}

/// Fields of local answers.
fn answered(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        for (name, value) in route.respond.iter().flat_map(|respond| &respond.fields) {
            let path = child(&format!("routes[{index}].respond.fields"), name);
            field_name(&path, name, report);
            if field_value(value).is_none() {
                report.add(path, "the value holds a control character", "remove it");
            }
        }
    }
}

fn rewritten_paths(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let Some(rewrite) = route
            .rewrite
            .as_ref()
            .and_then(|rewrite| rewrite.path.as_ref())
        else {
            continue;
        };
        for (key, text) in [("prefix", &rewrite.prefix), ("with", &rewrite.with)] {
            let fits = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
            let clean = text.bytes().all(fits) && !has_dot_segments(text.as_bytes());
            if !text.starts_with('/') || !clean {
                let reason = format!("{text:?} is not the beginning of a path");
                let remedy = "begin with `/`, without `.` and `..`, and percent-encode space, `?`, `#` and characters beyond ASCII";
                report.add(
                    format!("routes[{index}].rewrite.path.{key}"),
                    reason,
                    remedy,
                );
            }
        }
    }
}
