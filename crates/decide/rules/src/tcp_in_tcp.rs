//! Connections that would run inside another one: both retransmit lost packets, and both slow down
//! for it.

use std::collections::BTreeMap;

use hermes_config::model::{
    Document, ExchangeKind, Hops, HostPort, HttpVersion, Listener, ListenerKind, Match, Route, Tun,
};
use hermes_config::{Problem, child};

/// UDP ports of protocols that retransmit lost packets, or carry connections that do: HTTP/3,
/// OpenVPN, IPsec and WireGuard. Other ports are not checked: to most protocols, such as DNS, it
/// does not matter, and calls suffer from delay in any case.
const SENDING_AGAIN: [(u16, &str); 4] = [
    (443, "HTTP/3"),
    (1194, "OpenVPN"),
    (4500, "IPsec"),
    (51_820, "WireGuard"),
];

/// Traffic of a listener that should not be sent over TCP.
struct Sender<'a> {
    listener: &'a str,
    kind: ExchangeKind,
    target: Option<&'a HostPort>,
    reason: String,
    remedy: &'static str,
}

/// The upstreams over TCP that get traffic with retransmissions of its own from a listener, each once. Traffic forwarded for others is
/// not checked: the ends of those tunnels agreed on super-packets, which this document does not show.
pub(crate) fn tcp_in_tcp(document: &Document) -> Vec<Problem> {
    let mut found = BTreeMap::new();
    let listeners = document.listeners.iter();
    for sender in listeners.filter_map(|(name, listener)| sender(name, listener)) {
        for name in next_hops(document, &sender) {
            if is_tcp(document, name) {
                found.entry(name).or_insert_with(|| {
                    let path = format!("{}.http", child("upstreams", name));
                    Problem::new(path, &*sender.reason).remedy(sender.remedy)
                });
            }
        }
    }
    found.into_values().collect()
}

fn sender<'a>(name: &'a str, listener: &'a Listener) -> Option<Sender<'a>> {
    match &listener.kind {
        ListenerKind::Tun(listener) => of_packets(name, &listener.tun),
        ListenerKind::Udp(udp) => of_datagrams(name, udp.purpose.target.as_ref()?),
        ListenerKind::Http(_)
        | ListenerKind::Socks(_)
        | ListenerKind::Tcp(_)
        | ListenerKind::Attach(_)
        | ListenerKind::Capture(_) => None,
    }
}

/// Packets of a device, unless super-packets carry whole segments.
fn of_packets<'a>(listener: &'a str, tun: &Tun) -> Option<Sender<'a>> {
    if tun.super_packets() || !tun.keeps_tunnels() {
        return None;
    }
    let remedy = match tun.is_stack() {
        true => "set `http: 3`",
        false => "set `http: 3`, or `super_packets: true` at the device and where its tunnels end",
    };
    Some(Sender {
        listener,
        kind: ExchangeKind::ConnectIp,
        target: None,
        reason: "tunnels of a `tun` listener go there over TCP, packet by packet: losses are retransmitted by the carrier and by the \
                 connections inside"
            .to_owned(),
        remedy,
    })
}

/// Datagrams whose port belongs to a known protocol.
fn of_datagrams<'a>(listener: &'a str, target: &'a HostPort) -> Option<Sender<'a>> {
    let known = SENDING_AGAIN.iter().find(|(port, _)| *port == target.port);
    let (port, protocol) = known?;
    Some(Sender {
        listener,
        kind: ExchangeKind::ConnectUdp,
        target: Some(target),
        reason: format!(
            "datagrams of `{listener}` for port {port} ({protocol}) go there over TCP: losses are retransmitted by the carrier and by the content"
        ),
        remedy: "set `http: 3`",
    })
}

/// The first hops that a listener's traffic may take.
fn next_hops<'a>(document: &'a Document, sender: &Sender<'_>) -> Vec<&'a str> {
    let mut hops = Vec::new();
    for route in document
        .routes
        .iter()
        .filter(|route| may_take(&route.matches, sender))
    {
        hops.extend(first_hops(route));
        // Later routes get no traffic of this listener.
        if takes_all(&route.matches) {
            break;
        }
    }
    hops
}

fn may_take(matches: &Match, sender: &Sender<'_>) -> bool {
    let kinds = matches.kind.as_ref();
    let listeners = matches.listener.as_ref();
    let targets = matches.target.as_ref().zip(sender.target);
    kinds.is_none_or(|kinds| kinds.contains(&sender.kind))
        && listeners.is_none_or(|names| names.iter().any(|name| name == sender.listener))
        && targets.is_none_or(|(conditions, target)| {
            let mut conditions = conditions.iter();
            conditions.any(|one| one.matches(&target.host, Some(target.port)))
        })
}

/// Whether a route takes all exchanges of its kinds and listeners: it has no other condition.
fn takes_all(matches: &Match) -> bool {
    let others = Match {
        kind: matches.kind.clone(),
        listener: matches.listener.clone(),
        ..Match::default()
    };
    others == *matches
}

fn is_tcp(document: &Document, name: &str) -> bool {
    let upstream = document.upstreams.get(name);
    upstream.is_some_and(|upstream| {
        let versions = upstream.http.as_deref().unwrap_or_default();
        // The first version is the preferred one; the others are fallbacks.
        versions.first() != Some(&HttpVersion::H3)
    })
}

/// The first hops of a route.
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
        paths(json!({ "vpn": { "tun": tun } }), upstream)
    }

    fn paths(listeners: Value, upstream: Value) -> Vec<String> {
        let document: Document = serde_json::from_value(json!({
            "version": 1,
            "listeners": listeners,
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

    #[test]
    fn a_device_without_tunnels_sends_no_packets_and_a_stack_never_whole_ones() {
        let over = json!({ "endpoints": ["a:1"], "http": 2 });
        let names = json!({ "name": "hermes0", "dns": { "pool": "100.64.0.0/16" } });
        assert!(warned(names, over.clone()).is_empty());
        let stack = json!({ "name": "office", "stack": true });
        assert_eq!(warned(stack, over), ["upstreams.edge.http"]);
    }

    #[test]
    fn datagrams_of_a_protocol_that_sends_again_are_warned_of_where_their_route_leads_over_tcp() {
        let edge = json!({ "endpoints": ["a:1"], "http": 2 });
        let at = |target: &str| json!({ "udp": { "udp": "127.0.0.1:5000", "target": target } });
        for target in ["vpn.example:51820", "WEB:443"] {
            assert_eq!(paths(at(target), edge.clone()), ["upstreams.other.http"]);
        }
        for target in ["dns.example:53", "call.example:3478"] {
            assert!(paths(at(target), edge.clone()).is_empty(), "{target}");
        }
    }
}
