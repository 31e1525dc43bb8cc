//! Checks of the tunnels that share the device of a listener.

use std::collections::HashMap;

use hermes_config::child;
use hermes_config::model::{Document, OtherTunAddress, SplitTunnel, Tun, TunDetails};
use ipnet::IpNet;

use super::report::{Check, Report};

pub(super) const CHECKS: &[Check] = &[names, counts, prefixes, excluded, translated];

/// Tunnels of one device: each is an exchange that is kept open, and a task.
#[doc(alias = "bound")]
const MAX_TUNNELS: usize = 256;

/// Prefixes of one device, as many as `ip` compiles into its table: each is a route of the kernel's as well.
#[doc(alias = "bound")]
const MAX_PREFIXES: usize = 16_384;

/// The longest name of a tunnel, in bytes: the other end is told of it in a field.
#[doc(alias = "bound")]
const LONGEST_NAME: usize = 64;

/// Every device of a listener that has tunnels, with its place.
fn each_device(document: &Document) -> impl Iterator<Item = (String, &TunDetails)> {
    let listeners = document.listeners.iter();
    let devices = listeners.filter_map(|(name, listener)| {
        let details = listener.tun().and_then(Tun::details)?;
        Some((format!("{}.tun", child("listeners", name)), details))
    });
    devices.filter(|(_, details)| !details.tunnels.is_empty())
}

/// Every one of several tunnels of a device, with its place.
pub(super) fn each_tunnel(document: &Document) -> impl Iterator<Item = (String, &SplitTunnel)> {
    each_device(document).flat_map(|(path, details)| {
        let path = format!("{path}.tunnels");
        let tunnels = details.tunnels.iter();
        tunnels.map(move |(name, tunnel)| (child(&path, name), tunnel))
    })
}

/// Every prefix of a device's tunnels, with its place.
fn each_prefix(path: &str, details: &TunDetails) -> Vec<(String, IpNet)> {
    let mut found = Vec::new();
    for (name, tunnel) in &details.tunnels {
        let path = child(&format!("{path}.tunnels"), name);
        for (index, prefix) in tunnel.prefixes.iter().enumerate() {
            found.push((format!("{path}.prefixes[{index}]"), *prefix));
        }
    }
    found
}

/// Tunnels that share the addresses of a device do not replace them.
fn translated(document: &Document, report: &mut Report) {
    for (path, details) in each_device(document) {
        if details.other_address == Some(OtherTunAddress::Adopt) {
            report.add(
                format!("{path}.other_address"),
                "several tunnels share the addresses of a device, which cannot be those of each",
                "write `nat` or `refuse`, or remove `tunnels`",
            );
        }
    }
}

fn names(document: &Document, report: &mut Report) {
    for (path, details) in each_device(document) {
        for name in details.tunnels.keys() {
            if !is_name(name) || name.len() > LONGEST_NAME {
                report.add(
                    child(&format!("{path}.tunnels"), name),
                    format!("`{name}` is not the name of a tunnel"),
                    "use up to 64 letters, digits, `-`, `.` and `_`",
                );
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty() && name.bytes().all(is_sound)
}

fn counts(document: &Document, report: &mut Report) {
    for (path, details) in each_device(document) {
        let tunnels = details.tunnels.len();
        if tunnels > MAX_TUNNELS {
            report.add(
                format!("{path}.tunnels"),
                format!("a device has up to {MAX_TUNNELS} tunnels, and these are {tunnels}"),
                "give tunnels with the same fields one entry with all of their prefixes",
            );
        }

        let prefixes = each_prefix(&path, details).len();
        if prefixes > MAX_PREFIXES {
            report.add(
                format!("{path}.tunnels"),
                format!("a device has up to {MAX_PREFIXES} prefixes, and these are {prefixes}"),
                "write shorter prefixes",
            );
        }
    }
    for (path, tunnel) in each_tunnel(document) {
        if tunnel.prefixes.iter().next().is_none() {
            report.add(
                format!("{path}.prefixes"),
                "no packet goes into a tunnel without prefixes",
                "name its destinations, or remove it",
            );
        }
    }
}

fn prefixes(document: &Document, report: &mut Report) {
    for (path, details) in each_device(document) {
        let mut first: HashMap<IpNet, String> = HashMap::new();
        for (path, prefix) in each_prefix(&path, details) {
            if prefix != prefix.trunc() {
                let remedy = format!("write {}", prefix.trunc());
                report.add(path, format!("{prefix} has bits beyond its length"), remedy);
            } else if let Some(owner) = first.get(&prefix) {
                let reason = format!("{prefix} is that of {owner} already");
                report.add(path, reason, "give each prefix to one tunnel");
            } else {
                first.insert(prefix, path);
            }
        }
    }
}

/// A tunnel with all its prefixes excluded gets no packets.
fn excluded(document: &Document, report: &mut Report) {
    for (path, details) in each_device(document) {
        for (place, prefix) in each_prefix(&path, details) {
            let mut excluded = details.exclude.iter().map(IpNet::trunc);
            if excluded.any(|exclude| exclude == prefix) {
                let reason = format!("`exclude` lets {prefix} pass by the device");
                report.add(place, reason, "remove it here or there");
            }
        }
    }
}
