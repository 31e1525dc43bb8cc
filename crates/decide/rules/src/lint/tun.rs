//! Checks of TUN devices: those of listeners, and those where tunnels end.

use std::borrow::Cow;
use std::collections::HashMap;

use hermes_config::child;
use hermes_config::model::{
    Document, ExchangeKind, OtherTunAddress, PacketTermination, Terminate, Tun, TunSenders,
};
use ipnet::IpNet;

use super::report::{Check, Report};

/// The longest name of an interface (Linux, `IFNAMSIZ` without the end).
const LONGEST_NAME: usize = 15;

/// The shortest prefixes that have an address for a tunnel: beside those of the network and of all its hosts, and two of this node's.
const SMALLEST_V4: u8 = 29;
const SMALLEST_V6: u8 = 125;

/// Users and control groups that one device names in one place: each is a rule of routing for each length of prefix, or a program.
#[doc(alias = "bound")]
const MAX_SENDERS: usize = 64;

pub(super) const CHECKS: &[Check] = &[
    names, shared, senders, intercepts, stacks, ip, addresses, kind, pool, routes,
];

/// Every device that the document names, with its place.
fn devices(document: &Document) -> Vec<(String, &str)> {
    let listeners = document.listeners.iter().filter_map(|(name, listener)| {
        let tun = listener.tun()?;
        let path = child("listeners", name);
        let key = if tun.details().is_some() { ".name" } else { "" };
        Some((format!("{path}.tun{key}"), tun.name()))
    });
    let routes = each_end(document).filter_map(|(path, end)| match end {
        PacketTermination::Tun(end) => Some((format!("{path}.tun"), end.tun.as_str())),
        PacketTermination::Intercept(_) => None,
    });
    listeners.chain(routes).collect()
}

/// Every route that ends packets.
fn each_end(document: &Document) -> impl Iterator<Item = (String, PacketTermination<'_>)> {
    let routes = document.routes.iter().enumerate();
    routes.filter_map(|(index, route)| {
        let end = route.terminate.as_ref().and_then(Terminate::packets)?;
        Some((format!("routes[{index}].terminate"), end))
    })
}

/// Keys that lead packets to a device, which a stack does not have.
fn stacks(document: &Document, report: &mut Report) {
    for (name, listener) in &document.listeners {
        let details = listener.tun().and_then(|tun| tun.details());
        let Some(details) = details.filter(|details| details.stack) else {
            continue;
        };
        for (key, is_given) in [
            ("routes", !details.routes.is_empty()),
            ("exclude", !details.exclude.is_empty()),
            ("only", details.only.is_some()),
            ("except", details.except.is_some()),
            ("queues", details.queues.is_some()),
            ("super_packets", details.super_packets),
            ("dns", details.dns.is_some()),
        ] {
            if is_given {
                report.add(
                    format!("{}.tun.{key}", child("listeners", name)),
                    "a stack has the packets of routes with `terminate: { ip: .. }`, and no others",
                    format!("remove `{key}`, or `stack: true`"),
                );
            }
        }
    }
}

/// The tunnel for connections and datagrams that become packets.
fn ip(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let Some(name) = route.terminate.as_ref().and_then(Terminate::ip) else {
            continue;
        };
        let path = format!("routes[{index}].terminate.ip");
        let listener = document.listeners.get(name);
        let is_stack = listener.is_some_and(|one| one.tun().is_some_and(Tun::is_stack));
        if !is_stack {
            report.add(
                path.clone(),
                format!("`{name}` is not a listener with a stack"),
                format!("name one, such as `listeners: {{ {name}: {{ tun: {{ name: {name}, stack: true }} }} }}`"),
            );
        }

        let takes = |kind: &ExchangeKind| {
            use ExchangeKind::{Connect, ConnectTcp, ConnectUdp};
            matches!(kind, Connect | ConnectTcp | ConnectUdp)
        };
        let kinds = route.matches.kind.iter().flatten();
        if kinds.clone().count() == 0 || !kinds.into_iter().all(takes) {
            report.add(
                path,
                "only connections and datagrams become packets",
                "add `match: { kind: [connect, connect-tcp, connect-udp] }`, or one of them",
            );
        }
    }
}

fn intercepts(document: &Document, report: &mut Report) {
    for (path, end) in each_end(document) {
        if matches!(end, PacketTermination::Intercept(end) if !end.intercept) {
            report.add(
                format!("{path}.intercept"),
                "`false` says nothing of where packets end",
                "write `intercept: true`, or name a device: `tun: hermes0`",
            );
        }
    }
}

fn names(document: &Document, report: &mut Report) {
    for (path, name) in devices(document) {
        let is_sound = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
        let fits = (1..=LONGEST_NAME).contains(&name.len());
        if !fits || !name.bytes().all(is_sound) || matches!(name, "." | "..") {
            report.add(
                path,
                format!("`{name}` is not the name of an interface"),
                "write up to 15 letters and digits, such as hermes0",
            );
        }
    }
}

/// Every list of senders of a listener's device, with its place.
fn each_senders(document: &Document) -> impl Iterator<Item = (String, &TunSenders)> {
    let listeners = document.listeners.iter();
    listeners.flat_map(|(name, listener)| {
        let details = listener.tun().and_then(Tun::details);
        let lists = details.map_or([None, None], |details| {
            [
                ("only", details.only.as_ref()),
                ("except", details.except.as_ref()),
            ]
            .map(|(key, senders)| senders.map(|senders| (key, senders)))
        });
        let path = format!("{}.tun", child("listeners", name));
        let lists = lists.into_iter().flatten();
        lists.map(move |(key, senders)| (format!("{path}.{key}"), senders))
    })
}

fn senders(document: &Document, report: &mut Report) {
    for (path, senders) in each_senders(document) {
        match senders.users.len() + senders.cgroups.len() {
            0 => report.add(path, "it is empty", "name `users` or `cgroups`, or remove it"),
            1..=MAX_SENDERS => {}
            many => report.add(
                path,
                format!("a device names up to {MAX_SENDERS} users and control groups here, and these are {many}"),
                "write ranges of users, or a control group that has the others in it",
            ),
        }
    }
}

/// A device has one owner; routes that say the same of it share it.
fn shared(document: &Document, report: &mut Report) {
    let mut first: HashMap<&str, String> = HashMap::new();
    let mut ends: HashMap<Cow<'_, str>, PacketTermination<'_>> = HashMap::new();
    for (path, end) in each_end(document) {
        match ends.get(&end.name()) {
            Some(other) if *other != end => report.add(
                path,
                format!("another route says something else of `{}`", end.name()),
                "say the same of it, or name another device or pool",
            ),
            _ => drop(ends.insert(end.name(), end)),
        }
    }

    for (path, name) in devices(document) {
        let is_route = path.starts_with("routes");
        if let Some(owner) = first
            .get(name)
            .filter(|owner| !is_route || !owner.starts_with("routes"))
        {
            let reason = format!("`{name}` is the device of {owner} already");
            report.add(path, reason, "name another device");
        } else {
            first.insert(name, path);
        }
    }
}

fn addresses(document: &Document, report: &mut Report) {
    for (name, listener) in &document.listeners {
        let Some(details) = listener.tun().and_then(|tun| tun.details()) else {
            continue;
        };
        if details.other_address == Some(OtherTunAddress::Adopt) && !details.addresses.is_empty() {
            report.add(
                format!("{}.tun.other_address", child("listeners", name)),
                "a device with `addresses` does not take others",
                "write `nat` or `refuse`, or remove `addresses`",
            );
        }
        for (index, address) in details.addresses.iter().enumerate() {
            let path = format!("{}.tun.addresses[{index}]", child("listeners", name));
            let earlier = &details.addresses[..index];
            if earlier.iter().any(|other| is_v4(other) == is_v4(address)) {
                let reason = "a device has one address of each family";
                report.add(path, reason, "keep one of each");
            }
        }
    }
}

pub(super) fn is_v4(net: &IpNet) -> bool {
    matches!(net, IpNet::V4(_))
}

/// Other kinds of exchanges on such a route would have nowhere to go.
fn kind(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let Some(end) = route.terminate.as_ref().and_then(Terminate::packets) else {
            continue;
        };
        let key = match end {
            PacketTermination::Tun(_) => "tun",
            PacketTermination::Intercept(_) => "intercept",
        };
        let kinds = route.matches.kind.iter().flatten();
        let is_only = kinds.clone().all(|kind| *kind == ExchangeKind::ConnectIp);
        if kinds.count() == 0 || !is_only {
            report.add(
                format!("routes[{index}].terminate.{key}"),
                "only the packets of CONNECT-IP end there",
                "add `match: { kind: connect-ip }`",
            );
        }
    }
}

fn pool(document: &Document, report: &mut Report) {
    for (path, end) in each_end(document) {
        for (index, prefix) in end.pool().iter().enumerate() {
            pool_prefix(&format!("{path}.pool[{index}]"), prefix, "a tunnel", report);
        }
    }
}

/// Whether a prefix of a pool has addresses for others than its owner; `whom` names them.
pub(super) fn pool_prefix(path: &str, prefix: &IpNet, whom: &str, report: &mut Report) {
    let smallest = match is_v4(prefix) {
        true => SMALLEST_V4,
        false => SMALLEST_V6,
    };
    if *prefix != prefix.trunc() {
        let remedy = format!("write {}", prefix.trunc());
        report.add(path, format!("{prefix} has bits beyond its length"), remedy);
    } else if prefix.prefix_len() > smallest {
        let reason = format!("{prefix} has no address left for {whom}");
        report.add(path, reason, format!("give a /{smallest} or a shorter one"));
    }
}

fn routes(document: &Document, report: &mut Report) {
    for (path, end) in each_end(document) {
        for (index, route) in end.routes().iter().enumerate() {
            if !end.pool().iter().any(|pool| is_v4(pool) == is_v4(route)) {
                let reason = "no tunnel has an address of this family";
                let path = format!("{path}.routes[{index}]");
                report.add(path, reason, "add a prefix of it to `pool`");
            }
        }
    }
}
