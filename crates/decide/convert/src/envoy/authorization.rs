//! HTTP filters: authorisation servers are asked as before; any other filter that keeps requests
//! out refuses them until it is replaced.

use serde_json::{Value as Json, json};

use super::cluster::{Cluster, ClusterKind, Clusters};
use super::extension::{config, kind};
use super::scope::Scope;
use crate::draft::Draft;
use crate::quantity::duration;
use crate::source::Node;

/// Filters by which Envoy keeps requests out, or which may.
const GUARDS: &[&str] = &[
    "rbac",
    "jwt_authn",
    "oauth2",
    "basic_auth",
    "api_key_auth",
    "lua",
    "wasm",
    "ext_proc",
    "golang",
    "dynamic_modules",
    "csrf",
    "credential_injector",
    "gcp_authn",
    "proto_message_extraction",
];

/// Filters that need nothing here.
const SILENT: &[&str] = &[
    "router",
    "dynamic_forward_proxy",
    "grpc_stats",
    "upstream_codec",
];

pub(super) fn filters(manager: &Node, scope: &Scope, clusters: &mut Clusters, draft: &mut Draft) {
    for filter in manager.list("http_filters") {
        let kind = kind(filter);
        let name = family(&kind);
        filter.skip(&["is_optional"]);
        if filter.flag("disabled") {
            filter.skip_all();
        } else if name == "ext_authz" {
            external(filter, scope, clusters, draft);
        } else if SILENT.contains(&name) {
            filter.skip_all();
        } else if GUARDS.contains(&name) {
            filter.skip_all();
            let reason = "it may keep requests out: a rule of the policy refuses all that enters here; replace it by `auth`, `policy` or `authorize`";
            draft.left_out(
                filter.line,
                format!("{} filter {name}", scope.subject),
                reason,
            );
            scope.refuse(name, draft);
        } else {
            filter.skip_all();
            let reason = "this filter has no counterpart";
            draft.left_out(
                filter.line,
                format!("{} filter {name}", scope.subject),
                reason,
            );
        }
    }
}

/// `jwt_authn` of `extensions.filters.http.jwt_authn.v3.JwtAuthentication`, or of `envoy.filters.http.jwt_authn`.
fn family(kind: &str) -> &str {
    let mut parts = kind.split('.').rev().filter(|part| *part != "v3");
    let last = parts.next().unwrap_or_default();
    let is_message = last.starts_with(|letter: char| letter.is_ascii_uppercase());
    match is_message {
        true => parts.next().unwrap_or(last),
        false => last,
    }
}

/// The time that a server has if nothing is said.
const TIMEOUT: u64 = 200;

fn external(filter: &Node, scope: &Scope, clusters: &mut Clusters, draft: &mut Draft) {
    let config = config(filter);
    config.skip(&[
        "@type",
        "transport_api_version",
        "stat_prefix",
        "clear_route_cache",
        "include_peer_certificate",
        "failure_mode_allow_header_add",
    ]);
    let subject = format!("{} ext_authz", scope.subject);
    let asked = match config.field("http_service") {
        Some(service) => by_http(config, service, &subject, draft),
        None => by_grpc(config, &subject, draft),
    };
    let upstream = asked
        .as_ref()
        .and_then(|asked| clusters.get_mut(&asked.cluster))
        .filter(|cluster| matches!(cluster.kind, ClusterKind::Endpoints { .. }))
        .map(Cluster::used);
    let (Some(asked), Some(upstream)) = (asked, upstream) else {
        let reason = "its server is no cluster of the file: a rule of the policy refuses all that enters here";
        draft.left_out(filter.line, subject, reason);
        scope.refuse("ext_authz", draft);
        return;
    };

    let mut entry =
        json!({ "name": draft.name("ext-authz"), "kind": asked.kind, "upstream": upstream });
    if let Some(path) = asked.path {
        entry["path"] = json!(path);
    }
    let matched = scope.condition();
    if matched != json!({}) {
        entry["match"] = matched;
    }
    entry["timeout"] = json!(duration(asked.timeout.min(60_000)));
    if config.flag("failure_mode_allow") {
        entry["fail"] = json!("open");
    }
    if !asked.send.is_empty() {
        entry["send"] = json!(asked.send);
    }
    if !asked.takes.is_empty() {
        entry["allow_fields"] = json!(asked.takes);
    }
    if let Some(body) = config.field("with_request_body") {
        body.skip_all();
        draft.left_out(body.line, subject, "a filter sees heads, not contents");
    }
    draft.authorize.push(entry);
}

/// How a server is asked.
struct Asked {
    kind: &'static str,
    cluster: String,
    path: Option<String>,
    timeout: u64,
    send: Vec<String>,
    takes: Vec<String>,
}

fn by_http(config: &Node, service: &Node, subject: &str, draft: &mut Draft) -> Option<Asked> {
    let server = service.field("server_uri")?;
    server.skip(&["uri"]);
    let request = service.field("authorization_request");
    let shown = config
        .field("allowed_headers")
        .or_else(|| request.and_then(|request| request.field("allowed_headers")));
    let mut send = vec!["authorization".to_owned()];
    send.extend(patterns(shown, subject, draft));
    send.dedup();

    let response = service.field("authorization_response");
    let taken = response.and_then(|response| response.field("allowed_upstream_headers"));
    if let Some(response) = response {
        // Its answer to the client has all of its fields here.
        response.skip(&["allowed_client_headers"]);
    }
    Some(Asked {
        kind: "http",
        cluster: server.text("cluster")?.to_owned(),
        path: service.text("path_prefix").map(str::to_owned),
        timeout: server.milliseconds("timeout").unwrap_or(TIMEOUT),
        send,
        takes: patterns(taken, subject, draft),
    })
}

fn by_grpc(config: &Node, subject: &str, draft: &mut Draft) -> Option<Asked> {
    let service = config.field("grpc_service")?;
    let cluster = service.field("envoy_grpc")?.text("cluster_name")?;
    let shown = config.field("allowed_headers");
    let send = match shown {
        Some(_) => patterns(shown, subject, draft),
        // Envoy shows all of them.
        None => ["*", "authorization", "cookie"].map(str::to_owned).to_vec(),
    };
    let reason =
        "fields that the server gives a request are taken over if `allow_fields` names them";
    draft.differs(config.line, subject.to_owned(), reason);
    Some(Asked {
        kind: "grpc",
        cluster: cluster.to_owned(),
        path: None,
        timeout: service.milliseconds("timeout").unwrap_or(TIMEOUT),
        send,
        takes: Vec::new(),
    })
}

/// Names of headers, and prefixes of names.
fn patterns(list: Option<&Node>, subject: &str, draft: &mut Draft) -> Vec<String> {
    let mut names = Vec::new();
    for pattern in list.map_or(&[][..], |list| list.list("patterns")) {
        pattern.skip(&["ignore_case"]);
        if let Some(name) = pattern.text("exact") {
            names.push(name.to_ascii_lowercase());
        } else if let Some(prefix) = pattern.text("prefix") {
            names.push(format!("{}*", prefix.to_ascii_lowercase()));
        } else {
            pattern.skip_all();
            let reason = "fields are named in whole or by how they begin";
            draft.left_out(pattern.line, subject.to_owned(), reason);
        }
    }
    names
}

/// Declares the fields that servers give, so that no client can set them where they are not asked.
pub(super) fn given_fields(authorize: &[Json]) -> Vec<String> {
    let lists = authorize
        .iter()
        .filter_map(|entry| entry["allow_fields"].as_array());
    let mut names: Vec<String> = lists
        .flatten()
        .filter_map(Json::as_str)
        .filter(|name| *name != "user")
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}
