//! Ways for datagrams, and for bytes that move: through the next proxy, or a UDP socket where the overlay ends.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_http::h1::client::Receiver;
use hermes_http::{Event, RequestHead};
use hermes_identity::Proof;
use hermes_net::UdpSocket;
use hermes_packet::{Asked, Destination, Handed, PacketEnd, Token};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{datagram_limit, transform};
use hermes_upstream::{Active, ConnectFailure, UdpDialled, UdpPath};
use http::{HeaderMap, StatusCode};

use super::datagrams::{Ends, Path};
use super::departure::{self, depart};
use super::early::EarlyBytes;
use super::held::Held;
use super::holding;
use super::retry::Tries;
use super::{form, reach, tunnel};
use crate::next::Next;
use crate::next::next_hop;
use crate::plug::NewWay;
use crate::redecide::Opened;
use crate::refusal::Refusal;
use crate::routed::Routed;
use crate::target::Target;

/// Opens the way that the exchange's route says; through the next proxy, with this session.
pub(crate) async fn open(
    routed: &Routed,
    head: &RequestHead,
    asked: Asked,
) -> Result<(Path, Opened), Refusal> {
    let Some(next) = next_hop(&routed.route) else {
        let details = "the route answers here";
        return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
    };
    if next.receiver() == Receiver::Origin {
        return socket(routed, head, next, None).await;
    }
    let (mut departing, target) = depart(routed, head.clone(), next)?;
    departure::ask(routed, asked, &mut departing);
    let opened = tunnel::open(
        &Tries::new(routed, next, head),
        &departing,
        &target,
        &mut EarlyBytes::default(),
    )
    .await?;
    match opened.answer {
        Event::Tunnel(mut answer, incoming) => {
            let ends = Ends::streams(incoming, opened.outgoing);
            let held = Held::beyond(&mut answer.fields);
            let listens = datagram_limit::is_understood(&answer.fields);
            let path = Path {
                ends,
                active: opened.active,
                silence: opened.silence,
                held,
                listens,
            };
            Ok((path, Opened::new(routed, head, next, None)))
        }
        Event::Final(head, _) | Event::Interim(head) => Err(tunnel::refused((routed, next), &head)),
    }
}

/// A way for bytes.
pub(super) struct BytePath {
    pub(super) way: NewWay,
    pub(super) active: Active,
}

/// Opens the way for bytes that the exchange's route says, through a next proxy, asked for with these fields as well.
pub(super) async fn bytes(
    routed: &Routed,
    head: &RequestHead,
    fields: HeaderMap,
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
    let (mut departing, target) = depart(routed, head.clone(), next)?;
    transform::take(&mut departing.fields);
    departing.fields.extend(fields);
    let tries = Tries::new(routed, next, head);
    let opened = tunnel::open(&tries, &departing, &target, &mut EarlyBytes::default()).await?;
    match opened.answer {
        Event::Tunnel(answer, incoming) => {
            let halves = (incoming, opened.outgoing);
            let (incoming, outgoing) = form::bytes(departing.kind(), head.kind(), halves);
            let way = NewWay {
                incoming,
                outgoing,
                fields: answer.fields,
            };
            let path = BytePath {
                way,
                active: opened.active,
            };
            Ok((path, Opened::new(routed, head, next, None)))
        }
        Event::Final(head, _) | Event::Interim(head) => Err(tunnel::refused((routed, next), &head)),
    }
}

/// Opens a UDP socket towards the target, or takes over that of the session which is asked for.
pub(crate) async fn socket(
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
    if let Some(Asked::Only(_)) = asked {
        return Err(no_room());
    }
    holding::hold(routed)?;
    let UdpDialled {
        path: way, active, ..
    } = reach::dial_udp(&tries, &target).await?;
    let silence = reach::silence(&tries.next.timeouts);
    let address = match way {
        UdpPath::Address(address) => address,
        UdpPath::Tunnel(streams, listens) => {
            let path = Path {
                ends: Ends::streams(streams.0, streams.1),
                active,
                silence,
                held: Held::Nothing,
                listens,
            };
            return Ok((path, Opened::new(routed, head, next, None)));
        }
    };
    let socket = connected(address).await?;
    let hold = routed.listener.hold(routed.route.config.datagrams.as_ref());
    let ends = Ends::end(PacketEnd::Socket(Arc::new(socket), hold));
    let held = bound
        .zip(Token::random())
        .map_or(Held::Nothing, |(bound, token)| {
            Held::Here(routed.worker.shared.resumable.enter(token, bound, 0))
        });
    let path = Path {
        ends,
        active,
        silence,
        held,
        listens: false,
    };
    Ok((path, Opened::new(routed, head, next, Some(address))))
}

/// A socket towards an address.
async fn connected(address: SocketAddr) -> Result<UdpSocket, Refusal> {
    UdpSocket::connected(address).await.map_err(|error| {
        let is_short = ConnectFailure::kind_of_socket(&error).is_some();
        let kind = if is_short {
            ProxyError::ConnectionLimitReached
        } else {
            ProxyError::DestinationIpUnroutable
        };
        Refusal::new(kind, error.to_string()).next_hop(&address.to_string())
    })
}

/// Why a request does not get a fresh session instead of the one that it asked for.
pub(super) fn no_room() -> Refusal {
    let details =
        "the session is not there, and limits.sessions_per_user leaves no room for another";
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::TOO_MANY_REQUESTS)
}

/// Whose the session is, and where it leads. A client without a credential that is no peer is known by its address alone.
fn bound(routed: &Routed, next: &Next, target: &Target) -> Destination {
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
    let resumable = &routed.worker.shared.resumable;
    let Handed {
        socket,
        remote,
        received,
        active,
        times,
    } = resumable.claim(token, bound).await?;
    let chosen = next.is_target();
    if chosen && routed.snapshot.may_choose(remote).is_err() {
        return None;
    }
    let socket = Arc::new(UdpSocket::resumed(socket, remote).ok()?);
    tries.begin();
    tries.goes_to(&remote.to_string().into());
    routed.exchange.resumed(times);
    let held = Held::Here(resumable.enter(*token, bound.clone(), times));
    let silence = reach::silence(&tries.next.timeouts);
    let path = Path {
        ends: Ends::resumed(socket, received),
        active,
        silence,
        held,
        listens: false,
    };
    Some((path, Opened::new(routed, head, next, Some(remote))))
}
