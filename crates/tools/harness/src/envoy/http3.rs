//! HTTP/3 in Envoy's bootstrap.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::bootstrap::{connection_manager, of_protocol, socket, url};
use crate::pki::Issued;

/// A listener on UDP that is an HTTP proxy, or a gateway. Envoy does not say which port it was given, so one must be named.
pub fn listener(name: &str, at: SocketAddr, routes: &[Value], issued: &Issued) -> Value {
    let mut manager = connection_manager(routes);
    manager["typed_config"]["codec_type"] = json!("HTTP3");
    manager["typed_config"]["http3_protocol_options"] = json!({ "allow_extended_connect": true });
    let pair = json!({ "certificate_chain": { "filename": issued.cert }, "private_key": { "filename": issued.key } });
    let quic = json!({ "name": "envoy.transport_sockets.quic", "typed_config": {
        "@type": url("extensions.transport_sockets.quic.v3.QuicDownstreamTransport"),
        "downstream_tls_context": { "common_tls_context": { "tls_certificates": [pair] } },
    } });

    json!({
        "name": name,
        "address": socket(at, "UDP"),
        // Without the second, Envoy 1.40 drops packets that Linux hands over together: its socket asks for that, and it reads
        // them one by one.
        "udp_listener_config": { "quic_options": {}, "downstream_socket_config": { "prefer_gro": true } },
        "filter_chains": [{ "transport_socket": quic, "filters": [manager] }],
    })
}

/// A cluster of one endpoint that must be `name`.
pub fn cluster(cluster: &str, endpoint: SocketAddr, name: &str, ca: &Path) -> Value {
    let options = json!({ "http3_protocol_options": { "allow_extended_connect": true } });
    let mut cluster = of_protocol(cluster, &socket(endpoint, "TCP"), options);
    let trusted = json!({ "trusted_ca": { "filename": ca } });
    cluster["transport_socket"] = json!({ "name": "envoy.transport_sockets.quic", "typed_config": {
        "@type": url("extensions.transport_sockets.quic.v3.QuicUpstreamTransport"),
        "upstream_tls_context": { "sni": name, "common_tls_context": { "validation_context": trusted } },
    } });

    cluster
}
