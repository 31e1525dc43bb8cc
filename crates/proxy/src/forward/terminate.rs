//! Where the overlay ends: a tunnel becomes a TCP connection or a UDP socket.

use hermes_http::{Incoming, Kind, Outgoing, h1};
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::proxy_status::{self, PROXY_STATUS};
use hermes_proto::{datagram_floor, datagram_limit};
use http::{HeaderMap, HeaderValue};

use super::bridges::Bridges;
use super::carried::{ByteTunnel, Carried};
use super::departure::depart;
use super::retry::Tries;
use super::{Failed, Unanswered, bound, form, paths, reach};
use crate::arrival::{Arrival, End};
use crate::next::Next;
use crate::redecide::{Opened, stand};
use crate::routed::Routed;

/// Opens the TCP connection that a CONNECT (RFC 9110, 9.3.6) or connect-tcp asks for.
pub(super) async fn tcp(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
) -> Result<Carried, Failed> {
    let bridges = Bridges::of(&mut arrival, next);
    let departing = depart(routed, arrival.head().clone(), next);
    let tries = Tries::new(routed, next, arrival.head());
    let dialled = async {
        let (_, target) = departing?;
        reach::dial(&tries, &target).await
    };
    let dialled = match dialled.await {
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
    let (read, write) = dialled.stream.split();
    let target = (
        Incoming::H1(h1::Incoming::bytes(read)),
        Outgoing::H1(h1::Outgoing::bytes(write)),
    );
    let opened = Opened::new(routed, arrival.head(), next, dialled.address);
    let place = stand(routed, opened, false);
    let kind = arrival.kind();
    let mut fields = HeaderMap::new();
    form::announce(kind, &mut fields);
    if let Some(bridges) = &bridges {
        bridges.confirm(&mut fields);
    }
    if kind == Kind::ConnectTcp {
        fields.insert(PROXY_STATUS, proxy_status::success(&routed.snapshot.node));
    }
    Ok(match arrival.accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => {
            let client = form::bytes(kind, Kind::Connect, (incoming, outgoing));
            Carried::of(
                ByteTunnel {
                    client,
                    target,
                    place,
                    active: dialled.active,
                    progress: None,
                },
                bridges,
            )
        }
        Ok(End::Udp(_)) => Carried::Over(
            "proxy_internal_error: datagrams cannot enter a TCP connection".to_owned(),
        ),
        Err(error) => Carried::Over(format!("client_closed: {error}")),
    })
}

/// Opens the UDP socket that a CONNECT-UDP asks for (RFC 9298, 3.1). The name is resolved before the
/// tunnel is accepted, and only the target's datagrams are taken.
pub(super) async fn udp(routed: &Routed, arrival: Arrival, next: &Next) -> Result<Carried, Failed> {
    if routed.target.is_any() {
        return Box::pin(bound::udp(routed, arrival, next))
            .await
            .map(Carried::Over);
    }
    let (path, opened) = match paths::socket(routed, arrival.head(), next, routed.asked).await {
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
    let mut fields = HeaderMap::from_iter([(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"))]);
    path.held.tell(&mut fields);
    fields.extend(datagram_floor::answer(&arrival.head().fields));
    datagram_limit::answer(&arrival.head().fields, &mut fields);
    let place = stand(routed, opened, true);
    Ok(match arrival.accept(fields).await {
        Ok(client) => Carried::Datagrams(Box::new((client, path, place))),
        Err(error) => Carried::Over(format!("client_closed: {error}")),
    })
}
