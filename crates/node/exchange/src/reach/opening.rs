//! Paths for datagrams, and for bytes that move: through the next proxy, or a UDP socket where the overlay ends.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_admit::next::Next;
use hermes_admit::next::next_hop;
use hermes_admit::reevaluate::Opened;
use hermes_admit::routed::Routed;
use hermes_http::h1::client::Receiver;
use hermes_http::{Duplex, Event, Kind, RequestHead};
use hermes_identity::Proof;
use hermes_net::{LocalEnd, UdpSocket};
use hermes_packet::{Asked, Destination, Handed, PacketEnd, Token};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{datagram_limit, functions_field, transform};
use hermes_upstream::{ConnectFailure, UdpDialled, UdpPath};
use http::StatusCode;

use super::byte_end::BytePath;
use super::carrier_path;
use super::datagram_path::{Ends, Path};
use super::departure::{self, depart};
use super::descriptor_share;
use super::form;
use super::next_tunnel;
use super::plug_request;
use super::recovery::OfferedRecovery;
use super::retry::Tries;
use super::termination::Termination;
use super::transforms::Changes;
use crate::reach;
use crate::reach::early_bytes::EarlyBytes;
use crate::reach::session_token::Resumption;

/// Opens the path that the exchange's route asks for; through a next proxy, for this session.
pub(crate) async fn open(
    routed: &Routed,
    head: &RequestHead,
    asked: Asked,
) -> Result<(Path, Opened), Refusal> {
    let Some(next) = next_hop(&routed.route) else {
        let details = "the route answers here";
        return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
    };

    let changes = if next.through.own.is_empty() {
        None
    } else {
        Box::pin(Changes::begin(routed, head, next)).await?
    };

    match (head.kind(), next.receiver()) {
        (_, Receiver::Proxy) => {}
        (Kind::ConnectIp, Receiver::Origin) => {
            let details = "the route leads to no proxy that the tunnel could move to";
            return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
        }
        (_, Receiver::Origin) => {
            let (path, opened) = end(routed, head, next, None).await?;
            return Ok((Path { changes, ..path }, opened));
        }
    }
    through_proxy(routed, head, next, asked, changes).await
}

/// Opens a path through the next proxy, with these changes of its datagrams.
async fn through_proxy(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
    asked: Asked,
    mut changes: Option<Box<Changes>>,
) -> Result<(Path, Opened), Refusal> {
    let (mut departing, target) = depart(routed, head.clone(), next)?;
    departure::ask(routed, asked, &mut departing);
    let mut beyond = changes
        .as_deref_mut()
        .and_then(|changes| changes.beyond.as_deref_mut());
    if let Some(beyond) = &beyond {
        beyond.ask(&mut departing);
    }
    let recovery = OfferedRecovery::ask(routed, &mut departing)?;

    let opened = next_tunnel::open(
        &Tries::new(routed, next, head),
        &departing,
        &target,
        &mut EarlyBytes::default(),
    )
    .await?;

    match opened.answer {
        Event::Tunnel(mut answer, incoming) => {
            if let Some(beyond) = &mut beyond {
                beyond.confirmed(&mut answer.fields)?;
            }
            let side = OfferedRecovery::settled(recovery, &mut answer.fields);
            let ends = Ends::of_side(head.kind(), side, incoming, opened.outgoing);
            let resumption = Resumption::beyond(&mut answer.fields);
            let listens = datagram_limit::is_understood(&answer.fields);

            let path = Path {
                ends,
                active: opened.active,
                silence: opened.silence,
                resumption,
                listens,
                changes,
            };

            Ok((path, Opened::new(routed, head, next, None)))
        }
        Event::Final(head, _) | Event::Interim(head) => {
            Err(next_tunnel::refused(routed, next, &head))
        }
    }
}

/// Opens the path for bytes that the exchange's route asks for, through a next proxy; its request has these fields as well. It is for the
/// bytes of a tunnel that came in the `other` form.
pub(crate) async fn bytes(
    routed: &Routed,
    head: &RequestHead,
    fields: Fields,
    other: Kind,
) -> Result<(BytePath, Opened), Refusal> {
    let next = next_hop(&routed.route).filter(|next| next.receiver() == Receiver::Proxy);
    let Some(next) = next else {
        let details = "the route leads to no proxy that the tunnel could move to";
        return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
    };

    if !next.through.own.is_empty() {
        let details = "the route changes bytes, which cannot begin within a tunnel";
        return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
    }

    if let Some(handled) = next.carrier() {
        let path = Box::pin(carrier_path::path(routed, head, &fields, next, handled)).await?;
        return Ok((path, Opened::new(routed, head, next, None)));
    }

    let (mut departing, target) = depart(routed, head.clone(), next)?;
    // Transforms begin with a tunnel's first byte: a path that takes over asks for none.
    departing.fields.remove(transform::FIELD);
    departing.fields.remove(functions_field::FIELD);
    departing.fields.replace(&fields);
    let tries = Tries::new(routed, next, head);
    let opened = next_tunnel::open(&tries, &departing, &target, &mut EarlyBytes::default()).await?;

    match opened.answer {
        Event::Tunnel(answer, incoming) => {
            let streams = Duplex {
                incoming,
                outgoing: opened.outgoing,
            };
            let path = BytePath {
                streams: form::bytes(departing.kind(), other, streams),
                fields: answer.fields,
                active: opened.active,
            };

            Ok((path, Opened::new(routed, head, next, None)))
        }
        Event::Final(head, _) | Event::Interim(head) => {
            Err(next_tunnel::refused(routed, next, &head))
        }
    }
}

/// Opens a path of UDP where the overlay ends: a socket, that of the session which the client asks for, ports in a tunnel of IP packets,
/// or an end that a plug gives.
pub(crate) async fn end(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
    asked: Option<Asked>,
) -> Result<(Path, Opened), Refusal> {
    let termination = Termination::of(routed, next);
    if matches!(termination, Termination::Socket) {
        return socket(routed, head, next, asked).await;
    }
    // Sessions have sockets.
    if let Some(Asked::Only(_)) = asked {
        return Err(no_room());
    }
    let (departing, target) = depart(routed, head.clone(), next)?;
    let tries = Tries::new(routed, next, head);
    let path = termination
        .datagrams(&tries, &target, || {
            plug_request::tunnel(routed, departing, &target)
        })
        .await?;
    Ok((path, Opened::new(routed, head, next, None)))
}

/// Opens a UDP socket towards the target, or takes over the socket of the session that the client asks for.
async fn socket(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
    asked: Option<Asked>,
) -> Result<(Path, Opened), Refusal> {
    let tries = Tries::new(routed, next, head);
    let (_, target) = depart(routed, head.clone(), next)?;
    let bound = asked.map(|_| bound(routed, next, &target));
    if let (Some(Asked::Again(token) | Asked::Only(token)), Some(bound)) = (asked, &bound)
        && let Some(taken) = Box::pin(take_over(&tries, head, &token, bound)).await
    {
        return Ok(taken);
    }

    // Its user has as many sessions as allowed, and this one is gone.
    if let Some(Asked::Only(_)) = asked {
        return Err(no_room());
    }
    // Only now: a session that is taken over opens no socket.
    descriptor_share::take_one(routed)?;
    let UdpDialled {
        path: dialled,
        from,
        active,
        ..
    } = reach::dial_udp(&tries, &target).await?;
    let silence = reach::silence(&tries.next.timeouts);

    let address = match dialled {
        UdpPath::Address(address) => address,
        UdpPath::Tunnel(streams, listens) => {
            let path = Path {
                ends: Ends::streams(streams.0, streams.1),
                active,
                silence,
                resumption: Resumption::Nothing,
                listens,
                changes: None,
            };
            return Ok((path, Opened::new(routed, head, next, None)));
        }
    };

    let from = from.for_client(routed.source.peer.socket());
    let socket = connected(address, &from).await?;
    let ends = Ends::end(PacketEnd::Socket(
        Arc::new(socket),
        routed.datagram_bounds(),
    ));
    let resumption = bound
        .zip(Token::random())
        .map_or(Resumption::Nothing, |(bound, token)| {
            Resumption::Here(
                routed
                    .worker
                    .shared
                    .outliving
                    .datagrams
                    .enter(token, bound, 0)
                    .owned_by(&routed.owner()),
            )
        });

    let path = Path {
        ends,
        active,
        silence,
        resumption,
        listens: false,
        changes: None,
    };

    Ok((path, Opened::new(routed, head, next, Some(address))))
}

/// A socket towards an address.
async fn connected(address: SocketAddr, from: &LocalEnd) -> Result<UdpSocket, Refusal> {
    let socket = UdpSocket::connected_from(address, from).await;
    socket.map_err(|error| {
        let is_short = ConnectFailure::kind_of_socket(&error).is_some();
        let kind = if is_short {
            ProxyError::ConnectionLimitReached
        } else {
            ProxyError::DestinationIpUnroutable
        };
        Refusal::new(kind, error.to_string()).next_hop(&address.to_string())
    })
}

/// Why a request gets no fresh session in place of the one that it asked for.
pub(crate) fn no_room() -> Refusal {
    let details =
        "the session is not there, and limits.sessions_per_user leaves no room for another";
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::TOO_MANY_REQUESTS)
}

/// Whose the session is, and where it leads. Without a credential, a client that is no peer is known by its address alone.
pub(crate) fn bound(routed: &Routed, next: &Next, target: &Target) -> Destination {
    let Routed {
        auth,
        source,
        user,
        listener,
        ..
    } = routed;

    let known = auth.peer || !matches!(auth.proof, Proof::Nothing);
    Destination {
        user: user.clone(),
        source: source.peer.ip().filter(|_| !known),
        listener: listener.name.clone(),
        target: target.to_string(),
        upstream: next.name().clone(),
    }
}

/// Takes over the socket of a session, if it is there and its address is still allowed.
async fn take_over(
    tries: &Tries<'_>,
    head: &RequestHead,
    token: &Token,
    bound: &Destination,
) -> Option<(Path, Opened)> {
    let routed = tries.routed;
    let next = tries.next;
    let resumable = &routed.worker.shared.outliving.datagrams;

    let Handed {
        socket,
        remote,
        received,
        active,
        times,
    } = resumable.claim(token, bound).await?;

    // The rules may have changed since the session's address was allowed.
    let chosen = next.is_target();
    if chosen && routed.snapshot.may_choose(remote).is_err() {
        return None;
    }

    let socket = Arc::new(UdpSocket::resumed(socket, remote).ok()?);
    tries.begin();
    tries.goes_to(&remote.to_string().into());
    routed.exchange.resumed(times);
    let entry = resumable.enter(*token, bound.clone(), times);
    let resumption = Resumption::Here(entry.owned_by(&routed.owner()));
    let silence = reach::silence(&tries.next.timeouts);

    let path = Path {
        ends: Ends::resumed(socket, received, routed.datagram_bounds()),
        active,
        silence,
        resumption,
        listens: false,
        changes: None,
    };

    Some((path, Opened::new(routed, head, next, Some(remote))))
}
