//! Checks of devices on other machines, which WireGuard leads to.

use std::collections::HashMap;
use std::net::SocketAddr;

use hermes_config::child;
use hermes_config::model::{
    DataSource, Document, OtherTunAddress, Terminate, TerminateTun, TunDetails, WireguardKey,
};

use super::report::{Check, Report};

/// Prefixes of one peer: each packet is looked up among them.
#[doc(alias = "bound")]
const MAX_ALLOWED: usize = 256;

pub(super) const CHECKS: &[Check] = &[addresses, listeners, routes, allowed, keepalives, ports];

/// Listens and endpoints are addresses: where a peer is, it says itself, and names are not looked up for that.
fn addresses(document: &Document, report: &mut Report) {
    for (path, wireguard) in document.wireguard() {
        let listen = Some(("listen", &wireguard.listen));
        let endpoint = wireguard.peer.endpoint.as_ref();
        let endpoint = endpoint.map(|endpoint| ("peer.endpoint", endpoint));
        for (key, place) in listen.into_iter().chain(endpoint) {
            if place.socket_address().is_none() {
                report.add(
                    format!("{path}.{key}"),
                    format!("`{place}` is not an address and port"),
                    "write an address and a port, such as 192.0.2.7:51820",
                );
            }
        }
    }
}

/// Every listener's device on another machine, with its place.
fn each_listener(document: &Document) -> impl Iterator<Item = (String, &TunDetails)> {
    document.listeners.iter().filter_map(|(name, listener)| {
        let details = listener.tun()?.details()?;
        let path = format!("{}.tun", child("listeners", name));
        details.wireguard.is_some().then_some((path, details))
    })
}

fn listeners(document: &Document, report: &mut Report) {
    for (path, details) in each_listener(document) {
        if details.addresses.is_empty() {
            report.add(
                format!("{path}.addresses"),
                "the other machine has addresses, which it cannot be told",
                "write those that its WireGuard has, such as `addresses: [10.9.0.7/24]`",
            );
        }
        if details.other_address == Some(OtherTunAddress::Adopt) {
            report.add(
                format!("{path}.other_address"),
                "the other machine cannot be told another address",
                "write `nat` or `refuse`, or remove it",
            );
        }

        for (key, is_given) in [
            ("routes", !details.routes.is_empty()),
            ("exclude", !details.exclude.is_empty()),
            ("only", details.only.is_some()),
            ("except", details.except.is_some()),
            ("stack", details.stack),
            ("queues", details.queues.is_some()),
            ("super_packets", details.super_packets),
        ] {
            refuse(report, &path, key, is_given);
        }
    }
}

/// Every route that ends packets on another machine, with its place.
fn each_route(document: &Document) -> impl Iterator<Item = (String, &TerminateTun)> {
    let routes = document.routes.iter().enumerate();
    routes.filter_map(|(index, route)| match &route.terminate {
        Some(Terminate::Tun(end)) if end.wireguard.is_some() => {
            Some((format!("routes[{index}].terminate"), end))
        }
        _ => None,
    })
}

fn routes(document: &Document, report: &mut Report) {
    for (path, end) in each_route(document) {
        let allowed = end
            .wireguard
            .as_ref()
            .map(|wireguard| &wireguard.peer.allowed);
        if allowed.is_some_and(|allowed| allowed.is_empty()) {
            report.add(
                format!("{path}.wireguard.peer.allowed"),
                "the addresses of the other machine are missing",
                "write them, such as `allowed: [10.0.0.1/32]`",
            );
        }
        for (key, is_given) in [
            ("nat", end.nat),
            ("queues", end.queues.is_some()),
            ("super_packets", end.super_packets),
        ] {
            refuse(report, &path, key, is_given);
        }
    }
}

/// Keys for the kernel's device on this machine.
fn refuse(report: &mut Report, path: &str, key: &str, is_given: bool) {
    if is_given {
        report.add(
            format!("{path}.{key}"),
            "the device is on another machine, which decides about that itself",
            format!("remove `{key}`, or `wireguard`"),
        );
    }
}

fn allowed(document: &Document, report: &mut Report) {
    for (path, wireguard) in document.wireguard() {
        let many = wireguard.peer.allowed.len();
        if many > MAX_ALLOWED {
            report.add(
                format!("{path}.peer.allowed"),
                format!("a peer has up to {MAX_ALLOWED} prefixes, and these are {many}"),
                "write shorter prefixes: the overlay checks addresses, too",
            );
        }
    }
}

fn keepalives(document: &Document, report: &mut Report) {
    for (path, wireguard) in document.wireguard() {
        let keepalive = wireguard.peer.keepalive;
        if keepalive.is_some_and(|interval| interval.0.as_secs() == 0) {
            report.add(
                format!("{path}.peer.keepalive"),
                "less than a second keeps nothing alive that needs it",
                "write 25s, or remove it",
            );
        }
    }
}

/// The claims on a port: its key, and its peers.
struct PortClaim<'a> {
    path: String,
    key: &'a DataSource,
    peers: HashMap<&'a WireguardKey, String>,
}

/// Devices share a port if they have one key, and each a peer of its own.
fn ports(document: &Document, report: &mut Report) {
    let mut claims: HashMap<SocketAddr, PortClaim<'_>> = HashMap::new();
    for (path, wireguard) in document.wireguard() {
        let Some(listen) = wireguard.listen.socket_address() else {
            continue;
        };

        let claim = claims.entry(listen).or_insert_with(|| PortClaim {
            path: path.clone(),
            key: &wireguard.private_key_file,
            peers: HashMap::new(),
        });
        if claim.key != &wireguard.private_key_file {
            report.add(
                format!("{path}.private_key_file"),
                format!("{} has another key on {listen}", claim.path),
                "name the same file, or another port",
            );
        }
        let peer = &wireguard.peer.public_key;
        match claim.peers.get(peer) {
            Some(earlier) => report.add(
                format!("{path}.peer.public_key"),
                format!("it is the peer of {earlier} already, on the same port"),
                "give each device a peer of its own, or another port",
            ),
            None => drop(claim.peers.insert(peer, path)),
        }
    }
}
