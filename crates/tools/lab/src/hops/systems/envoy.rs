//! Two Envoys over HTTP/3: one hop of datagrams.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::{Value, json};

use super::{Around, HopEntry, StartedChains, THREADS, write};
use crate::hops::network::{origin_address, proxy_address};
use crate::hops::plan::Way;
use crate::peers::envoy::{
    cluster, host, listener, manager, receive_buffer, socket, terminate, transport, udp_tunnel, url,
};
use crate::pki::PROXY;
use crate::process::Process;

/// Where the proxy listens.
const PORT: u16 = 4434;
/// Tunnels at once, in place of 100.
const STREAMS: u32 = 10_000;
/// Where datagrams enter.
const ENTRY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7100);

pub fn start(around: &Around<'_>, folder: &Path) -> StartedChains {
    let network = around.network;
    let configurations = [
        ("proxy1", standalone(around), network.proxy(1)?),
        ("client", dependent(around), network.client()?),
    ];
    let mut processes = Vec::new();

    for (name, resources, namespace) in configurations {
        let text = json!({ "static_resources": resources }).to_string();
        let file = write(folder, &format!("{name}.json"), text)?;
        let threads = THREADS.to_string();

        let fixed = [
            "--concurrency",
            &threads,
            "--disable-hot-restart",
            "--log-level",
            "error",
            "-c",
        ];

        let words: Vec<_> = fixed
            .iter()
            .map(AsRef::as_ref)
            .chain([file.as_os_str()])
            .collect();
        processes.insert(
            0,
            Process::start_in(
                Some(namespace),
                name,
                folder,
                &around.programs.envoy,
                &words,
            )?,
        );
    }

    Ok((
        processes,
        vec![HopEntry {
            way: Way::Forwarded,
            hops: 1,
            udp: ENTRY,
            http: ENTRY,
            host: String::new(),
        }],
    ))
}

fn dependent(around: &Around<'_>) -> Value {
    let proxy = SocketAddr::from((proxy_address(1), PORT));
    let mut next = cluster(
        "next",
        proxy,
        "UDP",
        &json!({ "http3_protocol_options": streams() }),
    );

    next["transport_socket"] = quic(
        around,
        "QuicUpstreamTransport",
        "UpstreamTlsContext",
        json!({ "sni": PROXY }),
    );

    json!({ "listeners": [udp_tunnel("udp", ENTRY, "next")], "clusters": [next] })
}

fn standalone(around: &Around<'_>) -> Value {
    let listen = SocketAddr::from((proxy_address(1), PORT));
    let origin = SocketAddr::from((origin_address(1), around.origin.udp.port()));
    let mut http = manager(&[host("udp", &["*"], terminate("CONNECT-UDP", "udp"))]);
    http["typed_config"]["codec_type"] = json!("HTTP3");
    http["typed_config"]["http3_protocol_options"] = streams();
    http["typed_config"]["http3_protocol_options"]["allow_extended_connect"] = json!(true);
    let mut overlay = listener("overlay", listen, json!({ "filters": [http] }));
    overlay["address"] = socket(listen, "UDP");
    overlay["udp_listener_config"] =
        json!({ "quic_options": {}, "downstream_socket_config": { "prefer_gro": true } });
    overlay["socket_options"] = receive_buffer();
    overlay["filter_chains"][0]["transport_socket"] = quic(
        around,
        "QuicDownstreamTransport",
        "DownstreamTlsContext",
        json!({}),
    );

    let mut udp = cluster(
        "udp",
        origin,
        "UDP",
        &json!({ "http_protocol_options": {} }),
    );

    udp["upstream_bind_config"] = json!({
        "source_address": { "address": "0.0.0.0", "port_value": 0 },
        "socket_options": receive_buffer(),
    });

    json!({ "listeners": [overlay], "clusters": [udp] })
}

/// Settings of HTTP/3 under which new flows do not wait for others to end.
fn streams() -> Value {
    json!({ "quic_protocol_options": { "max_concurrent_streams": STREAMS } })
}

/// TLS as QUIC has it. Only the server shows a certificate: Envoy asks for none of clients over QUIC.
fn quic(around: &Around<'_>, message: &str, context: &str, more: Value) -> Value {
    let mut tls = transport(context, around.pki, more);
    let own = &mut tls["typed_config"];
    own["common_tls_context"]["alpn_protocols"] = json!(["h3"]);
    let (side, without) = match context {
        "UpstreamTlsContext" => ("upstream_tls_context", "tls_certificates"),
        _ => ("downstream_tls_context", "validation_context"),
    };

    if let Some(common) = own["common_tls_context"].as_object_mut() {
        common.remove(without);
    }
    if let Some(fields) = own.as_object_mut() {
        fields.remove("@type");
    }

    let config = json!({ "@type": url(&format!("extensions.transport_sockets.quic.v3.{message}")), side: own });
    json!({ "name": "envoy.transport_sockets.quic", "typed_config": config })
}
