//! An Envoy with each kind of decision.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};

use super::rules::{other_host, other_path};
use crate::origin::Addresses;
use crate::peers::envoy::{cluster, host, listener, manager, terminate, url};

/// The decision of an Envoy, besides its routes.
pub enum EnvoyDecision {
    /// Nothing.
    Nothing,
    /// Its RBAC filter with this many policies.
    Rbac(usize),
    /// OPA's plugin at this address.
    Opa(SocketAddr),
}

/// The document of an Envoy that listens at `address`.
pub fn document(address: SocketAddr, origin: &Addresses, decides: &EnvoyDecision) -> String {
    let web = json!({ "match": { "prefix": "/" }, "route": { "cluster": "web" } });
    let hosts = [
        host("web", &["web.lab"], web),
        host("tls", &["tls.lab:443"], terminate("CONNECT", "tls")),
    ];
    let h1 = json!({ "http_protocol_options": {} });
    let mut clusters = vec![
        cluster("web", origin.http, "TCP", &h1),
        cluster("tls", origin.tls, "TCP", &h1),
    ];

    let mut manager = manager(&hosts);
    if let Some(filter) = filter(decides)
        && let Some(filters) = manager["typed_config"]["http_filters"].as_array_mut()
    {
        filters.insert(0, filter);
    }
    if let EnvoyDecision::Opa(opa) = decides {
        clusters.push(cluster(
            "opa",
            *opa,
            "TCP",
            &json!({ "http2_protocol_options": {} }),
        ));
    }

    let listeners = [listener("in", address, json!({ "filters": [manager] }))];
    json!({ "static_resources": { "listeners": listeners, "clusters": clusters } }).to_string()
}

fn filter(decides: &EnvoyDecision) -> Option<Value> {
    match decides {
        EnvoyDecision::Nothing => None,
        EnvoyDecision::Rbac(count) => Some(json!({ "name": "rbac", "typed_config": {
            "@type": url("extensions.filters.http.rbac.v3.RBAC"),
            "rules": { "action": "ALLOW", "policies": policies(*count) },
        } })),
        EnvoyDecision::Opa(_) => Some(json!({ "name": "authz", "typed_config": {
            "@type": url("extensions.filters.http.ext_authz.v3.ExtAuthz"),
            "transport_api_version": "V3",
            "grpc_service": { "envoy_grpc": { "cluster_name": "opa" }, "timeout": "1s" },
        } })),
    }
}

/// As many policies as rules in a node of Hermes, of the same meaning.
fn policies(count: usize) -> Map<String, Value> {
    let anyone = json!([{ "any": true }]);
    let others = (0..count.saturating_sub(2)).map(|number| {
        let conditions = [
            field(":authority", &other_host(number)),
            json!({ "url_path": { "path": { "prefix": other_path(number) } } }),
        ];
        (format!("other-{number}"), both(&conditions, &anyone))
    });

    let web = [field(":authority", "web.lab"), field(":method", "GET")];
    let tunnel = [
        field(":authority", "tls.lab:443"),
        field(":method", "CONNECT"),
    ];
    others
        .chain([
            ("web".to_owned(), both(&web, &anyone)),
            ("tunnel".to_owned(), both(&tunnel, &anyone)),
        ])
        .collect()
}

fn both(conditions: &[Value], who: &Value) -> Value {
    json!({ "permissions": [{ "and_rules": { "rules": conditions } }], "principals": who })
}

fn field(name: &str, value: &str) -> Value {
    json!({ "header": { "name": name, "string_match": { "exact": value } } })
}
