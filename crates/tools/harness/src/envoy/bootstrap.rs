//! The parts of Envoy's bootstrap: listeners, routes and clusters, as JSON.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::pki::Issued;

/// Bytes of the receive buffers that Envoy asks for: a burst must not be lost before it is read.
const RECEIVE_BUFFER: u32 = 4 << 20;

/// HTTP version of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1.
    H1,
    /// HTTP/2 by prior knowledge, or by ALPN under TLS.
    H2,
}

impl Http {
    /// Both versions.
    pub const BOTH: [Self; 2] = [Self::H1, Self::H2];

    /// As a Hermes upstream's `http` says it.
    pub fn number(self) -> u8 {
        match self {
            Self::H1 => 1,
            Self::H2 => 2,
        }
    }

    /// As Hermes's access records say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
        }
    }
}

/// A listener that is an HTTP proxy, or a gateway.
pub fn http(name: &str, routes: &[Value]) -> Value {
    listener(name, json!({ "filters": [connection_manager(routes)] }))
}

/// As [`http()`], but each connection serves this many requests only: then Envoy says `Connection: close`, or GOAWAY.
pub fn http_for(name: &str, routes: &[Value], requests: u32) -> Value {
    let mut manager = connection_manager(routes);
    manager["typed_config"]["common_http_protocol_options"] =
        json!({ "max_requests_per_connection": requests });
    listener(name, json!({ "filters": [manager] }))
}

/// As [`http()`], under TLS, for clients with a certificate of the authority `ca`.
pub fn https(name: &str, routes: &[Value], issued: &Issued, ca: &Path) -> Value {
    let context = json!({
        "@type": url("extensions.transport_sockets.tls.v3.DownstreamTlsContext"),
        "common_tls_context": tls(Some(issued), ca),
        "require_client_certificate": true,
    });
    listener(
        name,
        json!({ "filters": [connection_manager(routes)], "transport_socket": transport(&context) }),
    )
}

/// A TCP port: its connections become CONNECT for `target`, sent to `cluster`.
pub fn tcp(name: &str, cluster: &str, target: &str) -> Value {
    let proxy = json!({
        "@type": url("extensions.filters.network.tcp_proxy.v3.TcpProxy"),
        "stat_prefix": name,
        "cluster": cluster,
        "tunneling_config": { "hostname": target },
    });
    listener(
        name,
        json!({ "filters": [{ "name": "tcp", "typed_config": proxy }] }),
    )
}

/// A UDP port: its sessions become CONNECT-UDP for `host` and `port`, sent to `cluster`, which Envoy calls `proxy.invalid`.
pub fn udp(name: &str, cluster: &str, host: &str, port: u16) -> Value {
    let route =
        json!({ "@type": url("extensions.filters.udp.udp_proxy.v3.Route"), "cluster": cluster });
    let capsules = json!({ "@type": url("extensions.filters.udp.udp_proxy.session.http_capsule.v3.FilterConfig") });
    let proxy = json!({
        "@type": url("extensions.filters.udp.udp_proxy.v3.UdpProxyConfig"),
        "stat_prefix": name,
        "matcher": { "on_no_match": { "action": { "name": "route", "typed_config": route } } },
        "session_filters": [{ "name": "capsules", "typed_config": capsules }],
        "tunneling_config": {
            "proxy_host": "proxy.invalid",
            "target_host": host,
            "default_target_port": port,
            "retry_options": { "max_connect_attempts": 2 },
            "buffer_options": { "max_buffered_datagrams": 1024, "max_buffered_bytes": 1 << 20 },
        },
    });

    json!({
        "name": name,
        "address": socket(ANY.into(), "UDP"),
        "socket_options": receive_buffer(),
        "udp_listener_config": { "downstream_socket_config": { "max_rx_datagram_size": 9000 } },
        "listener_filters": [{ "name": "udp", "typed_config": proxy }],
    })
}

/// Routes that send everything to `cluster`, tunnels as tunnels.
pub fn forward(cluster: &str) -> Vec<Value> {
    vec![
        json!({ "match": { "connect_matcher": {} }, "route": { "cluster": cluster, "timeout": "0s" } }),
        json!({ "match": { "prefix": "/" }, "route": { "cluster": cluster, "timeout": "0s" } }),
    ]
}

/// Routes that end tunnels of this kind (`CONNECT`, `CONNECT-UDP`) at the endpoints of `cluster`.
pub fn terminate(kind: &str, cluster: &str) -> Vec<Value> {
    let upgrade = json!({ "upgrade_type": kind, "connect_config": {} });
    let route = json!({ "cluster": cluster, "timeout": "0s", "upgrade_configs": [upgrade] });
    vec![json!({ "match": { "connect_matcher": {} }, "route": route })]
}

/// A cluster of one endpoint, spoken to in this version; over HTTP/1.1 requests have the absolute form that a proxy expects.
pub fn cluster(name: &str, endpoint: SocketAddr, version: Http) -> Value {
    of_protocol(
        name,
        &socket(endpoint, "TCP"),
        match version {
            Http::H1 => json!({ "http_protocol_options": { "send_fully_qualified_url": true } }),
            Http::H2 => json!({ "http2_protocol_options": { "allow_connect": true } }),
        },
    )
}

/// A cluster of one origin, spoken to in HTTP/1.1 or plain TCP.
pub fn origin(name: &str, endpoint: SocketAddr) -> Value {
    of_protocol(
        name,
        &socket(endpoint, "TCP"),
        json!({ "http_protocol_options": {} }),
    )
}

/// A cluster of one UDP endpoint.
pub fn udp_origin(name: &str, endpoint: SocketAddr) -> Value {
    let mut cluster = of_protocol(
        name,
        &socket(endpoint, "UDP"),
        json!({ "http_protocol_options": {} }),
    );
    cluster["upstream_bind_config"] = json!({ "source_address": { "address": "127.0.0.1", "port_value": 0 }, "socket_options": receive_buffer() });
    cluster
}

/// A plain TCP port to `cluster`.
pub fn plain_tcp(name: &str, cluster: &str) -> Value {
    let mut listener = tcp(name, cluster, "");
    let proxy = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    proxy.as_object_mut().unwrap().remove("tunneling_config");
    listener
}

/// A listener for connections that begin with a PROXY header.
pub fn introduced(mut listener: Value) -> Value {
    let filter =
        json!({ "@type": url("extensions.filters.listener.proxy_protocol.v3.ProxyProtocol") });
    listener["listener_filters"] = json!([{ "name": "proxy_protocol", "typed_config": filter }]);
    listener
}

/// A cluster to which connections begin with a PROXY header of this version.
pub fn introducing(mut cluster: Value, version: u8) -> Value {
    let raw = json!({ "@type": url("extensions.transport_sockets.raw_buffer.v3.RawBuffer") });
    cluster["transport_socket"] = transport(&json!({
        "@type": url("extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport"),
        "config": { "version": format!("V{version}") },
        "transport_socket": transport(&raw),
    }));
    cluster
}

/// A listener that asks an HTTP server in `cluster` about each request, at `/check` and the path: it is shown the field `asks`,
/// gives the field `gives` to the request if it allows it, and `tells` to the client if not.
pub fn authorized(mut listener: Value, cluster: &str, [asks, gives, tells]: [&str; 3]) -> Value {
    let only = |field: &str| json!({ "patterns": [{ "exact": field }] });
    let filter = json!({
        "@type": url("extensions.filters.http.ext_authz.v3.ExtAuthz"),
        "allowed_headers": only(asks),
        "http_service": {
            "server_uri": { "uri": "http://authority", "cluster": cluster, "timeout": "5s" },
            "path_prefix": "/check",
            "authorization_response": { "allowed_upstream_headers": only(gives), "allowed_client_headers": only(tells) },
        },
    });

    add_authz(&mut listener, &filter);
    listener
}

/// A listener that asks a gRPC server in `cluster` about each request.
pub fn authorized_by_grpc(mut listener: Value, cluster: &str) -> Value {
    let filter = json!({
        "@type": url("extensions.filters.http.ext_authz.v3.ExtAuthz"),
        "transport_api_version": "V3",
        "grpc_service": { "envoy_grpc": { "cluster_name": cluster }, "timeout": "30s" },
    });

    add_authz(&mut listener, &filter);
    listener
}

/// Puts a filter before the others of a listener.
fn add_authz(listener: &mut Value, filter: &Value) {
    let filters = &mut listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"];
    filters
        .as_array_mut()
        .unwrap()
        .insert(0, json!({ "name": "ext_authz", "typed_config": filter }));
}

/// Puts TLS in front of a cluster. Its endpoint must be `name`; `issued` is shown if asked for.
pub fn over_tls(mut cluster: Value, name: &str, issued: Option<&Issued>, ca: &Path) -> Value {
    let mut common = tls(issued, ca);
    common["validation_context"]["match_typed_subject_alt_names"] =
        json!([{ "san_type": "DNS", "matcher": { "exact": name } }]);
    let context = json!({
        "@type": url("extensions.transport_sockets.tls.v3.UpstreamTlsContext"),
        "sni": name,
        "common_tls_context": common,
    });
    cluster["transport_socket"] = transport(&context);

    cluster
}

/// Loopback, at a port that the system chooses.
const ANY: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// An address of a `TCP` or `UDP` socket.
pub(super) fn socket(address: SocketAddr, protocol: &str) -> Value {
    let (ip, port) = (address.ip().to_string(), address.port());
    json!({ "socket_address": { "protocol": protocol, "address": ip, "port_value": port } })
}

pub(super) fn url(message: &str) -> String {
    format!("type.googleapis.com/envoy.{message}")
}

fn listener(name: &str, chain: Value) -> Value {
    json!({ "name": name, "address": socket(ANY.into(), "TCP"), "filter_chains": [chain] })
}

pub(super) fn connection_manager(routes: &[Value]) -> Value {
    let router = json!({ "@type": url("extensions.filters.http.router.v3.Router") });
    let upgrades =
        ["CONNECT", "CONNECT-UDP", "websocket"].map(|kind| json!({ "upgrade_type": kind }));
    let manager = json!({
        "@type": url("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "http",
        "http_filters": [{ "name": "router", "typed_config": router }],
        "http2_protocol_options": { "allow_connect": true },
        "upgrade_configs": upgrades,
        "route_config": { "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": routes }] },
    });

    json!({ "name": "http", "typed_config": manager })
}

pub(super) fn of_protocol(name: &str, address: &Value, explicit: Value) -> Value {
    let endpoint = json!({ "lb_endpoints": [{ "endpoint": { "address": address } }] });
    let options = json!({
        "@type": url("extensions.upstreams.http.v3.HttpProtocolOptions"),
        "explicit_http_config": explicit,
    });

    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": { "cluster_name": name, "endpoints": [endpoint] },
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options },
    })
}

fn tls(issued: Option<&Issued>, ca: &Path) -> Value {
    let certificate = |issued: &Issued| json!({ "certificate_chain": { "filename": issued.cert }, "private_key": { "filename": issued.key } });
    json!({
        "alpn_protocols": ["h2"],
        "tls_certificates": issued.map(certificate).into_iter().collect::<Vec<_>>(),
        "validation_context": { "trusted_ca": { "filename": ca } },
    })
}

fn transport(context: &Value) -> Value {
    json!({ "name": "tls", "typed_config": context })
}

/// `SO_RCVBUF`.
fn receive_buffer() -> Value {
    json!([{ "description": "receive buffer", "level": 1, "name": 8, "int_value": RECEIVE_BUFFER }])
}
