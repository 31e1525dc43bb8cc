//! TCP proxies: connections go to a cluster as they are, or in a tunnel.

use serde_json::{Value as Json, json};

use super::cluster::{ClusterKind, Clusters};
use super::fields;
use super::scope::Scope;
use crate::draft::{Draft, Rank};
use crate::quantity::duration;
use crate::source::Node;

pub(super) fn convert(
    proxy: &Node,
    scope: &Scope,
    mut listener: Json,
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> bool {
    proxy.skip(&[
        "@type",
        "stat_prefix",
        "max_connect_attempts",
        "idle_timeout",
    ]);
    let name = proxy.text("cluster").or_else(|| heaviest(proxy));
    let cluster = name.and_then(|name| clusters.get_mut(name));
    let Some(cluster) = cluster else {
        draft.left_out(
            proxy.line,
            scope.subject.clone(),
            "its cluster is not in the file",
        );
        return false;
    };
    let ClusterKind::Endpoints { first, .. } = cluster.kind.clone() else {
        let reason = "its cluster was not carried over";
        draft.left_out(proxy.line, scope.subject.clone(), reason);
        return false;
    };
    let upstream = cluster.used();

    let mut route = json!({ "match": { "listener": scope.name } });
    if let Some(tunneling) = proxy.field("tunneling_config") {
        let Some(target) = target(tunneling, scope, draft) else {
            return false;
        };
        listener["target"] = json!(target);
        tunnel(tunneling, &mut route, draft);
        route["to"] = json!(upstream);
    } else {
        // The target of the exchange shows in records, and has no other meaning here.
        listener["target"] = json!(first.text().replace("unix:", "unix.invalid:1"));
        route["terminate"] = json!(upstream);
    }
    draft.listeners.insert(scope.name.clone(), listener);
    draft.route(Rank::Fixed, proxy.line, route);
    true
}

/// Of weighted clusters, the one that has most.
fn heaviest(proxy: &Node) -> Option<&str> {
    let weighted = proxy.field("weighted_clusters")?;
    let clusters = weighted.list("clusters").iter();
    let heaviest = clusters.max_by_key(|cluster| cluster.number("weight").unwrap_or(0))?;
    heaviest.text("name")
}

/// `host:port` that a tunnel is for.
fn target(tunneling: &Node, scope: &Scope, draft: &mut Draft) -> Option<String> {
    let target = tunneling.text("hostname").unwrap_or_default();
    let has_port = target
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if has_port && !target.contains('%') {
        return Some(target.to_owned());
    }
    let reason =
        format!("`{target}` is not a host and port, and the content of connections is not read");
    draft.left_out(tunneling.line, scope.subject.clone(), reason);
    None
}

/// The form of a tunnel, and the fields of its request.
pub(super) fn tunnel(tunneling: &Node, route: &mut Json, draft: &mut Draft) {
    tunneling.skip(&["propagate_response_headers", "propagate_response_trailers"]);
    let is_post = tunneling.flag("use_post");
    if is_post {
        let path = tunneling.text("post_path").unwrap_or("/");
        route["tunnel"] = json!({ "post": path });
    }
    for option in tunneling.list("headers_to_add") {
        let header = option.field("header");
        let name = header.and_then(|header| header.text("key"));
        let value = header
            .and_then(|header| header.text("value"))
            .unwrap_or_default();
        option.skip(&["append_action", "append", "keep_empty_value"]);
        let value = fields::template(value).ok();
        let Some((name, value)) = name.zip(value) else {
            draft.left_out(
                option.line,
                "headers_to_add",
                "this value has no counterpart",
            );
            continue;
        };
        if route.get("set").is_none() {
            route["set"] = json!({});
        }
        route["set"][name.to_ascii_lowercase()] = json!(value);
    }
    if let Some(retries) = tunneling.field("retry_options") {
        if let Some(attempts) = retries.number("max_connect_attempts") {
            route["retry"] = json!({ "attempts": attempts.clamp(1, 10) });
        }
        if let Some(backoff) = retries.field("backoff_options") {
            let base = backoff.milliseconds("base_interval").map(duration);
            backoff.skip(&["max_interval"]);
            if let (Some(base), Some(retry)) = (base, route.get_mut("retry")) {
                retry["backoff"] = json!({ "base": base });
            }
        }
    }
}
