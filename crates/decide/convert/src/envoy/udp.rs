//! UDP proxies: datagrams go to a cluster as they are, or in CONNECT-UDP.

use serde_json::{Value as Json, json};

use super::address::Address;
use super::cluster::{ClusterKind, Clusters};
use super::extension::{config, kind};
use super::scope::Scope;
use super::tcp;
use crate::draft::{Draft, Rank};
use crate::quantity::duration;
use crate::source::Node;

pub(super) fn convert(
    listener: &Node,
    address: &Address,
    scope: &Scope,
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> bool {
    listener.skip(&["udp_listener_config", "filter_chains"]);
    let mut filters = listener.list("listener_filters").iter();
    let Some(filter) = filters.find(|filter| kind(filter).contains("udp_proxy")) else {
        draft.left_out(listener.line, scope.subject.clone(), "it has no UDP proxy");
        return false;
    };
    let proxy = config(filter);
    proxy.skip(&[
        "@type",
        "stat_prefix",
        "session_filters",
        "upstream_socket_config",
        "access_log",
    ]);
    let Some(destination) = DatagramCluster::of(proxy, clusters) else {
        let reason = "its cluster is not in the file, or was not carried over";
        draft.left_out(proxy.line, scope.subject.clone(), reason);
        return false;
    };

    let mut json = json!({ "udp": address.text() });
    if address.is_public() {
        json["public"] = json!(true);
    }
    let mut route = json!({ "match": { "listener": scope.name } });
    if let Some(tunneling) = proxy.field("tunneling_config") {
        // The target is the tunnel's, the cluster is the proxy that the tunnel goes to.
        let Some(target) = target(tunneling, scope, draft) else {
            return false;
        };
        json["target"] = json!(target);
        tcp::tunnel(tunneling, &mut route, draft);
        held(tunneling, &mut json);
        route["to"] = json!(destination.upstream);
    } else {
        // The route sends to the endpoints of its upstream, but a listener has to have a target.
        json["target"] = json!(destination.first.text());
        route["terminate"] = json!(destination.upstream);
    }

    if let Some(time) = proxy.milliseconds("idle_timeout").filter(|time| *time > 0) {
        route["timeouts"] = json!({ "udp": duration(time) });
    }
    draft.listeners.insert(scope.name.clone(), json);
    draft.route(Rank::Fixed, proxy.line, route);
    true
}

/// The upstream that datagrams go to, and the first of its endpoints.
struct DatagramCluster {
    upstream: String,
    first: Address,
}

impl DatagramCluster {
    /// The destination of a proxy; `None` if its cluster has no endpoints here.
    fn of(proxy: &Node, clusters: &mut Clusters) -> Option<Self> {
        let name = proxy.text("cluster").or_else(|| of_matcher(proxy))?;
        let cluster = clusters.get_mut(name)?;
        let ClusterKind::Endpoints { first, .. } = cluster.kind.clone() else {
            return None;
        };

        let upstream = cluster.used();
        Some(Self { upstream, first })
    }
}

/// The cluster of a matcher without conditions.
fn of_matcher(proxy: &Node) -> Option<&str> {
    let matcher = proxy.field("matcher")?;
    let action = matcher.at(&["on_no_match", "action"])?;
    action.skip(&["name"]);
    let route = action.field("typed_config")?;
    route.skip(&["@type"]);
    route.text("cluster")
}

/// The target of a tunnel, which has to be the same for all sessions.
fn target(tunneling: &Node, scope: &Scope, draft: &mut Draft) -> Option<String> {
    tunneling.skip(&["proxy_host", "proxy_port", "default_target_port"]);
    let host = tunneling.text("target_host").unwrap_or_default();
    let port = tunneling.number("default_target_port").unwrap_or(0);
    // `%` begins a substitution from the content of a session, which is not read here.
    if !host.is_empty() && !host.contains('%') && (1..=65535).contains(&port) {
        let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
        let host = match is_bare_ipv6 {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        return Some(format!("{host}:{port}"));
    }
    let reason = format!("`{host}` with port {port} is not a fixed target");
    draft.left_out(tunneling.line, scope.subject.clone(), reason);
    None
}

/// Sets the bytes of datagrams that a listener holds while a tunnel opens.
fn held(tunneling: &Node, listener: &mut Json) {
    let Some(buffer) = tunneling.field("buffer_options") else {
        return;
    };
    buffer.skip(&["max_buffered_datagrams"]);
    if let Some(bytes) = buffer
        .number("max_buffered_bytes")
        .filter(|bytes| *bytes > 0)
    {
        listener["datagrams"] = json!({ "hold_bytes": format!("{bytes}B") });
    }
}
