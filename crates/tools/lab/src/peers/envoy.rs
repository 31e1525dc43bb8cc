//! Two Envoys, configured as [`super::hermes`]: the same listeners, links and targets.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::ports;
use super::surroundings::{Started, Surroundings, THREADS, UDP_IDLE};
use crate::pki::{PROXY, Pki};
use crate::process::Process;
use crate::traffic::{Entry, Kind, Link};

/// Receive buffers of UDP sockets, else the first datagrams of a burst are lost.
const UDP_BUFFER: u32 = 4 << 20;
/// Bounds of circuit breakers far above the default of 1024, which bursts would meet.
const NO_LIMIT: u32 = 1_000_000;

pub fn start(around: &Surroundings, folder: &Path) -> Started {
    let clear = ports::free()?;
    let secure = ports::free()?;
    let (dependent, entries) = dependent(&around.pki, clear, secure)?;
    let standalone = standalone(around, clear, secure);

    let processes =
        [("standalone", standalone), ("dependent", dependent)].map(|(name, resources)| {
            let file = folder.join(format!("{name}.json"));
            fs::write(&file, json!({ "static_resources": resources }).to_string())?;
            let threads = THREADS.to_string();

            let fixed = [
                "--concurrency",
                &threads,
                "--disable-hot-restart",
                "--log-level",
                "error",
                "-c",
            ];

            let arguments: Vec<_> = fixed
                .iter()
                .map(AsRef::as_ref)
                .chain([file.as_os_str()])
                .collect();

            Process::start(name, folder, &around.programs.envoy, &arguments)
        });

    Ok((processes.into_iter().collect::<Result<_>>()?, entries))
}

fn dependent(
    pki: &Pki,
    clear: SocketAddr,
    secure: SocketAddr,
) -> Result<(Value, Vec<(Link, Entry)>)> {
    let mut listeners = Vec::new();
    let mut entries = Vec::new();
    for link in Link::COMMON {
        let http = ports::free()?;
        let tcp = ports::free()?;
        let name = |kind: Kind| format!("{}-{}", kind.name(), link.name());
        listeners.push(listener(
            &name(Kind::Http),
            http,
            json!({ "filters": [manager(&[everything(link)])] }),
        ));
        listeners.push(listener(
            &name(Kind::Tcp),
            tcp,
            json!({ "filters": [tcp_tunnel(link)] }),
        ));
        entries.push((
            link,
            Entry {
                kind: Kind::Http,
                address: http,
                asks: false,
            },
        ));

        entries.push((
            link,
            Entry {
                kind: Kind::Connect,
                address: http,
                asks: true,
            },
        ));

        entries.push((
            link,
            Entry {
                kind: Kind::Tcp,
                address: tcp,
                asks: false,
            },
        ));

        // Its UDP tunnels need HTTP/2.
        if link != Link::H1 {
            let udp = ports::free()?;
            listeners.push(udp_tunnel(&name(Kind::Udp), udp, link.name()));
            entries.push((
                link,
                Entry {
                    kind: Kind::Udp,
                    address: udp,
                    asks: false,
                },
            ));
        }
    }

    let h2 = json!({ "http2_protocol_options": { "allow_connect": true } });
    let mut tls = cluster("tls", secure, "TCP", &h2);
    tls["transport_socket"] = transport("UpstreamTlsContext", pki, json!({ "sni": PROXY }));
    let clusters = [
        cluster("h1", clear, "TCP", &json!({ "http_protocol_options": {} })),
        cluster("h2", clear, "TCP", &h2),
        tls,
    ];

    Ok((
        json!({ "listeners": listeners, "clusters": clusters }),
        entries,
    ))
}

fn standalone(around: &Surroundings, clear: SocketAddr, secure: SocketAddr) -> Value {
    let origin = &around.origin;
    let hosts = [
        host(
            "web",
            &["web.lab"],
            json!({ "match": { "prefix": "/" }, "route": { "cluster": "web" } }),
        ),
        host("tls", &["tls.lab:443"], terminate("CONNECT", "tls")),
        host("tcp", &["tcp.lab:7"], terminate("CONNECT", "tcp")),
        host("udp", &["*"], terminate("CONNECT-UDP", "udp")),
    ];

    let mut under_tls = listener("secure", secure, json!({ "filters": [manager(&hosts)] }));
    under_tls["filter_chains"][0]["transport_socket"] = transport(
        "DownstreamTlsContext",
        &around.pki,
        json!({ "require_client_certificate": true }),
    );
    let h1 = json!({ "http_protocol_options": {} });
    let mut udp = cluster("udp", origin.udp, "UDP", &h1);
    udp["upstream_bind_config"] = json!({
        "source_address": { "address": "127.0.0.1", "port_value": 0 },
        "socket_options": receive_buffer(),
    });

    let clusters = [
        cluster("web", origin.http, "TCP", &h1),
        cluster("tls", origin.tls, "TCP", &h1),
        cluster("tcp", origin.tcp, "TCP", &h1),
        udp,
    ];

    let plain = listener("clear", clear, json!({ "filters": [manager(&hosts)] }));
    json!({ "listeners": [plain, under_tls], "clusters": clusters })
}

fn everything(link: Link) -> Value {
    let route = json!({ "cluster": link.name(), "timeout": "0s" });
    json!({ "name": "all", "domains": ["*"], "routes": [
        { "match": { "connect_matcher": {} }, "route": route },
        { "match": { "prefix": "/" }, "route": route },
    ] })
}

/// The routes of requests for some domains.
pub(crate) fn host(name: &str, domains: &[&str], route: Value) -> Value {
    json!({ "name": name, "domains": domains, "routes": [route] })
}

/// A route that ends tunnels at a cluster.
pub(crate) fn terminate(kind: &str, cluster: &str) -> Value {
    let upgrade = json!({ "upgrade_type": kind, "connect_config": {} });
    json!({
        "match": { "connect_matcher": {} },
        "route": { "cluster": cluster, "timeout": "0s", "upgrade_configs": [upgrade] },
    })
}

/// The filter that speaks HTTP.
pub(crate) fn manager(hosts: &[Value]) -> Value {
    let router = json!({ "@type": url("extensions.filters.http.router.v3.Router") });
    json!({ "name": "http", "typed_config": {
        "@type": url("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "http",
        "http_filters": [{ "name": "router", "typed_config": router }],
        "http2_protocol_options": { "allow_connect": true },
        "upgrade_configs": [{ "upgrade_type": "CONNECT" }, { "upgrade_type": "CONNECT-UDP" }],
        "route_config": { "virtual_hosts": hosts },
    } })
}

fn tcp_tunnel(link: Link) -> Value {
    json!({ "name": "tcp", "typed_config": {
        "@type": url("extensions.filters.network.tcp_proxy.v3.TcpProxy"),
        "stat_prefix": "tcp",
        "cluster": link.name(),
        "tunneling_config": { "hostname": "tcp.lab:7" },
    } })
}

/// Datagrams that come here, through CONNECT-UDP over a cluster.
pub(crate) fn udp_tunnel(name: &str, address: SocketAddr, next: &str) -> Value {
    let route =
        json!({ "@type": url("extensions.filters.udp.udp_proxy.v3.Route"), "cluster": next });
    let capsules = json!({ "@type": url("extensions.filters.udp.udp_proxy.session.http_capsule.v3.FilterConfig") });
    let proxy = json!({
        "@type": url("extensions.filters.udp.udp_proxy.v3.UdpProxyConfig"),
        "stat_prefix": "udp",
        "idle_timeout": UDP_IDLE,
        "matcher": { "on_no_match": { "action": { "name": "route", "typed_config": route } } },
        "session_filters": [{ "name": "capsules", "typed_config": capsules }],
        "tunneling_config": {
            "proxy_host": "proxy.lab",
            "target_host": "udp.lab",
            "default_target_port": 7,
            "retry_options": { "max_connect_attempts": 2 },
            "buffer_options": { "max_buffered_datagrams": 1024, "max_buffered_bytes": 1 << 20 },
        },
    });

    json!({
        "name": name,
        "address": socket(address, "UDP"),
        "socket_options": receive_buffer(),
        "listener_filters": [{ "name": "udp", "typed_config": proxy }],
    })
}

/// A listener of TCP.
pub(crate) fn listener(name: &str, address: SocketAddr, chain: Value) -> Value {
    json!({ "name": name, "address": socket(address, "TCP"), "filter_chains": [chain] })
}

/// A cluster with one endpoint.
pub(crate) fn cluster(name: &str, endpoint: SocketAddr, protocol: &str, explicit: &Value) -> Value {
    let endpoint =
        json!({ "lb_endpoints": [{ "endpoint": { "address": socket(endpoint, protocol) } }] });
    let limits = json!({
        "max_connections": NO_LIMIT,
        "max_pending_requests": NO_LIMIT,
        "max_requests": NO_LIMIT,
        "max_retries": NO_LIMIT,
    });

    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": { "thresholds": [limits] },
        "load_assignment": { "cluster_name": name, "endpoints": [endpoint] },
        "typed_extension_protocol_options": { "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": url("extensions.upstreams.http.v3.HttpProtocolOptions"),
            "explicit_http_config": explicit,
        } },
    })
}

/// TLS with certificates on both sides.
pub(crate) fn transport(context: &str, pki: &Pki, mut more: Value) -> Value {
    more["@type"] = json!(url(&format!(
        "extensions.transport_sockets.tls.v3.{context}"
    )));
    more["common_tls_context"] = json!({
        "alpn_protocols": ["h2"],
        "tls_certificates": [{
            "certificate_chain": { "filename": pki.cert(PROXY) },
            "private_key": { "filename": pki.key(PROXY) },
        }],
        "validation_context": { "trusted_ca": { "filename": pki.ca() } },
    });

    json!({ "name": "tls", "typed_config": more })
}

/// An address.
pub(crate) fn socket(address: SocketAddr, protocol: &str) -> Value {
    let ip = address.ip().to_string();
    let port = address.port();
    json!({ "socket_address": { "protocol": protocol, "address": ip, "port_value": port } })
}

/// The name of a message's type.
pub(crate) fn url(message: &str) -> String {
    format!("type.googleapis.com/envoy.{message}")
}

/// `SO_RCVBUF`.
pub(crate) fn receive_buffer() -> Value {
    json!([{ "description": "receive buffer", "level": 1, "name": 8, "int_value": UDP_BUFFER }])
}
