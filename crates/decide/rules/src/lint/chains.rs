//! Checks of chains: `to: [a, b]`, and `via` in a row.

use hermes_config::child;
use hermes_config::model::{Chain, Document, EndpointAddress, Upstream};

use super::report::{Check, Report, has_tls};
use super::routes::each_route;
use crate::chains::{MOST, chain_of};

pub(super) const CHECKS: &[Check] = &[lengths, twice, hops, names, via_depth];

fn each_chain(document: &Document, mut check: impl FnMut(&str, &Chain)) {
    each_route(document, |path, route| {
        if let Some(chain) = chain_of(route) {
            check(&format!("{path}.to"), chain);
        }
    });
}

fn lengths(document: &Document, report: &mut Report) {
    each_chain(document, |path, chain| {
        let Some(first) = chain.hops().first() else {
            return report.add(
                path,
                "the chain has no hop",
                "name the upstreams that are passed, the nearest first",
            );
        };

        let before = depth(document, first).unwrap_or(0);
        if chain.hops().len() > MOST {
            let reason = format!(
                "the chain has {} hops, and {MOST} are the most",
                chain.hops().len()
            );
            report.add(path, reason, "leave some out");
        } else if before + chain.hops().len() > MOST {
            let reason =
                format!("with the `via` of `{first}` the chain is longer than {MOST} hops");
            report.add(path, reason, "leave some out");
        }
    });
}

fn twice(document: &Document, report: &mut Report) {
    each_chain(document, |path, chain| {
        for (index, hop) in chain.hops().iter().enumerate() {
            if chain.hops()[..index].contains(hop) {
                report.add(
                    format!("{path}[{index}]"),
                    format!("the chain passes `{hop}` twice"),
                    "remove one",
                );
            }
        }
    });
}

/// Conditions on a hop behind others.
fn hops(document: &Document, report: &mut Report) {
    each_chain(document, |path, chain| {
        for (index, pair) in chain.hops().windows(2).enumerate() {
            let [before, hop] = pair else { continue };
            let Some(upstream) = document.upstreams.get(hop) else {
                continue;
            };
            if let Some((reason, remedy)) = unfit(before, hop, upstream) {
                report.add(format!("{path}[{}]", index + 1), reason, remedy);
            }
        }
    });
}

fn unfit(before: &str, hop: &str, upstream: &Upstream) -> Option<(String, String)> {
    let is_unix = |endpoint: &hermes_config::model::Endpoint| {
        matches!(endpoint.address(), EndpointAddress::Unix(_))
    };
    if let Some(via) = &upstream.via {
        let reason =
            format!("`{hop}` is reached through `{before}` here, and has `via: {via}` of its own");
        return Some((
            reason,
            "remove its `via`, or make an upstream without".to_owned(),
        ));
    }

    if upstream.endpoints.iter().any(is_unix) {
        let reason = format!("`{before}` cannot reach the Unix socket of `{hop}`");
        return Some((reason, "write a host and a port".to_owned()));
    }

    (!has_tls(upstream)).then(|| {
        let reason = format!("`{hop}` has no TLS, so `{before}` could read all that is meant for `{hop}`");
        (reason, format!("add `tls` to `{hop}`; if that is meant, give it `via: {before}` and write `to: {hop}`"))
    })
}

/// Names of the form that chains give.
fn names(document: &Document, report: &mut Report) {
    for name in document
        .upstreams
        .keys()
        .filter(|name| Chain::is_name(name))
    {
        report.add(
            child("upstreams", name),
            "names with ` > ` in them are those of chains",
            "choose another name",
        );
    }
}

/// Each is reported at the upstream where the way becomes too long.
fn via_depth(document: &Document, report: &mut Report) {
    for name in document
        .upstreams
        .keys()
        .filter(|name| depth(document, name) == Some(MOST + 1))
    {
        let reason = format!("more than {MOST} proxies are on the way to it");
        report.add(
            child(&child("upstreams", name), "via"),
            reason,
            "leave some out",
        );
    }
}

/// Proxies that are passed on the way to an upstream; `None` where `via` leads nowhere or in a circle.
fn depth(document: &Document, name: &str) -> Option<usize> {
    let mut upstream = document.upstreams.get(name)?;
    for depth in 0..=document.upstreams.len() {
        let Some(via) = &upstream.via else {
            return Some(depth);
        };
        upstream = document.upstreams.get(via)?;
    }

    None
}
