//! Connections and datagrams that become IP packets here: they leave by the tunnel of a `tun` listener with a stack, from the address that
//! it has there. The far end decides about each target, as of any packet: nothing of this machine can be reached.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hermes_admit::routed::Routed;
use hermes_config::model::Terminate;
use hermes_http::{Duplex, pipe};
use hermes_net::memory::Memory;
use hermes_packet::PacketEnd;
use hermes_packet::tun::{FlowError, TcpFlow, TunHub};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::authority::HostPort;
use hermes_proto::ip::IcmpError;
use hermes_proto::proxy_status::ProxyError;
use hermes_upstream::{Active, FailureKind};
use http::StatusCode;

use super::byte_end::ByteEnd;
use super::datagram_path::{Ends, Path};
use super::retry::Tries;
use crate::reach;
use crate::reach::asker;
use crate::reach::session_token::Resumption;

/// The listener by whose tunnel the route leaves.
pub(crate) fn listener(routed: &Routed) -> Option<&str> {
    let terminate = routed.route.config.terminate.as_ref();
    terminate.and_then(Terminate::ip)
}

/// Opens a connection to the target.
pub(crate) async fn connection(tries: &Tries<'_>, target: &Target) -> Result<ByteEnd, Refusal> {
    let hub = hub(tries.routed)?;
    let account = Memory::node().owner(tries.routed.owner());
    let mut last = None;
    for address in addresses(tries, target).await? {
        let endpoint = begin(tries, address);
        let wait = tries.next.timeouts.connect;
        match hub.open_tcp(address, wait, &account).await {
            Ok(flow) => {
                return Ok(ByteEnd {
                    streams: carried(tries.routed, flow),
                    endpoint,
                    // No address of this machine's networks, of which `egress` speaks.
                    address: None,
                    is_multipath: None,
                    active: Active::default(),
                });
            }
            Err(error) => last = Some(unreached(address, &error)),
        }
    }
    Err(last.unwrap_or_else(no_address))
}

/// Opens a pair of UDP ports towards the target.
pub(crate) async fn datagrams(tries: &Tries<'_>, target: &Target) -> Result<Path, Refusal> {
    let Tries { routed, next, .. } = tries;
    let hub = hub(routed)?;
    let addresses = addresses(tries, target).await?;
    let address = addresses.first().copied().ok_or_else(no_address)?;
    begin(tries, address);

    let bounds = routed.datagram_bounds();
    let session = hub.open_udp(address, next.timeouts.connect, &bounds).await;
    let session = session.map_err(|error| unreached(address, &error))?;
    Ok(Path {
        ends: Ends::end(PacketEnd::Session(session)),
        active: Active::default(),
        silence: reach::silence(&next.timeouts),
        resumption: Resumption::Nothing,
        listens: false,
        changes: None,
    })
}

/// The stack.
fn hub(routed: &Routed) -> Result<Arc<TunHub>, Refusal> {
    let name = listener(routed).unwrap_or_default();
    let hub = routed.worker.shared.devices.of_listener(name);
    hub.map_err(|reason| {
        Refusal::new(ProxyError::DestinationUnavailable, reason)
            .status(StatusCode::SERVICE_UNAVAILABLE)
    })
}

/// The addresses of the target. A name is looked up here: behind the tunnel there are only addresses.
async fn addresses(tries: &Tries<'_>, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
    let HostPort { host, port } = target.as_host().ok_or_else(|| {
        let details = format!("{target} is not a host to connect to");
        Refusal::new(ProxyError::HttpRequestError, details).status(StatusCode::BAD_REQUEST)
    })?;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, *port)]);
    }

    let client = &tries.routed.worker.client;
    let found = client.addresses(host, asker(tries.routed), &tries.next.timeouts);
    let found = found.await.map_err(|failure| {
        let refusal = Refusal::new(failure.proxy_error(), failure.reason.clone());
        match failure.kind {
            FailureKind::Dotless => refusal.status(StatusCode::NOT_FOUND),
            _ => refusal,
        }
    })?;
    let addresses = found.into_iter();
    Ok(addresses
        .map(|address| SocketAddr::new(address, *port))
        .collect())
}

/// An attempt begins; under which name.
fn begin(tries: &Tries<'_>, address: SocketAddr) -> Arc<str> {
    let endpoint: Arc<str> = address.to_string().into();
    tries.begin();
    tries.goes_to(&endpoint);
    endpoint
}

fn no_address() -> Refusal {
    Refusal::new(ProxyError::DnsError, "the name has no address")
}

fn unreached(address: SocketAddr, error: &FlowError) -> Refusal {
    let kind = match error {
        FlowError::NoStack => ProxyError::DestinationUnavailable,
        FlowError::NoAddress(_) => ProxyError::DestinationIpUnroutable,
        FlowError::Open(_) | FlowError::Share { .. } | FlowError::NoMemory(_) => {
            ProxyError::ConnectionLimitReached
        }
        FlowError::Refused | FlowError::Unreachable(IcmpError::PortUnreachable) => {
            ProxyError::ConnectionRefused
        }
        FlowError::Unreachable(IcmpError::Prohibited | IcmpError::SourceFailedPolicy) => {
            ProxyError::DestinationIpProhibited
        }
        FlowError::Unreachable(_) => ProxyError::DestinationIpUnroutable,
        FlowError::Timeout => ProxyError::ConnectionTimeout,
    };
    Refusal::new(kind, error.to_string()).next_hop(&address.to_string())
}

/// Both directions of a connection, which a task of its own carries.
fn carried(routed: &Routed, flow: TcpFlow) -> Duplex {
    let (outgoing, far_incoming) = pipe(None);
    let (far_outgoing, incoming) = pipe(None);
    let watch = routed.worker.shared.drain.clone();
    let forced = watch.clone();
    watch.spawn(async move {
        tokio::select! {
            () = flow.carry(incoming, outgoing) => {}
            () = forced.forced() => {}
        }
    });
    Duplex {
        incoming: far_incoming,
        outgoing: far_outgoing,
    }
}
