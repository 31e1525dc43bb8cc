//! Checks of the answers of `tun` listeners about names.

use std::net::IpAddr;

use hermes_config::child;
use hermes_config::model::{Document, HostMatch, OtherNames, SplitDns, TunDetails};
use hermes_ip::NameLeases;
use ipnet::IpNet;

use super::report::{Check, Report, instead};
use super::tun::{is_v4, pool_prefix};
use crate::overlay_names::OverlayNames;
use crate::packets::prefix_of;

pub(super) const CHECKS: &[Check] = &[pools, apart, names, resolvers];

/// A listener that answers about names.
struct Answering<'a> {
    listener: &'a str,
    /// The path of `tun`.
    path: String,
    details: &'a TunDetails,
    dns: &'a SplitDns,
}

impl Answering<'_> {
    fn pool(&self, index: usize) -> String {
        format!("{}.dns.pool[{index}]", self.path)
    }
}

fn each(document: &Document) -> impl Iterator<Item = Answering<'_>> {
    document.listeners.iter().filter_map(|(name, listener)| {
        let details = listener.tun()?.details()?;
        Some(Answering {
            listener: name,
            path: format!("{}.tun", child("listeners", name)),
            details,
            dns: details.dns.as_ref()?,
        })
    })
}

/// Checks of a pool by itself.
fn pools(document: &Document, report: &mut Report) {
    for one in each(document) {
        if one.dns.pool.is_empty() {
            let path = format!("{}.dns.pool", one.path);
            let remedy = "name a prefix that is not in use, such as 100.64.0.0/16";
            report.add(path, "no name gets an address", remedy);
        }
        for (index, prefix) in one.dns.pool.iter().enumerate() {
            let path = one.pool(index);
            pool_prefix(&path, prefix, "a name", report);
            let is_first = |other: &IpNet| is_v4(other) != is_v4(prefix);
            if !one.dns.pool[..index].iter().all(is_first) {
                let reason = "a name has one address of each family";
                report.add(path, reason, "keep one prefix of each");
            }
        }
    }
}

/// Other uses of a pool's addresses.
fn apart(document: &Document, report: &mut Report) {
    let all: Vec<Answering<'_>> = each(document).collect();
    for (number, one) in all.iter().enumerate() {
        for (index, pool) in one.dns.pool.iter().enumerate() {
            let path = one.pool(index);
            let details = one.details;
            let tunnels = details.tunnels.values();
            let mut led = details
                .routes
                .iter()
                .chain(tunnels.flat_map(|one| &*one.prefixes));
            if let Some(route) = led.find(|route| pool.contains(*route)) {
                let reason = format!("{route} is led to a tunnel, and {pool} has it for names");
                report.add(&path, reason, "give names a prefix that nothing else has");
            }
            if let Some(own) = details
                .addresses
                .iter()
                .find(|own| pool.contains(&own.addr()))
            {
                let reason = format!("the device has the address {own} of {pool}");
                report.add(&path, reason, "give it another address, or none");
            }
            if let Some(past) = details.exclude.iter().find(|past| past.contains(pool)) {
                let reason = format!("`exclude` lets {past} pass by the device");
                report.add(
                    &path,
                    reason,
                    "remove it there, or give names another prefix",
                );
            }

            let mut others = all[..number].iter().flat_map(|other| other.dns.pool.iter());
            if let Some(other) = others.find(|other| other.contains(pool) || pool.contains(*other))
            {
                let reason = format!("another listener has {other} for names");
                report.add(&path, reason, "give each listener a prefix of its own");
            }
        }
    }
}

/// Whether names are named.
fn names(document: &Document, report: &mut Report) {
    for one in each(document) {
        for (index, name) in one.dns.names.iter().enumerate() {
            let path = format!("{}.dns.names[{index}]", one.path);
            let is_address = match name {
                HostMatch::Exact(name) => name.parse::<IpAddr>().is_ok(),
                HostMatch::Net(_) => true,
                _ => false,
            };
            if is_address {
                let reason = format!("{name} is not a name: DNS is not asked for its address");
                report.add(
                    path,
                    reason,
                    "remove it; `routes` lead addresses to tunnels",
                );
            } else if let HostMatch::Service(service) = name
                && !document.services.contains_key(service)
            {
                let known = document.services.keys().map(String::as_str);
                let remedy = instead(service, known, "services");
                report.add(path, format!("there is no service `{service}`"), remedy);
            }
        }

        if OverlayNames::of(document, one.listener, one.dns).is_empty() {
            report.add(
                format!("{}.dns", one.path),
                "no name is one of the overlay: no route of this listener has a name as `target`",
                "give `names`, such as `names: [VIDEO, \"*.hermes\"]`, or a route for one",
            );
        }
    }
}

/// The resolvers of other names.
fn resolvers(document: &Document, report: &mut Report) {
    for one in each(document) {
        let path = format!("{}.dns.resolvers", one.path);
        if one.dns.others == Some(OtherNames::Refuse) && !one.dns.resolvers.is_empty() {
            let reason = "with `others: refuse` no one is asked";
            report.add(&path, reason, "remove one of both");
        }
        let own = one.dns.pool.iter().filter_map(prefix_of);
        let own: Vec<IpAddr> = own.map(NameLeases::server_address).collect();
        for (index, resolver) in one.dns.resolvers.iter().enumerate() {
            if own.contains(&resolver.0.ip()) {
                report.add(
                    format!("{path}[{index}]"),
                    format!("{resolver} is this name server itself"),
                    "name the one that the machine would ask without it",
                );
            }
        }
    }
}
