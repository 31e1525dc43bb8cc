//! The end of the overlay: a tunnel becomes a TCP connection, a UDP socket, or the far end of a plug.

use hermes_admit::next::Next;
use hermes_admit::reevaluate::{Opened, enter};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Kind};
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::fields::Fields;
use hermes_proto::resumable::Request;
use hermes_proto::{datagram_floor, datagram_limit};
use http::HeaderValue;

use super::bridges::{self, Bridges};
use super::bytes::ByteTunnel;
use super::listening;
use super::outlive::far::{self, NewSession};
use crate::beyond::Beyond;
use crate::carried::Carried;
use crate::datagrams::{DatagramTunnel, udp_bind};
use crate::failed::Failed;
use crate::reach::byte_end::ByteEnd;
use crate::reach::datagram_path::Path;
use crate::reach::departure::depart;
use crate::reach::recovery::RecoveredSide;
use crate::reach::retry::Tries;
use crate::reach::termination::Termination;
use crate::reach::{form, opening, plug_request};

/// When a client left for which a far end was to be opened.
const BEFORE: &str = "before the far end was open";

/// Opens the TCP connection that a CONNECT (RFC 9110, 9.3.6) or connect-tcp asks for, or has a plug open a far end; that may be for the
/// bytes of an upgrade, too.
pub(crate) async fn bytes(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
) -> Result<Carried, Failed> {
    let bridges = match Bridges::of(routed, &mut arrival, next).await {
        Ok(bridges) => bridges,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };
    if listening::is_asked_for(&arrival) {
        return Box::pin(listening::open(routed, arrival, next, bridges)).await;
    }
    let may_outlive = bridges.is_none() && arrival.kind() != Kind::Upgrade;
    let asked = far::asked(&mut arrival).filter(|_| may_outlive);
    if let Some(Request::Again(ticket)) = asked {
        return Box::pin(far::resume(routed, arrival, next, ticket)).await;
    }

    let (target, session) = match dial(routed, &mut arrival, next, asked.is_some()).await {
        Ok(dialled) => dialled,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };

    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let opened = Opened::new(routed, arrival.head(), next, target.address);
    // Entered before the client hears of it: rules that change from here on reach the tunnel.
    let guard = enter(routed, opened, false);
    let kind = arrival.kind();
    let mut fields = opening_fields(routed, kind, bridges.as_deref(), session.as_deref());
    listening::tell_local(routed, target.address, &mut fields);

    Ok(match arrival.accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => {
            let client = form::bytes(kind, Kind::Connect, Duplex { incoming, outgoing });
            if let Some(session) = session {
                return Ok(session.tunnel(routed, target, client, guard));
            }
            bridges::tunnel(
                ByteTunnel {
                    client,
                    target: target.streams,
                    guard,
                    _active: target.active,
                    learner: None,
                },
                bridges,
            )
        }
        Ok(End::Packets(_)) => Carried::Over(
            "proxy_internal_error: datagrams cannot enter a TCP connection".to_owned(),
        ),
        Err(error) => Carried::Over(format!("client_closed: {error}")),
    })
}

/// The fields of the answer that opens a tunnel of bytes: what its functions confirm, and the token of its session.
fn opening_fields(
    routed: &Routed,
    kind: Kind,
    bridges: Option<&Bridges>,
    session: Option<&NewSession>,
) -> Fields {
    let mut fields = form::opening_fields(routed, kind);
    if let Some(bridges) = bridges {
        bridges.confirm(&mut fields);
    }
    if let Some(session) = session {
        session.tell(&mut fields);
    }
    fields
}

/// Connects to the target, with a session for the tunnel if one is asked for and there is room for it.
async fn dial(
    routed: &Routed,
    arrival: &mut Arrival,
    next: &Next,
    resumable: bool,
) -> Result<(ByteEnd, Option<Box<NewSession>>), Refusal> {
    let departing = depart(routed, arrival.head().clone(), next);
    let tries = Tries::new(routed, next, arrival.head());
    let (departing, target) = departing?;

    let termination = Termination::of(routed, next);
    let opening = termination.bytes(&tries, &target, || {
        plug_request::tunnel(routed, departing, &target)
    });
    let dialled = if termination.is_plug() || arrival.is_held() {
        // Boxed, here and below: most tunnels end at sockets, and most clients are of HTTP.
        Box::pin(arrival.unless_gone(opening, BEFORE)).await?
    } else {
        opening.await?
    };

    let session = resumable.then(|| NewSession::grant(routed, next, target.to_string()));
    Ok((dialled, session.flatten().map(Box::new)))
}

/// Opens the UDP socket that a CONNECT-UDP asks for (RFC 9298, 3.1), or has a plug open a far end; that may be for IP packets, too. The
/// name is resolved before the tunnel is accepted, and only the target's datagrams are taken.
pub(crate) async fn datagrams(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
    beyond: Option<&Beyond>,
) -> Result<Carried, Failed> {
    if routed.target.is_any() {
        return Box::pin(udp_bind::open(routed, arrival, next))
            .await
            .map(Carried::Over);
    }

    let opened = if Termination::of(routed, next).is_plug() {
        let head = arrival.head().clone();
        let opening = opening::end(routed, &head, next, routed.asked);
        Box::pin(arrival.unless_gone(opening, BEFORE)).await
    } else {
        opening::end(routed, arrival.head(), next, routed.asked).await
    };
    let (path, opened) = match opened {
        Ok(opened) => opened,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };

    Ok(accept_datagrams(routed, arrival, path, opened, beyond).await)
}

/// Tells the client that its datagrams have a path, which ends here.
pub(super) async fn accept_datagrams(
    routed: &Routed,
    arrival: Arrival,
    path: Path,
    opened: Opened,
    beyond: Option<&Beyond>,
) -> Carried {
    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let mut fields = Fields::from_iter([(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"))]);
    path.resumption.tell(&mut fields);
    fields.extend(datagram_floor::answer(&arrival.head().fields));
    datagram_limit::answer(&arrival.head().fields, &mut fields);
    if let Some(beyond) = beyond {
        beyond.confirm(&mut fields);
    }
    let side = RecoveredSide::answer(routed, arrival.head(), &mut fields);
    // Another end would know nothing of the addresses in a tunnel of IP, nor of the functions that a node before has asked for.
    let is_of_others = beyond.is_some_and(Beyond::is_of_others);
    let movable = arrival.kind() == Kind::ConnectUdp && !is_of_others;
    let guard = enter(routed, opened, movable);

    match arrival.accept(fields).await {
        Ok(client) => Carried::tunnel(DatagramTunnel {
            client,
            path,
            guard,
            side,
        }),
        Err(error) => Carried::Over(format!("client_closed: {error}")),
    }
}
