//! Tunnels of IP packets whose connections of TCP would run inside another one.

use std::collections::BTreeSet;

use hermes_config::child;
use hermes_config::model::{Document, ExchangeKind, Hops, HttpVersion, Route};

use crate::lint::Finding;

/// The upstreams to which the device of a `tun` listener leads over TCP, packet by packet: what is lost there is sent again twice, by the
/// carrier and by the connections inside, which back off for each other.
pub(crate) fn tcp_in_tcp(document: &Document) -> Vec<Finding> {
    let devices = document
        .listeners
        .values()
        .filter_map(|listener| listener.tun.as_ref());
    if devices.clone().count() == 0 || devices.clone().all(|tun| tun.super_packets()) {
        return Vec::new();
    }

    let routes = document.routes.iter().filter(|route| takes_packets(route));
    let next: BTreeSet<&str> = routes.flat_map(first_hops).collect();
    let is_tcp = |name: &&str| {
        let upstream = document.upstreams.get(*name);
        upstream.is_some_and(|upstream| {
            let versions = upstream.http.as_deref().unwrap_or_default();
            versions.first() != Some(&HttpVersion::H3)
        })
    };
    next.into_iter()
        .filter(is_tcp)
        .map(|name| Finding {
            path: format!("{}.http", child("upstreams", name)),
            reason: "tunnels of a `tun` listener go there over TCP, packet by packet: what is lost is sent again by the carrier and by the \
                     connections inside"
                .to_owned(),
            remedy: Some(
                "set `http: 3`, or `super_packets: true` at the device and where its tunnels end"
                    .to_owned(),
            ),
        })
        .collect()
}

/// Whether a route may take tunnels of packets.
fn takes_packets(route: &Route) -> bool {
    let mut kinds = route.matches.kind.iter().flatten();
    route.matches.kind.is_none() || kinds.any(|kind| *kind == ExchangeKind::ConnectIp)
}

/// The upstreams to which a route leads first.
fn first_hops(route: &Route) -> Vec<&str> {
    match &route.to {
        Some(Hops::One(name)) => vec![name.as_str()],
        Some(Hops::Split(split)) => split.keys().map(String::as_str).collect(),
        Some(Hops::Chain(chain)) => chain
            .hops()
            .first()
            .into_iter()
            .map(String::as_str)
            .collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The paths that are warned of, where a device leads to this upstream.
    fn warned(tun: Value, upstream: Value) -> Vec<String> {
        let document: Document = serde_json::from_value(json!({
            "version": 1,
            "listeners": { "vpn": { "tun": tun } },
            "routes": [
                { "match": { "kind": "connect-udp" }, "to": "other" },
                { "match": { "kind": "connect-ip" }, "to": "edge" },
            ],
            "upstreams": { "edge": upstream, "other": { "endpoints": ["a:1"], "http": 2 } },
        }))
        .unwrap();
        tcp_in_tcp(&document)
            .into_iter()
            .map(|found| found.path)
            .collect()
    }

    #[test]
    fn packets_over_tcp_are_warned_of_unless_they_go_whole() {
        let over = |http: Value| json!({ "endpoints": ["a:1"], "tls": true, "http": http });
        let path = ["upstreams.edge.http"];
        assert_eq!(warned(json!("hermes0"), over(json!(2))), path);
        assert_eq!(warned(json!("hermes0"), over(json!([2, 3]))), path);
        assert_eq!(
            warned(json!("hermes0"), json!({ "endpoints": ["a:1"] })),
            path
        );

        assert!(warned(json!("hermes0"), over(json!(3))).is_empty());
        let whole = json!({ "name": "hermes0", "super_packets": true });
        assert!(warned(whole, over(json!(2))).is_empty());
    }
}
