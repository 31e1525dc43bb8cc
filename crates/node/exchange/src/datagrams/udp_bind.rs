//! Where CONNECT-UDP Bind ends: sockets for whatever peers the client names (draft-ietf-masque-connect-udp-listen).

use std::net::{IpAddr, SocketAddr};

use hermes_admit::next::Next;
use hermes_admit::reevaluate::{Opened, TunnelGuard, enter};
use hermes_admit::routed::Routed;
use hermes_admit::worker::Worker;
use hermes_config::model::Bind;
use hermes_net::descriptors::Shortage;
use hermes_packet::{BindSockets, Limits, PacketDirection, Stop};
use hermes_packet::{Broken, Side};
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::udp_bind::{CONNECT_UDP_BIND, PROXY_PUBLIC_ADDRESS};
use hermes_upstream::Directory;
use http::{HeaderValue, StatusCode};

use crate::failed::Failed;
use crate::pump::silence;
use crate::reach::datagram_path::Ends;
use crate::reach::descriptor_share;

/// Opens the sockets that a CONNECT-UDP without a target asks for, if its route says `bind`, and carries the tunnel.
pub(crate) async fn open(routed: &Routed, arrival: Arrival, next: &Next) -> Result<String, Failed> {
    let (bound, public) = match sockets(routed, next) {
        Ok(opened) => opened,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };

    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let yes = || HeaderValue::from_static("?1");
    let fields = [
        (CAPSULE_PROTOCOL, yes()),
        (CONNECT_UDP_BIND, yes()),
        (PROXY_PUBLIC_ADDRESS, public),
    ];
    let mut guard = enter(
        routed,
        Opened::new(routed, arrival.head(), next, None),
        false,
    );
    let client = match arrival.accept(Fields::from_iter(fields)).await {
        Ok(End::Stream(incoming, outgoing)) => Ends::streams(incoming, outgoing),
        Ok(End::Packets(_)) => {
            return Ok("proxy_internal_error: a UDP client cannot bind".to_owned());
        }
        Err(error) => return Ok(format!("client_closed: {error}")),
    };

    Ok(carry(routed, client, &bound, next, &mut guard).await)
}

/// The sockets, and the fields that tell the client their addresses.
fn sockets(routed: &Routed, next: &Next) -> Result<(BindSockets<Worker>, HeaderValue), Refusal> {
    let bind = routed.route.config.bind.as_ref();
    let Some(bind) = bind.filter(|_| next.is_target()) else {
        let details = "the route does not say `bind`: only tunnels for one target end here";
        return Err(
            Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::FORBIDDEN)
        );
    };

    let failed = |reason: String| {
        Refusal::new(
            ProxyError::ProxyConfigurationError,
            format!("bind: {reason}"),
        )
    };

    descriptor_share::take_all(routed, bind.listen.len())?;
    let listen = bind.listen.iter().filter_map(|text| text.parse().ok());
    let from = routed.worker.shared.snapshot.target_local_end();
    let bound = BindSockets::open(listen, &from, routed.worker.clone());
    let bound = bound.map_err(|error| match Shortage::of(&error) {
        Some(Shortage::Descriptors) => {
            Refusal::new(ProxyError::ConnectionLimitReached, error.to_string())
        }
        _ => failed(error.to_string()),
    })?;

    let public =
        HeaderValue::try_from(public(bind, &bound)).map_err(|error| failed(error.to_string()))?;
    Ok((bound, public))
}

/// A list of strings (RFC 9651, 3.1).
fn public(bind: &Bind, bound: &BindSockets<Worker>) -> String {
    let stated: Vec<IpAddr> = bind
        .public
        .iter()
        .flatten()
        .filter_map(|text| text.parse().ok())
        .collect();

    let told = |(index, own): (usize, SocketAddr)| {
        let ip = stated.get(index).copied().unwrap_or(own.ip());
        format!("\"{}\"", SocketAddr::new(ip, own.port()))
    };

    bound
        .addresses()
        .enumerate()
        .map(told)
        .collect::<Vec<_>>()
        .join(", ")
}

async fn carry(
    routed: &Routed,
    mut client: Ends,
    bound: &BindSockets<Worker>,
    next: &Next,
    guard: &mut TunnelGuard,
) -> String {
    let exchange = &*routed.exchange;
    let stop = Stop::default();
    let limits = Limits::new(0);

    let direction = |from| PacketDirection {
        exchange,
        from,
        stop: &stop,
        alone: true,
        limits: &limits,
        pins: None,
    };

    let up = direction(Side::Client);
    let down = direction(Side::Target);
    let ended = tokio::select! {
        left = up.client_to_peers(&mut client.source, &client.sink, bound) => left.map(|_| "done"),
        left = down.peers_to_client(bound, &client.sink) => left.map(|_| "done"),
        () = silence(exchange.counters(), next.timeouts.udp) => Ok("idle"),
        reason = guard.ended() => Err(Broken::policy(&reason)),
    };

    match ended {
        Ok(reason) => {
            client.farewell().await;
            reason.to_owned()
        }
        Err(broken) => {
            client.sink.reset(broken.reset);
            broken.reason()
        }
    }
}
