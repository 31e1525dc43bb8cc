//! Checks of the edges to other programs: PROXY headers, the forms of tunnels, proxy.pac.

use hermes_config::model::scalar::ByteSize;
use hermes_config::model::{
    Action, Document, HttpVersion, ListenAddress, Listener, Tunnel, TunnelAnswer, TunnelWord,
};

use hermes_proto::resumable::LEAST_WINDOW;

use super::changes::field_name;
use super::report::{Check, Report, each_listener};
use crate::versions;

pub(super) const CHECKS: &[Check] = &[
    proxy_protocol_from,
    client_address,
    alt_svc,
    tunnel_action,
    through,
    resume,
    early_answer,
    tunnel_path,
];

/// A client that may write a PROXY header may claim any address.
fn proxy_protocol_from(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(headers) = listener.introduction() else {
            return;
        };
        let is_unix = matches!(listener.kind.address(), Some(ListenAddress::Unix(_)));
        match (
            headers.proxy_protocol,
            headers.proxy_protocol_from.is_empty(),
        ) {
            (Some(_), true) if !is_unix => {
                let reason = "no client can connect: there is no prefix from which PROXY headers are accepted";
                report.add(
                    format!("{path}.proxy_protocol"),
                    reason,
                    "name your load balancers in `proxy_protocol_from: [10.0.0.7/32]`",
                );
            }
            (None, false) => {
                let reason = "`proxy_protocol_from` does nothing: no PROXY header is read here";
                report.add(
                    format!("{path}.proxy_protocol_from"),
                    reason,
                    "add `proxy_protocol: accept`, or remove it",
                );
            }
            _ => {}
        }
    });
}

/// A field is as good as those who may write it.
fn client_address(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let Some(http) = listener.http() else { return };
        let Some(config) = &http.client_address else {
            return;
        };
        let path = format!("{path}.client_address");
        field_name(&format!("{path}.field"), &config.field, report);
        let is_unix = matches!(http.address, ListenAddress::Unix(_));
        if config.from.is_empty() && !is_unix {
            let reason = "the field counts from no one: no proxy is named that writes it";
            report.add(&path, reason, "name your proxies in `from: [10.0.0.7/32]`");
        }
        for (index, prefix) in config.from.iter().enumerate() {
            if prefix.prefix_len() == 0 {
                report.add(
                    format!("{path}.from[{index}]"),
                    "everyone could claim any address",
                    "name your proxies alone",
                );
            }
        }

        if !http.requests.insecure_trust.is_empty() {
            report.add(
                &path,
                "an address in a field cannot be one that `insecure_trust` trusts about every user",
                "remove one of the two",
            );
        }
    });
}

fn alt_svc(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        let speaks = versions(document, listener).contains(&HttpVersion::H3);
        let states = listener.http().is_some_and(|http| http.alt_svc.is_some());
        if states && !(listener.is_gateway() && speaks) {
            report.add(
                format!("{path}.alt_svc"),
                "only a `gateway` that speaks HTTP/3 says so in `Alt-Svc`",
                "remove it",
            );
        }
    });
}

fn tunnel_action(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let carries = matches!(
            route.action(),
            Some(Action::To(_) | Action::Terminate(_)) | None
        );
        if route.tunnel.is_some() && !carries {
            let reason = "`tunnel` is for routes that carry one";
            report.add(
                format!("routes[{index}].tunnel"),
                reason,
                "remove it, or give `to` or `terminate`",
            );
        }

        let form = route
            .tunnel
            .as_ref()
            .and_then(Tunnel::word)
            .filter(|form| *form != TunnelWord::Post);

        if form.is_some() && route.terminate.is_some() {
            let reason = "the form of a tunnel that leaves is of no use where it ends";
            report.add(
                format!("routes[{index}].tunnel"),
                reason,
                "remove it: every form is taken here",
            );
        }
    }
}

fn through(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let carries = matches!(
            route.action(),
            Some(Action::To(_) | Action::Terminate(_)) | None
        );
        if !route.through.is_empty() && !carries {
            report.add(
                format!("routes[{index}].through"),
                "`through` is for routes that carry tunnels",
                "remove it, or give `to` or `terminate`",
            );
        }
    }
}

fn is_too_small(window: ByteSize) -> bool {
    usize::try_from(window.0).is_ok_and(|window| window < LEAST_WINDOW)
}

fn resume(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let resume = route.tunnel.as_ref().and_then(Tunnel::resume);
        let Some(resume) = resume.filter(|resume| resume.is_on()) else {
            continue;
        };

        let at = format!("routes[{index}].tunnel.resume");
        if resume.window().is_some_and(is_too_small) {
            let reason = "with so small a window the two ends could wait for each other";
            report.add(format!("{at}.window"), reason, "write at least 64KiB");
        }
        if !matches!(route.action(), Some(Action::To(_)) | None) {
            let reason = "tunnels that end here are resumed without being asked for it";
            report.add(at, reason, "remove it; it is for routes with `to`");
        } else if !route.through.is_empty() {
            let reason = "tunnels whose bytes are changed on their way cannot be resumed";
            report.add(at, reason, "remove it, or `through`");
        }
    }
}

/// An ingress that lets its clients share the fate of the target must not hear of success before.
fn early_answer(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let details = route.tunnel.as_ref().and_then(Tunnel::details);
        let is_early = details.is_some_and(|details| details.answer == Some(TunnelAnswer::Early));
        let named = route.matches.listener.as_deref().unwrap_or_default();
        let held = named.iter().find(|name| {
            let listener = document.listeners.get(name.as_str());
            listener
                .and_then(Listener::tcp)
                .is_some_and(|tcp| tcp.purpose.ingress.is_some())
        });

        if let Some(held) = held.filter(|_| is_early) {
            report.add(
                format!("routes[{index}].tunnel.answer"),
                format!("clients of listener `{held}` share the fate of the target, which an early answer hides"),
                "remove it, or the listener from `match`",
            );
        }
    }
}

fn tunnel_path(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let Some(path) = route.tunnel.as_ref().and_then(Tunnel::path) else {
            continue;
        };
        let visible = path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !path.starts_with('/') || !visible {
            let reason = format!("`{path}` is not a path");
            report.add(
                format!("routes[{index}].tunnel.post"),
                reason,
                "write one such as `/tunnel`",
            );
        }
    }
}
