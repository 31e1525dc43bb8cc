//! Checks of routes: their names, actions and order.

use std::collections::HashMap;

use hermes_config::child;
use hermes_config::model::{Document, Hops, HostPort, Route, Terminate};

use super::report::{Check, Report, instead};
use crate::fields::OverlayFields;
use crate::shadow::shadows;

pub(super) const CHECKS: &[Check] = &[
    action,
    terminate_false,
    upstream_names,
    weights,
    statuses,
    names,
    expose,
    shadowed,
    timeouts,
];

pub(super) fn each_route(document: &Document, mut check: impl FnMut(&str, &Route)) {
    for (index, route) in document.routes.iter().enumerate() {
        check(&format!("routes[{index}]"), route);
    }
}

fn action(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        let actions = [
            ("to", route.to.is_some()),
            ("terminate", route.terminate.is_some()),
            ("attach", route.attach.is_some()),
            ("respond", route.respond.is_some()),
            ("redirect", route.redirect.is_some()),
            ("handle", route.handle.is_some()),
        ];

        let given: Vec<&str> = actions
            .into_iter()
            .filter(|(_, given)| *given)
            .map(|(key, _)| key)
            .collect();

        if given.is_empty() {
            report.add(
                path,
                "the route does nothing",
                "give one of `to`, `terminate`, `attach`, `respond`, `redirect` and `handle`",
            );
        } else if let [_, second, ..] = given.as_slice() {
            let reason = format!("the route has several actions: {}", given.join(", "));
            report.add(format!("{path}.{second}"), reason, "keep one of them");
        }
    });
}

fn terminate_false(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        if matches!(route.terminate, Some(Terminate::Target(false))) {
            let reason = "`terminate: false` is not an action";
            report.add(
                format!("{path}.terminate"),
                reason,
                "write `true`, the name of an upstream, an address, or another action",
            );
        }
    });
}

fn upstream_names(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        let mut check = |path: String, name: &str| {
            if !document.upstreams.contains_key(name) {
                let known = document.upstreams.keys().map(String::as_str);
                let remedy = address(name).unwrap_or_else(|| instead(name, known, "upstreams"));
                report.add(path, format!("there is no upstream `{name}`"), remedy);
            }
        };

        match &route.to {
            Some(Hops::One(name)) => check(format!("{path}.to"), name),
            Some(Hops::Split(split)) => split
                .keys()
                .for_each(|name| check(child(&format!("{path}.to"), name), name)),
            Some(Hops::Chain(chain)) => {
                chain
                    .hops()
                    .iter()
                    .enumerate()
                    .for_each(|(index, name)| check(format!("{path}.to[{index}]"), name));
            }
            None => {}
        }

        if let Some(Terminate::Upstream(name)) = &route.terminate {
            check(format!("{path}.terminate"), name);
        }
    });
}

/// The remedy for an address in place of the name of an upstream. Valid addresses in `terminate`
/// are upstreams by now.
fn address(name: &str) -> Option<String> {
    if name.contains("://") {
        return Some(
            "only `host:port` can stand here; define an upstream with `endpoints`, and with `tls` for https".to_owned(),
        );
    }
    name.parse::<HostPort>()
        .ok()
        .map(|address| format!("define an upstream with `endpoints: [{address}]` and name it here"))
}

fn weights(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        if let Some(Hops::Split(split)) = &route.to
            && split.values().all(|weight| *weight == 0)
        {
            let reason = "no upstream of the split has a weight above zero";
            report.add(
                format!("{path}.to"),
                reason,
                "give at least one of them a weight",
            );
        }
    });
}

fn statuses(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        if let Some(respond) = &route.respond
            && !(200..=599).contains(&respond.status)
        {
            let reason = format!("{} is not the status of a final response", respond.status);
            report.add(
                format!("{path}.respond.status"),
                reason,
                "write one from 200 to 599",
            );
        }

        // RFC 9110, 15.4: the others do not send a client elsewhere, or are no longer used.
        let status = route
            .redirect
            .as_ref()
            .and_then(|redirect| redirect.status)
            .unwrap_or(302);

        if ![301, 302, 303, 307, 308].contains(&status) {
            let reason = format!("{status} is not the status of a redirect");
            report.add(
                format!("{path}.redirect.status"),
                reason,
                "write 301, 302, 303, 307 or 308",
            );
        }
    });
}

fn names(document: &Document, report: &mut Report) {
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (index, route) in document.routes.iter().enumerate() {
        let Some(name) = &route.name else { continue };
        let owner = *first.entry(name).or_insert(index);
        if owner != index {
            let reason = format!("routes[{owner}] has the name `{name}` already");
            report.add(
                format!("routes[{index}].name"),
                reason,
                "give each route a name of its own",
            );
        }
    }
}

fn expose(document: &Document, report: &mut Report) {
    let overlay = OverlayFields::new(&document.fields);
    each_route(document, |path, route| {
        for (index, pattern) in route.expose.iter().enumerate() {
            // `Forwarded` is shown to an origin only if the route says so, as overlay fields are.
            if !overlay.meets(pattern) && !pattern.matches("forwarded") {
                let reason = format!(
                    "`{pattern}` has no effect: it is not an overlay field, and other fields pass anyway"
                );
                report.add(
                    format!("{path}.expose[{index}]"),
                    reason,
                    "remove it, or declare it in `fields`",
                );
            }
        }
    });
}

fn shadowed(document: &Document, report: &mut Report) {
    for shadow in shadows(&document.routes) {
        let by = match &document.routes[shadow.by].name {
            Some(name) => format!("routes[{}] ({name})", shadow.by),
            None => format!("routes[{}]", shadow.by),
        };

        let reason = format!("the route can never match: {by} takes everything that it would");
        report.add(
            format!("routes[{}]", shadow.dead),
            reason,
            format!("move it before routes[{}], or remove it", shadow.by),
        );
    }
}

fn timeouts(document: &Document, report: &mut Report) {
    each_route(document, |path, route| {
        super::upstreams::zero_timeouts(path, &route.timeouts, report)
    });
}
