//! Connection managers, which become listeners for HTTP, and their virtual hosts.

use std::rc::Rc;

use serde_json::{Value as Json, json};

use super::cluster::Clusters;
use super::extension::{config, kind};
use super::route::{self, ConvertedRoute, Surroundings};
use super::scope::{Scope, Tunnels};
use super::{authorization, chains, matcher};
use crate::discovered::Discovered;
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
    let found = Rc::clone(&draft.discovered);
    let fixed = manager.field("route_config");
    let Some(table) = fixed.or_else(|| discovered(manager, &found)) else {
        manager.skip(&["rds", "scoped_routes"]);
        let reason = "its routes are not in the file; what enters here is answered with 404";
        draft.left_out(manager.line, scope.subject.clone(), reason);
        return;
    };
    table.skip(&["@type", "name", "validate_clusters"]);

    let mut hosts: Vec<&Node> = table.list("virtual_hosts").iter().collect();
    hosts.sort_by_key(|host| matcher::specificity(host));
    let mut is_complete = false;
    for host in hosts {
        let Some(domains) = chains::narrowed(host, &scope.names) else {
            host.skip_all();
            let reason = "none of its domains is a name that its chain of filters takes";
            draft.differs(host.line, format!("{} virtual host", scope.subject), reason);
            continue;
        };
        let around = Surroundings {
            scope,
            table,
            host,
            domains,
            tunnels,
            upgrades: Tunnels::others(configs),
        };
        let converted = virtual_host(&around, clusters, draft);
        tunnels.websocket |= converted.has_websocket;
        // A virtual host for all domains ends with an answer of its own.
        is_complete |= matcher::domains(host).is_empty();
    }
    end_names(manager, scope, is_complete, draft);
    refuse_tunnels(manager, scope, tunnels, draft);
}

/// The table of routes in a file.
fn discovered<'a>(manager: &Node, found: &'a Discovered) -> Option<&'a Node> {
    let rds = manager.field("rds")?;
    let name = rds.text("route_config_name").unwrap_or_default();
    let source = rds.field("config_source")?;
    found.named(source, "RouteConfiguration", "name", name)
}

/// Requests for the names of a chain go to no other chain.
fn end_names(manager: &Node, scope: &Scope, is_complete: bool, draft: &mut Draft) {
    if scope.names.is_empty() {
        return;
    }
    let reason = "routes are chosen by the host of the request, and not by the name of the handshake; tunnels by their target";
    draft.differs(
        manager.line,
        format!("{} server_names", scope.subject),
        reason,
    );
    if !is_complete {
        let route = json!({ "match": scope.condition(), "respond": { "status": 404 } });
        draft.route(Rank::Request, manager.line, route);
    }
}

/// The routes of a virtual host.
fn virtual_host(
    around: &Surroundings<'_>,
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> ConvertedRoute {
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
    if !is_complete && !around.domains.is_empty() {
        let mut matched = around.scope.condition();
        put(&mut matched, "target", one_or_many(around.domains.clone()));
        let route = json!({ "match": matched, "respond": { "status": 404 } });
        draft.route(Rank::Request, host.line, route);
    }
    ConvertedRoute {
        has_websocket,
        is_everything: is_complete,
    }
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

/// The fields that name a client's address to servers.
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
            "the client's address is not read behind a number of proxies ({hops}): name their addresses in `client_address: {{ field: x-forwarded-for, from: .. }}`"
        );
        draft.left_out(
            manager.line,
            format!("{} xff_num_trusted_hops", scope.subject),
            reason,
        );
    }
    for extension in manager.list("original_ip_detection_extensions") {
        client_address(extension, scope, listener, draft);
    }
}

/// The field that trusted proxies write a client's address into.
fn client_address(extension: &Node, scope: &Scope, listener: &mut Json, draft: &mut Draft) {
    let kind = kind(extension);
    let config = config(extension);
    let cidrs = config
        .at(&["xff_trusted_cidrs"])
        .map(|cidrs| cidrs.list("cidrs"));
    let prefix = |cidr: &Node| {
        let address = cidr.text("address_prefix")?;
        let bits = cidr.number("prefix_len").unwrap_or(0);
        Some(json!(format!("{address}/{bits}")))
    };
    let from: Vec<Json> = cidrs.into_iter().flatten().filter_map(prefix).collect();
    if from.is_empty() {
        extension.skip_all();
        let reason = format!(
            "{kind} has no counterpart: `client_address` reads a field that proxies at known addresses write"
        );
        draft.left_out(extension.line, scope.subject.clone(), reason);
        return;
    }
    config.skip(&["@type", "skip_xff_append"]);
    let read = json!({ "field": "x-forwarded-for", "from": from });
    put(listener, "client_address", read);
}
