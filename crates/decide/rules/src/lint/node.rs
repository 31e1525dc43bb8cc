//! Checks of the node as a whole.

use hermes_config::model::Document;

use super::report::{Check, Report, each_listener, is_token};
use super::split_tunnels::each_tunnel;
use super::users::usable;
use crate::fields::reserved_in;
use crate::log_filter;

pub(super) const CHECKS: &[Check] = &[
    version,
    name,
    users,
    no_listeners,
    no_routes,
    removed_fields,
    log_level,
    revocation,
];

/// Only one version of the format exists.
fn version(document: &Document, report: &mut Report) {
    if document.version != 1 {
        let reason = format!("version {} of the format is not known", document.version);
        report.add("version", reason, "write `version: 1`");
    }
}

/// Lists of revoked certificates are for authorities that are named with them.
fn revocation(document: &Document, report: &mut Report) {
    let Some(tls) = &document.defaults.tls else {
        return;
    };
    if tls.crl_file.is_some() && tls.ca_file.is_none() && tls.client_ca_file.is_none() {
        let reason = "revocation lists need the authorities whose certificates they revoke";
        report.add(
            "defaults.tls.crl_file",
            reason,
            "add `ca_file` or `client_ca_file`, or remove it",
        );
    }
}

/// The node's name stands in `Via` and `Proxy-Status` (RFC 9110, 7.6.3; RFC 9209, 2).
fn name(document: &Document, report: &mut Report) {
    let is_bad = |name: &&str| !is_token(&name.replace("{host}", "h").replace("{file}", "f"));
    if let Some(name) = document.node.as_deref().filter(is_bad) {
        report.add(
            "node",
            format!("`{name}` cannot be a node's name"),
            "use letters, digits, `-`, `.` and `_`, and `{host}` for the machine's name",
        );
    }
}

/// A configured user becomes a field.
fn users(document: &Document, report: &mut Report) {
    if let Some(identity) = &document.identity {
        usable("identity.user", &identity.user, report);
    }
    each_listener(document, |path, listener| {
        if let Some(user) = &listener.user {
            usable(&format!("{path}.user"), user, report);
        }
    });
    for (path, tunnel) in each_tunnel(document) {
        if let Some(user) = &tunnel.user {
            usable(&format!("{path}.user"), user, report);
        }
    }
}

fn no_listeners(document: &Document, report: &mut Report) {
    if document.listeners.is_empty() {
        report.add(
            "listeners",
            "there is no listener: nothing can enter",
            "add one, such as `web: { http: 127.0.0.1:8080 }`",
        );
    }
}

fn no_routes(document: &Document, report: &mut Report) {
    if document.routes.is_empty() && !document.listeners.is_empty() {
        report.add(
            "routes",
            "there is no route: every exchange would be refused",
            "add one, such as `- to: UPSTREAM`",
        );
    }
}

/// These fields are removed from clients' requests, which must not affect framing.
fn removed_fields(document: &Document, report: &mut Report) {
    let lists = [
        (
            "fields",
            &document.fields,
            "declare only fields of the overlay",
        ),
        (
            "provenance",
            &document.provenance,
            "name only fields that say where a request came from",
        ),
    ];
    for (key, patterns, remedy) in lists {
        for (index, pattern) in patterns.iter().enumerate() {
            if let Some(name) = reserved_in(pattern) {
                let reason = format!(
                    "`{pattern}` covers `{name}`, which belongs to the connection or to the proxy"
                );
                report.add(format!("{key}[{index}]"), reason, remedy);
            }
        }
    }
}

fn log_level(document: &Document, report: &mut Report) {
    if let Some((reason, remedy)) = document.log.level.as_deref().and_then(log_filter::mistake) {
        report.add("log.level", reason, remedy);
    }
}
