//! Checks of the links between upstreams, and of credentials shown over them.

use std::net::IpAddr;

use hermes_config::child;
use hermes_config::model::{Document, EndpointAddress, Upstream};

use super::report::{Check, Report, each_upstream, has_tls, instead};

pub(super) const CHECKS: &[Check] = &[via_names, via_cycles, via_to_unix, via_to_link, token];

fn via_names(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let Some(via) = &upstream.via else { return };
        if !document.upstreams.contains_key(via) {
            let known = document
                .upstreams
                .keys()
                .map(String::as_str)
                .filter(|name| path != child("upstreams", name));
            report.add(
                format!("{path}.via"),
                format!("there is no upstream `{via}`"),
                instead(via, known, "upstreams"),
            );
        }
    });
}

/// Each cycle is reported once, at its first upstream.
fn via_cycles(document: &Document, report: &mut Report) {
    for (index, start) in document.upstreams.keys().enumerate() {
        let Some(cycle) = cycle_from(document, start) else {
            continue;
        };
        let is_first = cycle
            .iter()
            .all(|name| document.upstreams.get_index_of(*name) >= Some(index));
        if is_first {
            let reason = format!("`via` goes in a circle: {} -> {start}", cycle.join(" -> "));
            report.add(
                child(&child("upstreams", start), "via"),
                reason,
                "remove one `via` of the circle",
            );
        }
    }
}

/// The upstreams from `start` back to `start`, if `via` leads there.
fn cycle_from<'a>(document: &'a Document, start: &'a str) -> Option<Vec<&'a str>> {
    let mut passed = vec![start];
    loop {
        let next = document.upstreams.get(*passed.last()?)?.via.as_deref()?;
        if next == start {
            return Some(passed);
        }

        if passed.contains(&next) {
            return None;
        }
        passed.push(next);
    }
}

/// A proxy's CONNECT reaches hosts, not Unix sockets (RFC 9110, 9.3.6).
fn via_to_unix(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        let sockets = |(_, endpoint): &(usize, &hermes_config::model::Endpoint)| {
            matches!(endpoint.address(), EndpointAddress::Unix(_))
        };
        if upstream.via.is_none() {
            return;
        }

        for (index, _) in upstream.endpoints.iter().enumerate().filter(sockets) {
            let reason = "a Unix socket cannot be reached through another proxy";
            report.add(
                format!("{path}.endpoints[{index}]"),
                reason,
                "remove `via`, or write a host and a port",
            );
        }
    });
}

/// The links of this machine are not those of the proxy on the way.
fn via_to_link(document: &Document, report: &mut Report) {
    each_upstream(document, |path, upstream| {
        if upstream.via.is_none() {
            return;
        }
        for (index, endpoint) in upstream.endpoints.iter().enumerate() {
            if let EndpointAddress::Tcp(address) = endpoint.address()
                && let (_, Some(zone)) = address.zoned()
            {
                report.add(
                    format!("{path}.endpoints[{index}]"),
                    format!("`{zone}` is an interface of this machine, and the endpoint is reached through another proxy"),
                    "remove `via`, or write an address that is not link-local",
                );
            }
        }
    });
}

/// The node's token must exist to be sent, and must not be read on the way.
fn token(document: &Document, report: &mut Report) {
    let has_token = document
        .identity
        .as_ref()
        .is_some_and(|identity| identity.token_file.is_some());
    each_upstream(document, |path, upstream| {
        if upstream.send_token != Some(true) {
            return;
        }
        let path = format!("{path}.send_token");
        if !has_token {
            report.add(
                path,
                "there is no token to send",
                "add `identity.token_file`, or remove `send_token`",
            );
        } else if !has_tls(upstream) && !is_local(upstream) {
            let reason =
                "the node's token would be sent over a clear link, where others can read it";
            report.add(path, reason, "add `tls`, or remove `send_token`");
        }
    });
}

/// Whether every endpoint is on this machine.
fn is_local(upstream: &Upstream) -> bool {
    upstream.via.is_none()
        && upstream
            .endpoints
            .iter()
            .all(|endpoint| match endpoint.address() {
                EndpointAddress::Unix(_) => true,
                EndpointAddress::Tcp(address) => {
                    let host = address.host.trim_end_matches('.');
                    host.eq_ignore_ascii_case("localhost")
                        || host
                            .parse::<IpAddr>()
                            .is_ok_and(|address| address.to_canonical().is_loopback())
                }
            })
}
