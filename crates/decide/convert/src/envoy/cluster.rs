//! Clusters, which become upstreams.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value as Json, json};

use super::address::Address;
use super::extension::{config, kind};
use super::{health, tls};
use crate::discovered::Discovered;
use crate::draft::{Draft, one_or_many};
use crate::quantity::duration;
use crate::source::Node;

/// Keys that say nothing that our upstreams need to be told.
const SILENT: &[&str] = &[
    "name",
    "alt_stat_name",
    "dns_lookup_family",
    "dns_refresh_rate",
    "respect_dns_ttl",
    "dns_resolvers",
    "typed_dns_resolver_config",
    "per_connection_buffer_limit_bytes",
    "wait_for_warm_on_init",
    "connection_pool_per_downstream_connection",
];

/// The clusters of a bootstrap, by their names there.
pub(super) type Clusters = BTreeMap<String, Cluster>;

/// A cluster and its conversion.
#[derive(Debug)]
pub(super) struct Cluster {
    /// Our name for it.
    pub(super) name: String,
    pub(super) kind: ClusterKind,
    pub(super) upstream: Map<String, Json>,
    /// Whether a route, a listener or a filter names it.
    is_used: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClusterKind {
    /// An upstream with endpoints.
    Endpoints { first: Address, is_tls: bool },
    /// The request says where it goes.
    Dynamic,
    /// A cluster that cannot be converted, with a note.
    Unknown,
}

impl Cluster {
    /// Has the document have it, if something names it.
    pub(super) fn put(self, draft: &mut Draft) {
        if self.is_used && matches!(self.kind, ClusterKind::Endpoints { .. }) {
            draft
                .upstreams
                .insert(self.name, Json::Object(self.upstream));
        }
    }

    /// Its name, for something that uses it.
    pub(super) fn used(&mut self) -> String {
        self.is_used = true;
        self.name.clone()
    }

    /// Its content without the endpoints: two clusters that are equal there can be one upstream.
    pub(super) fn manner(&self) -> Map<String, Json> {
        let mut manner = self.upstream.clone();
        manner.remove("endpoints");
        manner
    }

    /// Its endpoints with their weights.
    pub(super) fn endpoints(&self) -> Vec<(String, u64)> {
        let list = self.upstream.get("endpoints").and_then(Json::as_array);
        let pair = |endpoint: &Json| match endpoint {
            Json::String(address) => Some((address.clone(), 1)),
            other => {
                let address = other["address"].as_str()?.to_owned();
                Some((address, other["weight"].as_u64().unwrap_or(1)))
            }
        };
        list.into_iter().flatten().filter_map(pair).collect()
    }
}

pub(super) fn convert(cluster: &Node, name: &str, draft: &mut Draft) -> Cluster {
    cluster.skip(SILENT);
    let subject = format!("cluster {name}");
    let mut converted = Cluster {
        name: draft.name(name),
        kind: ClusterKind::Unknown,
        upstream: Map::new(),
        is_used: false,
    };

    let discovery = cluster.text("type").unwrap_or("STATIC");
    if let Some(custom) = cluster.field("cluster_type") {
        custom.skip_all();
        if custom
            .text("name")
            .is_some_and(|name| name.contains("dynamic_forward_proxy"))
        {
            cluster.skip(&["connect_timeout", "lb_policy", "load_assignment"]);
            converted.kind = ClusterKind::Dynamic;
        } else {
            draft.left_out(
                custom.line,
                subject,
                "this type of cluster has no counterpart",
            );
        }
        return converted;
    }
    let found = Rc::clone(&draft.discovered);
    let assignment = match discovery {
        "STATIC" | "STRICT_DNS" | "LOGICAL_DNS" => cluster.field("load_assignment"),
        "EDS" => discovered(cluster, name, &found),
        _ => None,
    };
    let Some(assignment) = assignment else {
        cluster.skip_all();
        let reason =
            format!("endpoints of type {discovery} are not in the file, nor in one that it names");
        draft.left_out(cluster.line, subject, reason);
        return converted;
    };

    let endpoints = endpoints(assignment, &subject, draft);
    let Some(first) = endpoints.first().map(|endpoint| endpoint.address.clone()) else {
        draft.left_out(cluster.line, subject, "it has no endpoints");
        return converted;
    };
    let listed = endpoints.iter().map(Endpoint::json).collect();
    converted
        .upstream
        .insert("endpoints".to_owned(), Json::Array(listed));
    let is_tls = manner(cluster, &subject, &mut converted.upstream, draft);
    converted.kind = ClusterKind::Endpoints { first, is_tls };
    converted
}

/// How endpoints are spoken to; whether under TLS.
fn manner(
    cluster: &Node,
    subject: &str,
    upstream: &mut Map<String, Json>,
    draft: &mut Draft,
) -> bool {
    let tls = cluster
        .field("transport_socket")
        .and_then(|socket| transport(socket, subject, upstream, draft));
    let versions = versions(cluster, tls.is_some(), subject, upstream, draft);
    if versions != [1] || tls.is_some() {
        let versions = versions.into_iter().map(|version| json!(version)).collect();
        upstream.insert("http".to_owned(), one_or_many(versions));
    }
    let is_tls = tls.is_some();
    if let Some(tls) = tls {
        upstream.insert("tls".to_owned(), tls);
    }

    balance(cluster, subject, upstream, draft);
    leave_from(cluster, upstream);
    if let Some(timeout) = cluster.milliseconds("connect_timeout") {
        let timeouts = json!({ "connect": duration(timeout) });
        upstream.insert("timeouts".to_owned(), timeouts);
    }
    health::convert(cluster, subject, upstream, draft);
    is_tls
}

/// The address that connections leave from. A port has no counterpart: any that is free is taken.
fn leave_from(cluster: &Node, upstream: &mut Map<String, Json>) {
    let Some(source) = cluster.at(&["upstream_bind_config", "source_address"]) else {
        return;
    };
    let any = source.number("port_value") == Some(0);
    let address = source.text("address");
    if let Some(address) = address.filter(|_| any || !source.has("port_value")) {
        upstream.insert("local_address".to_owned(), json!(address));
    }
}

fn transport(
    socket: &Node,
    subject: &str,
    upstream: &mut Map<String, Json>,
    draft: &mut Draft,
) -> Option<Json> {
    let kind = kind(socket);
    let config = config(socket);
    if kind.ends_with("QuicUpstreamTransport") {
        let context = config.field("upstream_tls_context")?;
        return Some(tls::upstream(context, subject, draft));
    }
    if kind.ends_with("ProxyProtocolUpstreamTransport") {
        let version = config
            .field("config")
            .and_then(|inner| inner.text("version"));
        let version = if version == Some("V2") { 2 } else { 1 };
        upstream.insert("proxy_protocol".to_owned(), json!(version));
        let inner = config.field("transport_socket")?;
        return transport(inner, subject, upstream, draft);
    }
    if kind.ends_with("UpstreamTlsContext") {
        return Some(tls::upstream(config, subject, draft));
    }
    if !kind.ends_with("RawBuffer") && !kind.ends_with("raw_buffer") {
        socket.skip_all();
        draft.left_out(
            socket.line,
            subject.to_owned(),
            format!("the transport {kind} has no counterpart"),
        );
    }
    None
}

/// The versions of HTTP, the preferred one first.
fn versions(
    cluster: &Node,
    is_tls: bool,
    subject: &str,
    upstream: &mut Map<String, Json>,
    draft: &mut Draft,
) -> Vec<u8> {
    if let Some(options) = cluster.field("http2_protocol_options") {
        keepalive(options, upstream);
        return vec![2];
    }
    let extensions = cluster.field("typed_extension_protocol_options");
    let mut entries = extensions.into_iter().flat_map(Node::entries);
    let Some((key, options)) = entries.find(|(key, _)| key.ends_with("HttpProtocolOptions")) else {
        return vec![1];
    };
    // Looked at by its whole name.
    let options = extensions.and_then(|all| all.field(key)).unwrap_or(options);
    options.skip(&["@type"]);
    let pool = options.field("common_http_protocol_options");
    if let Some(idle) = pool.and_then(|pool| pool.milliseconds("idle_timeout")) {
        health::put_limit(upstream, "idle_time", json!(duration(idle)));
    }

    if let Some(explicit) = options.field("explicit_http_config") {
        return explicit_versions(explicit, upstream);
    }
    if let Some(auto) = options.field("auto_config") {
        let mut versions = Vec::new();
        if let Some(http3) = auto.field("http3_protocol_options") {
            http3.skip_all();
            versions.push(3);
        }
        auto.skip(&["http_protocol_options", "alternate_protocols_cache_options"]);
        if let Some(http2) = auto.field("http2_protocol_options") {
            keepalive(http2, upstream);
        }
        versions.extend([2, 1]);
        return versions;
    }
    if let Some(same) = options.field("use_downstream_protocol_config") {
        same.skip_all();
        draft.differs(
            same.line,
            subject.to_owned(),
            "servers get one version of HTTP, regardless of the client's; `http` of the upstream chooses it",
        );
        return if is_tls { vec![2, 1] } else { vec![1] };
    }
    vec![1]
}

fn explicit_versions(explicit: &Node, upstream: &mut Map<String, Json>) -> Vec<u8> {
    if let Some(http3) = explicit.field("http3_protocol_options") {
        http3.skip_all();
        return vec![3];
    }
    if let Some(http2) = explicit.field("http2_protocol_options") {
        keepalive(http2, upstream);
        return vec![2];
    }
    // A proxy behind it wants the absolute form, and gets it by `to`.
    let keeps_case = explicit
        .at(&[
            "http_protocol_options",
            "header_key_format",
            "stateful_formatter",
        ])
        .is_some_and(|formatter| {
            formatter
                .text("name")
                .is_some_and(|name| name.contains("preserve_case"))
        });
    if keeps_case {
        upstream.insert("field_case".to_owned(), json!("preserve"));
    }
    explicit.skip(&["http_protocol_options"]);
    vec![1]
}

fn keepalive(options: &Node, upstream: &mut Map<String, Json>) {
    options.skip(&[
        "allow_connect",
        "initial_stream_window_size",
        "initial_connection_window_size",
        "max_concurrent_streams",
    ]);
    let Some(keepalive) = options.field("connection_keepalive") else {
        return;
    };
    let mut said = json!({});
    if let Some(interval) = keepalive.milliseconds("interval") {
        said["every"] = json!(duration(interval));
    }
    if let Some(timeout) = keepalive.milliseconds("timeout") {
        said["timeout"] = json!(duration(timeout));
    }
    upstream.insert("keepalive".to_owned(), said);
}

fn balance(cluster: &Node, subject: &str, upstream: &mut Map<String, Json>, draft: &mut Draft) {
    cluster.skip(&[
        "ring_hash_lb_config",
        "maglev_lb_config",
        "least_request_lb_config",
    ]);
    let policy = cluster.text("lb_policy").unwrap_or("ROUND_ROBIN");
    let ours = match policy {
        "ROUND_ROBIN" => return,
        "LEAST_REQUEST" => "least_request",
        // It needs a `hash`, which routes have: there it becomes a ring.
        "RING_HASH" => return,
        "MAGLEV" => {
            let reason =
                "a ring takes the place of Maglev's table: other values find other endpoints";
            draft.differs(cluster.line, subject.to_owned(), reason);
            return;
        }
        other => {
            let reason = format!("{other} is not a way to balance here; endpoints take turns");
            draft.differs(cluster.line, subject.to_owned(), reason);
            return;
        }
    };
    upstream.insert("balance".to_owned(), json!(ours));
}

struct Endpoint {
    address: Address,
    weight: u64,
    zone: Option<String>,
}

impl Endpoint {
    fn json(&self) -> Json {
        if self.weight == 1 && self.zone.is_none() {
            return json!(self.address.text());
        }
        let mut endpoint = json!({ "address": self.address.text() });
        if self.weight != 1 {
            endpoint["weight"] = json!(self.weight.clamp(1, 1000));
        }
        if let Some(zone) = &self.zone {
            endpoint["zone"] = json!(zone);
        }
        endpoint
    }
}

/// The endpoints in the file of an `eds_config`.
fn discovered<'a>(cluster: &Node, name: &str, found: &'a Discovered) -> Option<&'a Node> {
    let config = cluster.field("eds_cluster_config")?;
    let name = config.text("service_name").unwrap_or(name);
    let source = config.field("eds_config")?;
    found.named(source, "ClusterLoadAssignment", "cluster_name", name)
}

fn endpoints(assignment: &Node, subject: &str, draft: &mut Draft) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    assignment.skip(&["@type", "cluster_name"]);
    for locality in assignment.list("endpoints") {
        if locality
            .number("priority")
            .is_some_and(|priority| priority > 0)
        {
            locality.skip_all();
            let reason = "endpoints of a later priority are left out; zones, or a route of their own, may stand for them";
            draft.left_out(locality.line, subject.to_owned(), reason);
            continue;
        }
        let zone = locality.at(&["locality", "zone"]).and_then(Node::as_text);
        for endpoint in locality.list("lb_endpoints") {
            let address = endpoint.field("endpoint").and_then(Address::of);
            match address {
                Some(address) => endpoints.push(Endpoint {
                    address,
                    weight: endpoint.number("load_balancing_weight").unwrap_or(1),
                    zone: zone.map(str::to_owned),
                }),
                None => draft.left_out(
                    endpoint.line,
                    subject.to_owned(),
                    "this endpoint has no address",
                ),
            }
        }
    }
    endpoints
}
