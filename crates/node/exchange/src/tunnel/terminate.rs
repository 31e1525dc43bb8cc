//! The end of the overlay: a tunnel becomes a TCP connection, a UDP socket, or the far end of a plug.

use bytes::Bytes;
use hermes_admit::next::Next;
use hermes_admit::reevaluate::{Opened, TunnelGuard, enter};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Kind};
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::fields::Fields;
use hermes_proto::resumable::Request;
use hermes_proto::{datagram_floor, datagram_limit, multipath};
use hermes_upstream::FirstBytes;
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

    let asks = FarAsks {
        resumable: asked.is_some(),
        is_unaltered: bridges.is_none(),
    };
    let reached = match dial(routed, &mut arrival, next, asks).await {
        Ok(reached) => reached,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };

    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let opened = Opened::new(routed, arrival.head(), next, reached.end.address);
    // Entered before the client hears of it: rules that change from here on reach the tunnel.
    let guard = enter(routed, opened, false);
    let kind = arrival.kind();
    let fields = opening_fields(routed, kind, bridges.as_deref(), &reached);

    Ok(match arrival.accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => {
            let client = form::bytes(kind, Kind::Connect, Duplex { incoming, outgoing });
            reached.tunnel(routed, client, guard, bridges)
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
    reached: &TargetEnd,
) -> Fields {
    let mut fields = form::opening_fields(routed, kind);
    listening::tell_local(routed, reached.end.address, &mut fields);
    if let Some(is_multipath) = reached.end.is_multipath {
        fields.insert(multipath::FIELD, multipath::value(is_multipath));
    }
    if let Some(bridges) = bridges {
        bridges.confirm(&mut fields);
    }
    if let Some(session) = &reached.session {
        session.tell(&mut fields);
    }
    fields
}

/// The properties of a tunnel that its target's end depends on.
struct FarAsks {
    /// It asks for a session.
    resumable: bool,
    /// No function sees or changes its bytes.
    is_unaltered: bool,
}

/// A target that a tunnel of bytes has reached.
struct TargetEnd {
    end: ByteEnd,
    session: Option<Box<NewSession>>,
    /// Bytes of the client that were to open the connection and did not leave.
    unsent: Option<Bytes>,
}

impl TargetEnd {
    /// The tunnel between it and the client.
    fn tunnel(
        self,
        routed: &Routed,
        mut client: Duplex,
        guard: TunnelGuard,
        bridges: Option<Box<Bridges>>,
    ) -> Carried {
        if let Some(unsent) = self.unsent {
            client.incoming.unread(unsent);
        }
        if let Some(session) = self.session {
            return session.tunnel(routed, self.end, client, guard);
        }
        bridges::tunnel(
            ByteTunnel {
                client,
                target: self.end.streams,
                guard,
                _active: self.end.active,
                learner: None,
            },
            bridges,
        )
    }
}

/// Connects to the target, with a session for the tunnel if one is asked for and there is room for it.
async fn dial(
    routed: &Routed,
    arrival: &mut Arrival,
    next: &Next,
    asks: FarAsks,
) -> Result<TargetEnd, Refusal> {
    let departing = depart(routed, arrival.head().clone(), next);
    // Bytes that a function has to see first cannot open the connection.
    let first = (asks.is_unaltered && !asks.resumable).then(|| arrival.first_bytes());
    let first = first.flatten().map(FirstBytes::new);
    let tries = Tries::new(routed, next, arrival.head()).opening_with(first.as_ref());
    let (departing, target) = departing?;

    let termination = Termination::of(routed, next);
    let opening = termination.bytes(&tries, &target, || {
        plug_request::tunnel(routed, departing, &target)
    });
    let end = if termination.is_plug() || arrival.is_held() {
        // Boxed, here and below: most tunnels end at sockets, and most clients are of HTTP.
        Box::pin(arrival.unless_gone(opening, BEFORE)).await?
    } else {
        opening.await?
    };

    let session = asks
        .resumable
        .then(|| NewSession::grant(routed, next, target.to_string()));
    let unsent = first.map(|first| first.rest());
    Ok(TargetEnd {
        end,
        session: session.flatten().map(Box::new),
        unsent: unsent.filter(|unsent| !unsent.is_empty()),
    })
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
