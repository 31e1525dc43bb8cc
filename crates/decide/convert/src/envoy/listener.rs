//! Listeners and their chains of filters.

use serde_json::{Value as Json, json};

use super::address::Address;
use super::chains::{self, Chains, Joined};
use super::cluster::Clusters;
use super::extension::{config, kind};
use super::scope::Scope;
use super::{http, tcp, tls, udp};
use crate::draft::{Draft, put};
use crate::source::Node;

/// Keys that say nothing that needs to be told here.
const SILENT: &[&str] = &[
    "name",
    "stat_prefix",
    "traffic_direction",
    "per_connection_buffer_limit_bytes",
    "socket_options",
    "reuse_port",
    "enable_reuse_port",
    "tcp_backlog_size",
    "tcp_fast_open_queue_length",
    "listener_filters_timeout",
    "continue_on_listener_filters_timeout",
    "bind_to_port",
    "connection_balance_config",
];

/// All listeners; how many of them the document has.
pub(super) fn convert_all(
    listeners: &[&Node],
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> usize {
    // HTTP/3 belongs to the listener for TCP at the same port.
    let quic: Vec<Address> = listeners
        .iter()
        .filter(|one| is_quic(one))
        .filter_map(|one| Address::of(one))
        .collect();
    let is_alone = listeners.len() == 1;
    let mut count = 0;
    for listener in listeners {
        let address = Address::of(listener);
        let port = address.as_ref().and_then(Address::port);
        let joined = is_quic(listener)
            && listeners.iter().any(|other| {
                !is_quic(other)
                    && Address::of(other).and_then(|address| address.port()) == port
                    && has_tls(other)
            });
        if joined {
            listener.skip_all();
            let reason = "its routes are those of the listener for TCP at the same port, which speaks HTTP/3 too";
            draft.differs(listener.line, subject(listener), reason);
            continue;
        }
        let versions = Versions {
            tcp: !is_quic(listener),
            quic: is_quic(listener) || quic.iter().any(|other| other.port() == port),
        };
        let Some(address) = address else {
            listener.skip_all();
            draft.left_out(listener.line, subject(listener), "it has no address");
            continue;
        };
        let name = draft.name(listener.text("name").unwrap_or("listener"));
        let scope = Scope {
            name,
            subject: subject(listener),
            is_tls: false,
            is_alone,
            names: Vec::new(),
        };
        let converted = convert(listener, &address, versions, scope, clusters, draft);
        count += usize::from(converted);
    }
    count
}

/// How a listener for HTTP is spoken to.
#[derive(Debug, Clone, Copy)]
struct Versions {
    tcp: bool,
    quic: bool,
}

impl Versions {
    fn json(self) -> Json {
        match (self.tcp, self.quic) {
            (true, true) => json!([1, 2, 3]),
            (false, _) => json!(3),
            (true, false) => json!([1, 2]),
        }
    }
}

fn subject(listener: &Node) -> String {
    format!(
        "listener {}",
        listener.text("name").unwrap_or("without a name")
    )
}

fn is_quic(listener: &Node) -> bool {
    listener
        .field("udp_listener_config")
        .is_some_and(|config| config.has("quic_options"))
}

fn has_tls(listener: &Node) -> bool {
    listener
        .list("filter_chains")
        .iter()
        .any(|chain| chain.has("transport_socket"))
}

fn convert(
    listener: &Node,
    address: &Address,
    versions: Versions,
    mut scope: Scope,
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> bool {
    listener.skip(SILENT);
    listener.skip(&["@type"]);
    let mut json = json!({});
    listener_filters(listener, &scope, &mut json, draft);
    if matches!(address, Address::Socket { is_udp: true, .. }) && versions.tcp {
        return udp::convert(listener, address, &scope, clusters, draft);
    }
    listener.skip(&["udp_listener_config"]);

    let Some(chains) = Chains::of(listener) else {
        draft.left_out(listener.line, scope.subject, "it has no chain of filters");
        return false;
    };
    let chain = chains.first;
    let named = chains::names(chain);
    if let Err(reason) = &named {
        if let Some(matched) = chain.field("filter_chain_match") {
            matched.skip_all();
        }
        let reason = format!("{reason}: it takes connections to any name and address");
        draft.differs(chain.line, scope.subject.clone(), reason);
    }
    scope.names = named.unwrap_or_default();
    chain.skip(&["name", "transport_socket_connect_timeout"]);

    let Some(secured) = secure(chain, &scope, &mut json, draft) else {
        chain.skip_all();
        return false;
    };
    scope.is_tls = secured;
    if scope.is_tls && versions.quic {
        put(&mut json, "versions", versions.json());
    } else if scope.is_tls {
        put(&mut json, "versions", json!([1, 2]));
    }
    let converted = network_filters(chain, address, &scope, json, clusters, draft);
    let joined = Joined {
        scope: &scope,
        first: chain,
        address,
    };
    for further in chains.further {
        chains::join(further, &joined, clusters, draft);
    }
    converted
}

/// Puts the TLS of a chain; whether there is any. `None` if it cannot be carried, so that the listener is left out.
pub(super) fn secure(
    chain: &Node,
    scope: &Scope,
    json: &mut Json,
    draft: &mut Draft,
) -> Option<bool> {
    let Some(socket) = chain.field("transport_socket") else {
        return Some(false);
    };
    let kind = kind(socket);
    let config = config(socket);
    let context = if kind.ends_with("QuicDownstreamTransport") {
        config.skip(&["@type", "enable_early_data"]);
        config.field("downstream_tls_context")?
    } else if kind.ends_with("DownstreamTlsContext") {
        config
    } else if kind.ends_with("RawBuffer") {
        return Some(false);
    } else {
        let reason = format!("the transport {kind} has no counterpart");
        draft.left_out(socket.line, scope.subject.clone(), reason);
        return None;
    };

    let secured = tls::downstream(context, &scope.subject, draft)?;
    put(json, "tls", secured.tls);
    if secured.is_mutual {
        put(json, "auth", json!("mtls"));
    }
    if secured.refuses_more.is_some() {
        scope.refuse("the names of client certificates", draft);
    }
    Some(true)
}

fn listener_filters(listener: &Node, scope: &Scope, json: &mut Json, draft: &mut Draft) {
    for filter in listener.list("listener_filters") {
        let kind = kind(filter);
        if kind.contains("udp_proxy") {
            // The chain is the listener's own.
            continue;
        }
        filter.skip_all();
        if kind.ends_with("ProxyProtocol") || kind.ends_with("proxy_protocol") {
            put(json, "proxy_protocol", json!("accept"));
            put(json, "proxy_protocol_from", json!(["127.0.0.0/8"]));
            let reason = "headers are believed from `proxy_protocol_from` alone, which Envoy does not say: name the balancers there";
            draft.differs(filter.line, scope.subject.clone(), reason);
        } else if !kind.contains("tls_inspector") && !kind.contains("http_inspector") {
            let reason = format!("the listener filter {kind} has no counterpart");
            draft.left_out(filter.line, scope.subject.clone(), reason);
        }
    }
}

/// The filters of a chain; the last one decides about connections.
fn network_filters(
    chain: &Node,
    address: &Address,
    scope: &Scope,
    mut json: Json,
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> bool {
    let mut converted = false;
    for filter in chain.list("filters") {
        let kind = kind(filter);
        let config = config(filter);
        if kind.ends_with("HttpConnectionManager") {
            let mut listener = json!({ "http": address.text() });
            complete(&mut listener, &mut json, address);
            http::convert(config, scope, &mut listener, clusters, draft);
            draft.listeners.insert(scope.name.clone(), listener);
            converted = true;
        } else if kind.ends_with("TcpProxy") && scope.is_tls {
            filter.skip_all();
            let reason =
                "a `tcp` listener has no TLS: end it at an `http` listener, or pass it on as it is";
            draft.left_out(filter.line, scope.subject.clone(), reason);
        } else if kind.ends_with("TcpProxy") {
            let mut listener = json!({ "tcp": address.text() });
            complete(&mut listener, &mut json, address);
            if !scope.names.is_empty() {
                let reason =
                    "connections are not told apart by the name of their handshake: it takes all";
                draft.differs(filter.line, scope.subject.clone(), reason);
            }
            converted = tcp::convert(config, scope, listener, clusters, draft);
        } else {
            filter.skip_all();
            let reason = format!(
                "the filter {kind} may keep connections out: a rule of the policy refuses all that enters here"
            );
            draft.left_out(filter.line, scope.subject.clone(), reason);
            scope.refuse("a network filter", draft);
        }
    }
    converted
}

/// The keys of a listener that are known before its filters are read.
fn complete(listener: &mut Json, known: &mut Json, address: &Address) {
    if let Some(known) = known.as_object_mut() {
        for (key, value) in std::mem::take(known) {
            put(listener, &key, value);
        }
    }
    // A listener with credentials is for strangers anyway.
    if address.is_public() && listener.get("auth").is_none() {
        put(listener, "public", json!(true));
    }
}
