//! Where the overlay ends for IP packets: CONNECT-IP (RFC 9484) at a TUN device.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use hermes_config::model::{Terminate, TerminateTun};
use hermes_http::Kind;
use hermes_ip::{PacketScope, PoolError};
use hermes_net::PeerAddress;
use hermes_packet::tun::{TunTunnel, carry};
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::datagram_limit;
use hermes_proto::fields::Fields;
use hermes_proto::ip_template::IpTarget;
use hermes_proto::proxy_status::ProxyError;
use http::{HeaderValue, StatusCode};

use super::carried::Carried;
use super::datagram_path::Ends;
use super::{Broken, Failed, Side, Unanswered, packet_gate};
use crate::arrival::Arrival;
use crate::next::Next;
use crate::reevaluate::{Opened, TunnelGuard, enter};
use crate::refusal::Refusal;
use crate::routed::Routed;
use crate::target::Target;

/// A tunnel that ends at a device, and is still to be carried.
pub(crate) struct PacketTunnel {
    client: Ends,
    tunnel: Arc<TunTunnel>,
    guard: TunnelGuard,
    listens: bool,
}

/// The device at which the route ends.
pub(super) fn device(routed: &Routed) -> Option<&TerminateTun> {
    match &routed.route.config.terminate {
        Some(Terminate::Tun(end)) => Some(end),
        _ => None,
    }
}

/// Gives a tunnel its addresses, and accepts it.
pub(super) async fn open(
    routed: &Routed,
    arrival: Arrival,
    next: &Next,
) -> Result<Carried, Failed> {
    let tunnel = match begin(routed) {
        Ok(tunnel) => Arc::new(tunnel),
        Err(refusal) => {
            return Err(Failed {
                unanswered: Unanswered::Arrival(arrival),
                refusal,
            });
        }
    };

    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let mut fields = Fields::from_iter([(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"))]);
    datagram_limit::answer(&arrival.head().fields, &mut fields);
    let listens = datagram_limit::is_understood(&arrival.head().fields);
    let opened = Opened::new(routed, arrival.head(), next, None);
    let guard = enter(routed, opened, false);
    packet_gate::set(&tunnel, routed, &routed.snapshot);

    Ok(match arrival.accept(fields).await {
        Ok(client) => Carried::Packets(Box::new(PacketTunnel {
            client: Ends::of_client(Kind::ConnectIp, client),
            tunnel,
            guard,
            listens,
        })),
        Err(error) => Carried::Over(format!("client_closed: {error}")),
    })
}

/// What takes no such tunnels.
pub(super) fn only_packets() -> Refusal {
    let details = "this route takes the packets of CONNECT-IP, and nothing else";
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::NOT_IMPLEMENTED)
}

/// No server takes IP packets as they are.
fn not_carried() -> Refusal {
    let details = "CONNECT-IP goes on to a proxy (`to`) or ends at a device (`terminate: { tun, .. }`), but this route ends where no \
                   packets are taken";
    Refusal::new(ProxyError::HttpUpgradeFailed, details).status(StatusCode::NOT_IMPLEMENTED)
}

fn begin(routed: &Routed) -> Result<TunTunnel, Refusal> {
    let end = device(routed).ok_or_else(not_carried)?;
    let scope = scope(&routed.target)?;
    let hub = routed.worker.shared.devices.hub(&end.tun);
    // One that was deleted is made again in a moment.
    let hub = hub.and_then(|hub| match hub.is_closed() {
        true => Err(format!("TUN device {}: it is gone", end.tun)),
        false => Ok(hub),
    });
    let hub = hub.map_err(|reason| {
        Refusal::new(ProxyError::DestinationUnavailable, reason)
            .status(StatusCode::SERVICE_UNAVAILABLE)
    })?;

    TunTunnel::open(&hub, &identity(routed), scope).map_err(|error| match error {
        PoolError::Exhausted { .. } | PoolError::Full => {
            Refusal::new(ProxyError::ConnectionLimitReached, error.to_string())
                .status(StatusCode::SERVICE_UNAVAILABLE)
        }
        PoolError::Range { .. } => {
            Refusal::new(ProxyError::ProxyConfigurationError, error.to_string())
        }
    })
}

/// Whose the addresses are: the user, or where there is none the address that the tunnel comes from.
fn identity(routed: &Routed) -> String {
    match (&routed.user, &routed.source.peer) {
        (Some(user), _) => user.clone(),
        (None, PeerAddress::Ip(address)) => format!("@{}", address.ip().to_canonical()),
        (None, peer) => format!("@{peer}"),
    }
}

/// The packets that the request is for. Names are not resolved here: their tunnels are refused.
fn scope(target: &Target) -> Result<PacketScope, Refusal> {
    let Target::Ip(packets) = target else {
        return Err(not_carried());
    };
    let resolved: &[IpAddr] = &[];
    if let IpTarget::Name(name) = &packets.scope.target {
        let details = format!(
            "packets for {name}: names are not resolved for CONNECT-IP; ask for an address"
        );
        return Err(Refusal::new(ProxyError::DnsError, details).status(StatusCode::NOT_IMPLEMENTED));
    }

    PacketScope::of(&packets.scope, resolved).map_err(|error| {
        Refusal::new(ProxyError::HttpRequestError, error.to_string())
            .status(StatusCode::BAD_REQUEST)
    })
}

/// Has the packets of a tunnel meet the rules in force, whenever these change.
async fn renew_policy(tunnel: &TunTunnel, routed: &Routed) -> Infallible {
    let mut revision = routed.worker.shared.revision.subscribe();
    let mut current = routed.snapshot.revision;
    loop {
        // It may have changed before this tunnel was opened.
        let snapshot = routed.worker.snapshot();
        if snapshot.revision != current {
            current = snapshot.revision;
            packet_gate::set(tunnel, routed, &snapshot);
        }
        if revision.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl PacketTunnel {
    /// Carries it to its end; returns why it ended.
    pub(crate) async fn carry(mut self, routed: &Routed) -> String {
        let ends = (&mut self.client.source, &self.client.sink);
        let carried = carry(
            &routed.exchange,
            self.tunnel.clone(),
            ends,
            Side::Client,
            self.listens,
        );
        let ended = tokio::select! {
            ended = carried => ended,
            reason = self.guard.ended() => Err(Broken::policy(&reason)),
            never = renew_policy(&self.tunnel, routed) => match never {},
        };

        match ended {
            Ok(reason) => {
                self.client.farewell().await;
                reason.to_owned()
            }
            Err(broken) => {
                self.client.sink.reset(broken.reset);
                broken.reason()
            }
        }
    }
}
