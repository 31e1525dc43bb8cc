//! Connection managers, which become listeners for HTTP, and their virtual hosts.

use serde_json::{Value as Json, json};

use super::cluster::Clusters;
use super::route::{self, Surroundings};
use super::scope::{Scope, Tunnels};
use super::{authorization, matcher};
use crate::draft::{Draft, Rank, one_or_many, put};
use crate::quantity::duration;
use crate::source::Node;

/// Keys that say nothing that needs to be told here.
const SILENT: &[&str] = &[
    "@type",
    "stat_prefix",
    "codec_type",
    "normalize_path",
    "merge_slashes",
    "http_protocol_options",
    "http3_protocol_options",
    "generate_request_id",
    "strip_any_host_port",
    "strip_matching_host_port",
    "path_with_escaped_slashes_action",
];

/// Has the document have the routes of a connection manager, and completes its listener.
pub(super) fn convert(
    manager: &Node,
    scope: &Scope,
    listener: &mut Json,
    clusters: &mut Clusters,
    draft: &mut Draft,
) {
    manager.skip(SILENT);
    put(listener, "gateway", json!(true));
    limits(manager, listener);
    addresses(manager, scope, listener, draft);
    authorization::filters(manager, scope, clusters, draft);

    let configs = manager.list("upgrade_configs");
    let mut tunnels = Tunnels::of(configs);
    let Some(table) = manager.field("route_config") else {
        manager.skip(&["rds", "scoped_routes"]);
        let reason = "its routes are not in the file; what enters here is answered with 404";
        draft.left_out(manager.line, scope.subject.clone(), reason);
        return;
    };
    table.skip(&["name", "validate_clusters"]);

    let mut hosts: Vec<&Node> = table.list("virtual_hosts").iter().collect();
    hosts.sort_by_key(|host| matcher::specificity(host));
    for host in hosts {
        let around = Surroundings {
            scope,
            table,
            host,
            tunnels,
            upgrades: Tunnels::others(configs),
        };
        tunnels.websocket |= virtual_host(&around, clusters, draft);
    }
    refuse_tunnels(manager, scope, tunnels, draft);
}

/// The routes of a virtual host; whether one of them lets WebSocket through.
fn virtual_host(around: &Surroundings<'_>, clusters: &mut Clusters, draft: &mut Draft) -> bool {
    let host = around.host;
    host.skip(&["name", "include_request_attempt_count"]);
    let mut has_websocket = false;
    let mut is_complete = false;
    for one in host.list("routes") {
        let converted = route::convert(one, around, clusters, draft);
        has_websocket |= converted.has_websocket;
        is_complete |= converted.is_everything;
    }

    if let Some(required) = host.text("require_tls").filter(|mode| *mode != "NONE") {
        let reason = format!(
            "{required} is not asked for; a route with `redirect` before the others does it"
        );
        draft.left_out(
            host.line,
            format!("{} require_tls", around.scope.subject),
            reason,
        );
    }
    // Once a virtual host is chosen, Envoy asks no other.
    let domains = matcher::domains(host);
    if !is_complete && !domains.is_empty() {
        let mut matched = around.scope.condition();
        put(&mut matched, "target", one_or_many(domains));
        let route = json!({ "match": matched, "respond": { "status": 404 } });
        draft.route(Rank::Request, host.line, route);
    }
    has_websocket
}

/// Tunnels that no route takes go nowhere: a route for requests would end them at a server.
fn refuse_tunnels(manager: &Node, scope: &Scope, tunnels: Tunnels, draft: &mut Draft) {
    let mut kinds = vec!["connect", "connect-tcp", "connect-udp", "connect-ip"];
    if !tunnels.websocket {
        kinds.push("upgrade");
    }
    let mut matched = scope.condition();
    put(&mut matched, "kind", json!(kinds));
    let route = json!({ "match": matched, "respond": { "status": 404 } });
    draft.route(Rank::NoTunnel, manager.line, route);
}

fn limits(manager: &Node, listener: &mut Json) {
    let mut limits = json!({});
    if let Some(kilobytes) = manager.number("max_request_headers_kb") {
        limits["head_bytes"] = json!(format!("{kilobytes}KiB"));
    }
    if let Some(time) = manager
        .milliseconds("request_headers_timeout")
        .filter(|time| *time > 0)
    {
        limits["head_time"] = json!(duration(time));
    }
    if let Some(options) = manager.field("common_http_protocol_options") {
        if let Some(time) = options
            .milliseconds("idle_timeout")
            .filter(|time| *time > 0)
        {
            limits["idle_time"] = json!(duration(time));
        }
        if let Some(count) = options.number("max_headers_count") {
            limits["fields"] = json!(count);
        }
        options.skip(&["headers_with_underscores_action"]);
    }
    if let Some(options) = manager.field("http2_protocol_options") {
        options.skip(&[
            "allow_connect",
            "initial_stream_window_size",
            "initial_connection_window_size",
        ]);
        if let Some(count) = options.number("max_concurrent_streams") {
            limits["streams"] = json!(count);
        }
    }
    if limits.as_object().is_some_and(|limits| !limits.is_empty()) {
        put(listener, "limits", limits);
    }
}

/// What is said to servers of a client's address.
fn addresses(manager: &Node, scope: &Scope, listener: &mut Json, draft: &mut Draft) {
    let appends = manager.flag("use_remote_address") && !manager.flag("skip_xff_append");
    manager.skip(&["use_remote_address", "skip_xff_append"]);
    if appends {
        put(
            listener,
            "set",
            json!({ "x-forwarded-for": "{peer.address}" }),
        );
    }
    if let Some(hops) = manager
        .number("xff_num_trusted_hops")
        .filter(|hops| *hops > 0)
    {
        let reason = format!(
            "the client's address is not read from the field of {hops} proxies before this one"
        );
        draft.left_out(
            manager.line,
            format!("{} xff_num_trusted_hops", scope.subject),
            reason,
        );
    }
}
