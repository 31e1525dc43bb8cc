//! Checks of attachments: listeners that attach elsewhere, routes that let others attach here, upstreams that reach them.

use hermes_config::model::{
    Attach, AttachAs, Document, Hops, Listener, Match, Template, TemplatePart, Terminate,
    TextMatch, TlsChoice, Upstream,
};
use hermes_proto::host;
use hermes_proto::ptth::{self, PtthError};

use super::report::{Check, Report, each_listener, each_upstream, instead};
use crate::route::hops_of;

pub(super) const CHECKS: &[Check] = &[
    to,
    name,
    connections,
    listener_keys,
    route,
    own,
    upstream_keys,
    leads,
];

/// The only token with which one attaches.
const PTTH: &str = "ptth";

fn each_attach(document: &Document, mut check: impl FnMut(&str, &Listener, &Attach)) {
    each_listener(document, |path, listener| {
        if let Some(attach) = listener.attach() {
            check(&format!("{path}.attach"), listener, attach);
        }
    });
}

fn to(document: &Document, report: &mut Report) {
    each_attach(document, |path, _, attach| {
        let name = attach.upstream();
        let key = if matches!(attach, Attach::Details(_)) {
            format!("{path}.to")
        } else {
            path.to_owned()
        };

        match document.upstreams.get(name) {
            None => {
                let known = document.upstreams.keys().map(String::as_str);
                report.add(
                    key,
                    format!("there is no upstream `{name}`"),
                    instead(name, known, "upstreams"),
                );
            }
            Some(upstream) if upstream.attached.is_some() => {
                let reason = format!(
                    "upstream `{name}` is for users attached here: it cannot be attached to"
                );
                report.add(key, reason, "name an upstream with `endpoints`");
            }
            Some(_) => {}
        }
    });
}

fn name(document: &Document, report: &mut Report) {
    each_attach(document, |path, _, attach| {
        let identity = document
            .identity
            .as_ref()
            .map(|identity| identity.user.as_str());
        let Some(name) = attach.name().or(identity) else {
            let reason = "the listener does not say under which name it attaches";
            return report.add(
                path,
                reason,
                "write `{ to: UPSTREAM, as: NAME }`, or give the node an `identity`",
            );
        };

        if let Err(unfit) = fits(name) {
            let key = if attach.name().is_some() {
                format!("{path}.as")
            } else {
                path.to_owned()
            };

            report.add(key, unfit.reason, unfit.remedy);
        }
    });
}

/// Why no one can be attached under a name.
struct UnfitName {
    reason: String,
    remedy: String,
}

/// Whether someone can be attached under this name.
fn fits(name: &str) -> Result<(), UnfitName> {
    ptth::check_name(name).map_err(|error| match (error, host::parse(name)) {
        (PtthError::Spelling, Ok(host)) => UnfitName {
            reason: format!(
                "attaching as `{name}` is not possible: targets of that name are compared as `{host}`"
            ),
            remedy: format!("write `{host}`, here and wherever that user is named"),
        },
        _ => UnfitName {
            reason: format!("attaching as `{name}` is not possible"),
            remedy: "write 1 to 256 visible characters of ASCII, without capitals".to_owned(),
        },
    })
}

fn connections(document: &Document, report: &mut Report) {
    each_attach(document, |path, _, attach| {
        if attach
            .connections()
            .is_some_and(|connections| !(1..=16).contains(&connections))
        {
            let reason = format!(
                "{} is not a number of attachments",
                attach.connections().unwrap_or_default()
            );
            report.add(
                format!("{path}.connections"),
                reason,
                "write one from 1 to 16",
            );
        }
    });
}

/// Keys of every kind that mean nothing where this node itself opens the connections.
fn listener_keys(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if listener.attach().is_none() {
            return;
        }

        let keys = [
            (
                "user",
                listener.user.is_some(),
                "incoming exchanges belong to the users that a peer speaks for",
            ),
            ("public", listener.public, "no stranger can reach it"),
        ];
        for (key, _, why) in keys.into_iter().filter(|(_, given, _)| *given) {
            report.add(
                format!("{path}.{key}"),
                format!("`{key}` says nothing where one attaches: {why}"),
                "remove it",
            );
        }
    });
}

/// Routes that let others attach take nothing else.
fn route(document: &Document, report: &mut Report) {
    for (index, route) in document
        .routes
        .iter()
        .enumerate()
        .filter(|(_, route)| route.attach.is_some())
    {
        let asks = |Match { protocol, .. }: &Match| {
            protocol
                .as_deref()
                .is_some_and(|tokens| tokens.iter().all(|token| token.eq_ignore_ascii_case(PTTH)))
        };
        if !asks(&route.matches) {
            let reason = "a route with `attach` would take requests that do not ask for it";
            report.add(
                format!("routes[{index}].attach"),
                reason,
                "add `match: { protocol: ptth }`",
            );
        }
    }
}

fn own(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let path = format!("routes[{index}].attach");
        match &route.attach {
            Some(AttachAs::Own(false)) => {
                report.add(
                    path,
                    "`attach: false` is not an action",
                    "write `true`, names, or another action",
                );
            }
            Some(AttachAs::Names(names)) => {
                for name in names {
                    if let TextMatch::Exact(name) = name
                        && let Err(unfit) = fits(name)
                    {
                        report.add(path.clone(), unfit.reason, unfit.remedy);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Keys about endpoints, which attached nodes are not.
fn upstream_keys(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        if upstream.attached.is_none() {
            return;
        }
        let keys = [
            ("endpoints", !upstream.endpoints.is_empty()),
            ("http", upstream.http.is_some()),
            // Saying "none" is the way to switch the node's default off.
            (
                "tls",
                upstream
                    .tls
                    .as_ref()
                    .is_some_and(|tls| *tls != TlsChoice::Switch(false)),
            ),
            ("hash", upstream.hash.is_some()),
            ("health", upstream.health.is_some()),
            ("eject", upstream.eject.is_some()),
            ("slow_start", upstream.slow_start.is_some()),
            ("warm", upstream.warm > 0),
            ("keepalive", upstream.keepalive.is_some()),
            ("via", upstream.via.is_some()),
            ("proxy_protocol", upstream.proxy_protocol.is_some()),
            ("send_token", upstream.send_token == Some(true)),
        ];

        for (key, _) in keys.into_iter().filter(|(_, given)| *given) {
            let reason = format!(
                "`{key}` says nothing of nodes that are attached here: they open the connections"
            );
            report.add(
                format!("{path}.{key}"),
                reason,
                "remove it, or remove `attached`",
            );
        }

        if upstream.attached.as_ref().is_some_and(is_capital) {
            let reason = "attaching under a name with capitals is not possible";
            report.add(
                format!("{path}.attached"),
                reason,
                "write it without capitals",
            );
        } else if let Some(name) = upstream.attached.as_ref().and_then(text_alone)
            && let Err(unfit) = fits(name)
        {
            report.add(format!("{path}.attached"), unfit.reason, unfit.remedy);
        }
    });
}

/// The text of a template that nothing is put into.
fn text_alone(name: &Template) -> Option<&str> {
    match name.parts.as_slice() {
        [TemplatePart::Text(text)] => Some(text),
        _ => None,
    }
}

fn is_capital(name: &Template) -> bool {
    name.parts
        .iter()
        .any(|part| matches!(part, TemplatePart::Text(text) if text.bytes().any(|b| b.is_ascii_uppercase())))
}

/// Attached nodes are proxies that carry exchanges on: no tunnel ends at them, and no endpoint is reached through them.
fn leads(document: &Document, report: &mut Report) {
    let attached = |name: &str| {
        document
            .upstreams
            .get(name)
            .is_some_and(|upstream| upstream.attached.is_some())
    };

    for (index, route) in document.routes.iter().enumerate() {
        if let Some(Terminate::Upstream(name)) = &route.terminate
            && attached(name)
        {
            let reason =
                format!("the overlay does not end at `{name}`: attached nodes are proxies");
            report.add(
                format!("routes[{index}].terminate"),
                reason,
                format!("write `to: {name}`"),
            );
        }

        if let Some(Hops::Chain(chain)) = &route.to
            && chain.hops().len() > 1
            && chain.hops().iter().any(|name| attached(name))
        {
            let reason = "nodes that are attached are reached for an exchange, not through other proxies or for a tunnel";
            report.add(
                format!("routes[{index}].to"),
                reason,
                "write the name of that upstream alone",
            );
        }

        if route.broadcast.is_some()
            && route
                .to
                .as_ref()
                .is_some_and(|to| hops_of(to).any(attached))
        {
            let reason = "a broadcast goes to endpoints, and nodes that are attached are none";
            report.add(
                format!("routes[{index}].broadcast"),
                reason,
                "remove it, or send to an upstream with `endpoints`",
            );
        }
    }

    each_upstream(document, |path, upstream: &Upstream| {
        if upstream.via.as_deref().is_some_and(attached) {
            let reason =
                "nodes that are attached are reached for an exchange, not for a connection";
            report.add(
                format!("{path}.via"),
                reason,
                "name an upstream with `endpoints`",
            );
        }
    });
}
