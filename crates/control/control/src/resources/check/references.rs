//! Services with their nodes.

use super::report::Report;
use crate::resources::specs::ServiceSpec;
use crate::resources::{Key, Kind, Spec};

/// A part of its nodes that remembers what only it was told: two of them are two places.
const RELAY: &str = "relay";

/// Each service has nodes that reach it.
pub(super) fn services(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.of_kind(Kind::Service) {
        let Spec::Service(service) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        if service.at.is_empty() {
            let remedy = "write one: `at: [{ node: hub, address: 127.0.0.1:8000 }]`";
            report.add(key, "spec.at", "no node reaches the service", remedy);
        }
        for (index, end) in service.at.iter().enumerate() {
            report.refers_to_proxy(key, &format!("spec.at[{index}].node"), &end.node);
            if end.address.is_none() && service.handle.is_none() {
                let field = format!("spec.at[{index}]");
                let remedy = "write its `address`, or the `handle` of the service";
                report.add(key, &field, "the node does not know the server", remedy);
            }
        }
        if service.handle.is_some() {
            handled(key, service, report);
        }
    }
}

/// A service that its nodes answer themselves has no servers.
fn handled(key: &Key, service: &ServiceSpec, report: &mut Report<'_>) {
    let given = [
        ("spec.health", service.health.is_some()),
        ("spec.http", service.http.is_some()),
        ("spec.tls", service.tls.is_some()),
        ("spec.expose", !service.expose.is_empty()),
    ];
    for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let reason = "the nodes of the service answer themselves, and ask no server";
        report.add(key, field, reason, "remove it, or `handle`");
    }
    for (index, end) in service.at.iter().enumerate() {
        if end.address.is_some() {
            let field = format!("spec.at[{index}].address");
            let reason = "the node answers itself, and asks no server";
            report.add(key, &field, reason, "remove it, or `handle`");
        }
    }
    let is_relay = service
        .handle
        .as_ref()
        .is_some_and(|part| part.name == RELAY);
    if is_relay && service.at.len() > 1 {
        let reason = "channels of one relay are not those of another";
        let remedy = "write a Service for each, and one with `handle: rendezvous` that sends clients to them";
        report.add(key, "spec.at", reason, remedy);
    }
}
