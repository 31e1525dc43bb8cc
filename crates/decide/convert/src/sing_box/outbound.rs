//! Outbounds and endpoints: where exchanges go.

use std::collections::HashMap;

use ipnet::IpNet;
use serde_json::{Value as Json, json};

use super::credentials::{self, secret};
use crate::draft::{Draft, Rank, one_or_many, put};
use crate::source::Node;
use crate::wireguard::pool;

/// Keys that say nothing that needs to be told here.
const SILENT: &[&str] = &[
    "type",
    "tag",
    "domain_strategy",
    "domain_resolver",
    "tcp_fast_open",
    "udp_fragment",
    "system",
    "name",
    "workers",
];

/// How many selectors may lead to each other.
const DEEPEST: u32 = 8;

/// The effect of an outbound.
enum Way {
    /// Connects to the target itself.
    Direct,
    /// Refuses.
    Block,
    /// Asks the next proxy, an upstream of ours.
    Proxy(String),
    /// Sends packets into the tunnel of a listener of ours.
    Packets(String),
    /// The same as another outbound.
    Other(String),
    /// Cannot be carried.
    Unknown,
}

pub(super) struct Outbounds<'a> {
    ways: HashMap<&'a str, Way>,
    first: Option<&'a str>,
}

impl<'a> Outbounds<'a> {
    pub(super) fn new(root: &'a Node, draft: &mut Draft) -> Self {
        let mut all = Self {
            ways: HashMap::new(),
            first: None,
        };
        let nodes: Vec<&Node> = root
            .list("outbounds")
            .iter()
            .chain(root.list("endpoints"))
            .collect();
        let names = upstream_names(&nodes, draft);
        for node in nodes {
            let tag = node
                .text("tag")
                .or_else(|| node.text("type"))
                .unwrap_or_default();
            let way = way(node, tag, &names, draft);
            all.first.get_or_insert(tag);
            all.ways.insert(tag, way);
        }
        all
    }

    /// The outbound of exchanges that no rule takes.
    pub(super) fn default_tag<'b>(&self, root: &'b Node) -> &'b str
    where
        'a: 'b,
    {
        let last = root.field("route").and_then(|route| route.text("final"));
        last.or(self.first).unwrap_or("direct")
    }

    /// Adds the route to an outbound; whether that connects to targets itself.
    pub(super) fn route(&self, tag: &str, matched: Json, line: u32, draft: &mut Draft) -> bool {
        let way = self.way(tag);
        let mut route = json!({});
        if matched != json!({}) {
            put(&mut route, "match", matched.clone());
        }
        match way {
            Some(Way::Direct) => put(&mut route, "terminate", json!(true)),
            Some(Way::Block) => refuse(&mut route, 403, "blocked"),
            Some(Way::Proxy(upstream)) => put(&mut route, "to", json!(upstream)),
            Some(Way::Packets(listener)) => {
                let mut tunnels = matched.clone();
                put(
                    &mut tunnels,
                    "kind",
                    json!(["connect", "connect-tcp", "connect-udp"]),
                );
                let end = json!({ "match": tunnels, "terminate": { "ip": listener } });
                draft.route(Rank::Request, line, end);
                // Requests in the clear are no packets, and must not go another way.
                refuse(&mut route, 501, "only tunnels go this way");
            }
            Some(Way::Other(_) | Way::Unknown) | None => {
                refuse(
                    &mut route,
                    501,
                    &format!("the outbound {tag} was not carried over"),
                );
            }
        }
        draft.route(Rank::Request, line, route);
        matches!(way, Some(Way::Direct))
    }

    /// The effect of an outbound, or of the one that a selector has chosen.
    fn way(&self, tag: &str) -> Option<&Way> {
        let mut tag = tag;
        for _ in 0..DEEPEST {
            match (self.ways.get(tag), tag) {
                (Some(Way::Other(other)), _) => tag = other,
                (Some(way), _) => return Some(way),
                (None, "direct") => return Some(&Way::Direct),
                (None, "block") => return Some(&Way::Block),
                (None, _) => return None,
            }
        }
        None
    }
}

/// Our names of the proxies, by tag.
fn upstream_names<'a>(nodes: &[&'a Node], draft: &mut Draft) -> HashMap<&'a str, String> {
    let proxies = nodes
        .iter()
        .filter(|node| node.text("type") == Some("http"));
    let mut names = HashMap::new();
    for proxy in proxies {
        let tag = proxy.text("tag").unwrap_or("http");
        names.insert(tag, draft.name(tag));
    }
    names
}

fn way(node: &Node, tag: &str, names: &HashMap<&str, String>, draft: &mut Draft) -> Way {
    node.skip(SILENT);
    let subject = format!("outbound {tag}");
    match node.text("type").unwrap_or_default() {
        "direct" => {
            let reason = "connections reach public addresses; name private ones in `egress.allow`";
            draft.differs(node.line, subject.clone(), reason);
            direct_leaves_from(node, &subject, draft);
            Way::Direct
        }
        "block" => Way::Block,
        "http" => proxy(node, tag, names, &subject, draft),
        "wireguard" => wireguard(node, tag, &subject, draft),
        "selector" | "urltest" => {
            let chosen = node
                .text("default")
                .or_else(|| node.texts("outbounds").first().copied());
            node.skip(&[
                "outbounds",
                "url",
                "interval",
                "tolerance",
                "interrupt_exist_connections",
                "idle_timeout",
            ]);
            let reason = "one of its outbounds is used, and no other: the default, or the first";
            draft.left_out(node.line, subject, reason);
            chosen.map_or(Way::Unknown, |chosen| Way::Other(chosen.to_owned()))
        }
        kind => {
            node.skip_all();
            let reason = format!("{kind} is not supported; its exchanges are answered with 501");
            draft.left_out(node.line, subject, reason);
            Way::Unknown
        }
    }
}

fn proxy(
    node: &Node,
    tag: &str,
    names: &HashMap<&str, String>,
    subject: &str,
    draft: &mut Draft,
) -> Way {
    let server = node.text("server").zip(node.number("server_port"));
    let Some(((host, port), name)) = server.zip(names.get(tag)) else {
        draft.left_out(node.line, subject, "it has no `server` and `server_port`");
        return Way::Unknown;
    };
    let address = match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let mut upstream = json!({ "endpoints": [address] });
    if node.flag("tcp_multi_path") {
        upstream["multipath"] = json!(true);
    }
    if let Some(tls) = node.field("tls").filter(|tls| tls.flag("enabled")) {
        upstream["tls"] = client_tls(tls);
    }
    if let Some(detour) = node.text("detour") {
        match names.get(detour) {
            Some(via) => upstream["via"] = json!(via),
            None => {
                draft.left_out(node.line, subject, "its detour is not an HTTP proxy");
                return Way::Unknown;
            }
        }
    }
    credentials::put(node, name, subject, &mut upstream, draft);
    leave_from(node, &mut upstream);
    draft.upstreams.insert(name.clone(), upstream);
    Way::Proxy(name.clone())
}

/// A node leaves from one address for all targets that requests choose, so where the outbound does is told of.
fn direct_leaves_from(node: &Node, subject: &str, draft: &mut Draft) {
    let mut from = json!({});
    leave_from(node, &mut from);
    if from != json!({}) {
        let reason = format!(
            "connections leave from {from} only if `egress` says so, for all targets that requests choose"
        );
        draft.left_out(node.line, subject.to_owned(), reason);
    }
}

/// Where connections leave from.
fn leave_from(node: &Node, into: &mut Json) {
    if let Some(interface) = node.text("bind_interface") {
        into["interface"] = json!(interface);
    }
    let addresses: Vec<Json> = ["inet4_bind_address", "inet6_bind_address"]
        .iter()
        .filter_map(|key| node.text(key))
        .map(|address| json!(address))
        .collect();
    if !addresses.is_empty() {
        into["local_address"] = one_or_many(addresses);
    }
}

fn client_tls(tls: &Node) -> Json {
    tls.skip(&["alpn", "utls"]);
    let mut ours = json!({});
    for (theirs, key) in [
        ("server_name", "server_name"),
        ("certificate_path", "ca_file"),
    ] {
        if let Some(text) = tls.text(theirs) {
            ours[key] = json!(text);
        }
    }
    if tls.flag("insecure") {
        ours["insecure_skip_verify"] = json!(true);
    }
    match ours.as_object().is_some_and(serde_json::Map::is_empty) {
        true => json!(true),
        false => ours,
    }
}

/// A tunnel of WireGuard, into which connections and datagrams go as packets.
fn wireguard(node: &Node, tag: &str, subject: &str, draft: &mut Draft) -> Way {
    let addresses: Vec<IpNet> = node
        .texts("address")
        .into_iter()
        .chain(node.texts("local_address"))
        .filter_map(|text| text.parse().ok())
        .collect();
    let pools: Vec<Json> = addresses
        .iter()
        .filter_map(|address| pool::around(*address))
        .map(|pool| json!(pool.to_string()))
        .collect();
    let peers = node.list("peers");
    let peer = peers.first().unwrap_or(node);
    let name = draft.name(tag);
    let wireguard = wireguard_keys(peer, node, &name, subject, draft);
    let Some(wireguard) = wireguard.filter(|_| !pools.is_empty()) else {
        node.skip_all();
        let reason = "it needs `private_key`, the `public_key` of a peer, and an `address` that is not among the first of its network";
        draft.left_out(node.line, subject, reason);
        return Way::Unknown;
    };
    for further in peers.iter().skip(1) {
        further.skip_all();
        draft.left_out(further.line, subject, "only one peer is used");
    }

    // A device's name has up to 15 bytes.
    let device: String = name.chars().take(10).collect();
    let allowed = wireguard["peer"]["allowed"].clone();
    let mut stack = json!({ "name": device, "stack": true, "addresses": texts(&addresses) });
    let mut end =
        json!({ "tun": format!("{device}-out"), "pool": one_or_many(pools), "routes": allowed });
    if let Some(mtu) = node
        .number("mtu")
        .filter(|mtu| (1280..=65535).contains(mtu))
    {
        stack["mtu"] = json!(mtu);
        end["mtu"] = json!(mtu);
    }
    put(&mut end, "wireguard", wireguard);
    draft
        .listeners
        .insert(name.clone(), json!({ "tun": stack }));
    let matched = json!({ "kind": "connect-ip", "listener": name });
    let route = json!({ "match": matched, "terminate": end });
    draft.route(Rank::Fixed, node.line, route);
    Way::Packets(name)
}

/// The keys of `wireguard`.
fn wireguard_keys(
    peer: &Node,
    node: &Node,
    name: &str,
    subject: &str,
    draft: &mut Draft,
) -> Option<Json> {
    let key = peer
        .text("public_key")
        .or_else(|| peer.text("peer_public_key"))?;
    let private = node.text("private_key")?;
    let key_file = format!("{name}.key");
    draft.files.push(secret(&key_file, private));

    let port = match node.number("listen_port") {
        None | Some(0) => 51820,
        Some(port) => port,
    };
    let peer = peer_json(peer, node, key, name, subject, draft);
    Some(json!({ "listen": format!("0.0.0.0:{port}"), "private_key_file": key_file, "peer": peer }))
}

fn peer_json(
    peer: &Node,
    node: &Node,
    key: &str,
    name: &str,
    subject: &str,
    draft: &mut Draft,
) -> Json {
    let mut json = json!({ "public_key": key });
    let host = peer
        .text("address")
        .or_else(|| peer.text("server"))
        .or_else(|| node.text("server"));
    let port = peer
        .number("port")
        .or_else(|| peer.number("server_port"))
        .or_else(|| node.number("server_port"));
    if let Some((host, port)) = host.zip(port) {
        match host.parse::<std::net::IpAddr>() {
            Ok(address) => {
                let place = u16::try_from(port).unwrap_or_default();
                json["endpoint"] = json!(std::net::SocketAddr::new(address, place).to_string());
            }
            Err(_) => {
                let reason =
                    format!("`{host}` is not an address: names are not looked up for WireGuard");
                draft.left_out(peer.line, subject, reason);
            }
        }
    }
    let allowed = peer.texts("allowed_ips");
    json["allowed"] = match allowed.is_empty() {
        true => json!(["0.0.0.0/0", "::/0"]),
        false => json!(allowed),
    };
    if let Some(seconds) = peer
        .number("persistent_keepalive_interval")
        .filter(|seconds| *seconds > 0)
    {
        json["keepalive"] = json!(format!("{seconds}s"));
    }
    if let Some(shared) = peer.text("pre_shared_key") {
        let file = format!("{name}.psk");
        draft.files.push(secret(&file, shared));
        json["preshared_key_file"] = json!(file);
    }
    if let Some(reserved) = peer.field("reserved").or_else(|| node.field("reserved")) {
        reserved.skip_all();
        draft.left_out(
            reserved.line,
            subject,
            "the reserved bytes of messages are zero",
        );
    }
    json
}

fn texts(prefixes: &[IpNet]) -> Json {
    json!(prefixes.iter().map(IpNet::to_string).collect::<Vec<_>>())
}

/// Answers a route that cannot be converted, so that its exchanges go no other way.
pub(super) fn refuse(route: &mut Json, status: u16, why: &str) {
    put(
        route,
        "respond",
        json!({ "status": status, "body": format!("{why}\n") }),
    );
}
