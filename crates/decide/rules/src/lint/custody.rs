//! Checks of custody.

use hermes_config::model::{CARRIER, Document, Hops, ListenAddress, Listener, Retry, Route};
use hermes_config::{child, nearest};

use super::report::{Check, Report, each_listener};

pub(super) const CHECKS: &[Check] = &[routes, upstreams, ingress, neighbours];

/// The length of a public key of 32 bytes in Base64.
const KEY: usize = 44;

fn routes(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let retry = route.retry.as_ref();
        if retry.and_then(|retry| retry.custody) != Some(true) {
            continue;
        }
        let path = format!("routes[{index}].retry.custody");
        match &route.to {
            Some(Hops::One(name)) => known(document, &path, name, report),
            Some(Hops::Split(hops)) => {
                hops.keys()
                    .for_each(|name| known(document, &path, name, report));
            }
            Some(Hops::Chain(_)) | None => {
                let reason = "custody is between this node and the next one";
                report.add(path, reason, "remove it, or send to one upstream with `to`");
            }
        }
    }
}

fn upstreams(document: &Document, report: &mut Report) {
    for (name, upstream) in &document.upstreams {
        let retry = upstream.retry.as_ref();
        if retry.and_then(|retry| retry.custody) == Some(true) {
            let path = child(&child("upstreams", name), "retry.custody");
            known(document, &path, name, report);
        }
    }
}

/// Whether a route, or else the upstream that it leads to, has requests taken into custody.
pub fn is_in_custody(document: &Document, route: &Route) -> bool {
    let is_carried = |name: &str| {
        let upstream = document.upstreams.get(name);
        let retry = upstream.and_then(|upstream| upstream.retry.as_ref());
        Retry::carrier(route.retry.as_ref(), retry).is_some()
    };
    match &route.to {
        Some(Hops::One(name)) => is_carried(name),
        Some(Hops::Split(hops)) => hops.keys().any(|name| is_carried(name)),
        Some(Hops::Chain(_)) | None => false,
    }
}

fn known(document: &Document, path: &str, name: &str, report: &mut Report) {
    let Some(custody) = &document.defaults.custody else {
        return missing(path, report);
    };
    if custody.neighbours.contains_key(name) {
        return;
    }

    let names = custody.neighbours.keys().map(String::as_str);
    let remedy = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "add its key and its address there".to_owned(),
    };
    let reason = format!("there is no neighbour `{name}` in `defaults.custody`");
    report.add(path, reason, remedy);
}

fn missing(path: &str, report: &mut Report) {
    let reason = "this node has no key for custody";
    report.add(path, reason, "add `defaults.custody`");
}

fn is_of_custody(listener: &Listener) -> bool {
    listener
        .ingress()
        .is_some_and(|ingress| ingress.name == CARRIER)
}

fn ingress(document: &Document, report: &mut Report) {
    each_listener(document, |path, listener| {
        if !is_of_custody(listener) {
            return;
        }
        let path = format!("{path}.ingress");
        if document.defaults.custody.is_none() {
            missing(&path, report);
        }
        if listener.tcp().is_some() {
            let reason = "custody is for `udp` listeners";
            report.add(path, reason, "make it a `udp` listener");
        }
    });
}

fn neighbours(document: &Document, report: &mut Report) {
    let Some(custody) = &document.defaults.custody else {
        return;
    };
    for (name, neighbour) in &custody.neighbours {
        let path = child("defaults.custody.neighbours", name);
        let is_text = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        if neighbour.key.len() != KEY || !neighbour.key.bytes().all(is_text) {
            let reason = "it is not a key: a key is 32 bytes in Base64";
            let remedy = "write the key that the node logs when it starts";
            report.add(child(&path, "key"), reason, remedy);
        }
        if matches!(neighbour.address, Some(ListenAddress::Unix(_))) {
            let reason = "a Unix socket is not a UDP port";
            let remedy = "write an IP address and a port";
            report.add(child(&path, "address"), reason, remedy);
        }
    }

    let names = custody.neighbours.iter();
    let reached = names.filter(|(_, neighbour)| neighbour.address.is_none());
    let reached: Vec<&str> = reached.map(|(name, _)| name.as_str()).collect();
    let serves = document.listeners.values().any(is_of_custody);
    if let Some(name) = reached.first().filter(|_| !serves) {
        let reason = "neither node can begin: this one does not know where the other is, and has no listener for it";
        let path = child("defaults.custody.neighbours", name);
        let remedy = "add its `address`, or a `udp` listener with `ingress: custody`";
        report.add(path, reason, remedy);
    }
}
