//! Where the overlay ends: a tunnel becomes a TCP connection or a UDP socket.

use hermes_admit::next::Next;
use hermes_admit::reevaluate::{Opened, enter};
use hermes_admit::routed::Routed;
use hermes_http::{Incoming, Kind, Outgoing, RequestHead, h1};
use hermes_net::Stream;
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::{self, PROXY_STATUS};
use hermes_proto::resumable::Request;
use hermes_proto::{datagram_floor, datagram_limit};
use hermes_upstream::Active;
use http::HeaderValue;

use super::bridges::Bridges;
use super::outlive::far::{self, NewSession, NewTarget};
use crate::carried::{ByteTunnel, Carried};
use crate::datagrams::udp_bind;
use crate::failed::{Failed, Unanswered};
use crate::reach;
use crate::reach::departure::depart;
use crate::reach::from_stack::IpConnection;
use crate::reach::retry::Tries;
use crate::reach::{form, from_stack, opening};

/// Opens the TCP connection that a CONNECT (RFC 9110, 9.3.6) or connect-tcp asks for.
pub(crate) async fn tcp(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
) -> Result<Carried, Failed> {
    let bridges = match Bridges::of(routed, &mut arrival, next) {
        Ok(bridges) => bridges,
        Err(refusal) => {
            return Err(Failed {
                unanswered: Unanswered::Arrival(arrival),
                refusal,
            });
        }
    };
    let asked = far::asked(&mut arrival).filter(|_| bridges.is_none());
    if let Some(Request::Again(ticket)) = asked {
        return Box::pin(far::resume(routed, arrival, next, ticket)).await;
    }

    let dialling = dial(routed, arrival.head(), next, asked.is_some());
    let (target, session) = match dialling.await {
        Ok(dialled) => dialled,
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
    let opened = Opened::new(routed, arrival.head(), next, target.address);
    // Entered before the client hears of it: rules that change from here on reach the tunnel.
    let guard = enter(routed, opened, false);
    let kind = arrival.kind();
    let mut fields = opening_fields(routed, kind);
    if let Some(bridges) = &bridges {
        bridges.confirm(&mut fields);
    }
    if let Some(session) = &session {
        session.tell(&mut fields);
    }

    Ok(match arrival.accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => {
            let client = form::bytes(kind, Kind::Connect, (incoming, outgoing));
            if let Some(session) = session {
                return Ok(session.tunnel(routed, target, client, guard));
            }
            Carried::of(
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

/// Connects to the target, with a session for the tunnel if one is asked for and there is room for it.
async fn dial(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
    resumable: bool,
) -> Result<(NewTarget, Option<Box<NewSession>>), Refusal> {
    let departing = depart(routed, head.clone(), next);
    let tries = Tries::new(routed, next, head);
    let (_, target) = departing?;
    let dialled = match from_stack::listener(routed) {
        Some(_) => by_packets(&tries, &target).await?,
        None => by_socket(&tries, &target).await?,
    };

    let session = resumable.then(|| NewSession::grant(routed, next, target.to_string()));
    Ok((dialled, session.flatten().map(Box::new)))
}

async fn by_socket(tries: &Tries<'_>, target: &Target) -> Result<NewTarget, Refusal> {
    let dialled = reach::dial(tries, target).await?;
    Ok(NewTarget {
        streams: halves(dialled.stream),
        endpoint: dialled.endpoint,
        address: dialled.address,
        active: dialled.active,
    })
}

async fn by_packets(tries: &Tries<'_>, target: &Target) -> Result<NewTarget, Refusal> {
    let IpConnection { streams, endpoint } = from_stack::connection(tries, target).await?;
    Ok(NewTarget {
        streams,
        endpoint,
        // No address of this machine's networks, of which `egress` speaks.
        address: None,
        active: Active::default(),
    })
}

/// Both directions of a connection.
fn halves(stream: Stream) -> (Incoming, Outgoing) {
    let (read, write) = stream.split();
    (
        Incoming::H1(h1::BodyReceiver::bytes(read)),
        Outgoing::H1(h1::BodySender::bytes(write)),
    )
}

/// The fields of the answer that opens a tunnel of bytes which ends here.
pub(crate) fn opening_fields(routed: &Routed, kind: Kind) -> Fields {
    let mut fields = Fields::new();
    form::announce(kind, &mut fields);
    if kind == Kind::ConnectTcp {
        fields.insert(PROXY_STATUS, proxy_status::success(&routed.snapshot.node));
    }
    fields
}

/// Opens the UDP socket that a CONNECT-UDP asks for (RFC 9298, 3.1). The name is resolved before the
/// tunnel is accepted, and only the target's datagrams are taken.
pub(crate) async fn udp(routed: &Routed, arrival: Arrival, next: &Next) -> Result<Carried, Failed> {
    if routed.target.is_any() {
        return Box::pin(udp_bind::open(routed, arrival, next))
            .await
            .map(Carried::Over);
    }

    let (path, opened) = match opening::end(routed, arrival.head(), next, routed.asked).await {
        Ok(opened) => opened,
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
    path.resumption.tell(&mut fields);
    fields.extend(datagram_floor::answer(&arrival.head().fields));
    datagram_limit::answer(&arrival.head().fields, &mut fields);
    let guard = enter(routed, opened, true);

    Ok(match arrival.accept(fields).await {
        Ok(client) => Carried::Datagrams(Box::new((client, path, guard))),
        Err(error) => Carried::Over(format!("client_closed: {error}")),
    })
}
