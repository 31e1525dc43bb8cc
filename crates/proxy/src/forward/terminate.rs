//! Where the overlay ends: a tunnel becomes a TCP connection or a UDP socket.

use std::sync::Arc;

use hermes_http::{Incoming, Outgoing, h1};
use hermes_net::UdpSocket;
use hermes_proto::proxy_status::ProxyError;
use http::{HeaderMap, HeaderValue};

use super::departure::{Next, depart};
use super::retry::Tries;
use super::{CAPSULE_PROTOCOL, Failed, Side, Unanswered, pump, reach};
use crate::arrival::{Arrival, End};
use crate::datagrams::{UdpEnd, carry_udp, carry_udp_to_udp};
use crate::refusal::Refusal;
use crate::routed::Routed;

/// Opens the TCP connection that a CONNECT asks for, and carries the tunnel (RFC 9110, 9.3.6).
pub(crate) async fn tcp(routed: &Routed, arrival: Arrival, next: &Next) -> Result<String, Failed> {
    let departing = depart(routed, arrival.head(), next);
    let tries = Tries::new(routed, next, arrival.head());
    let dialled = async {
        let (_, target) = departing?;
        reach::dial(&tries, &target).await
    };
    let dialled = match dialled.await {
        Ok(dialled) => dialled,
        Err(refusal) => return Err(Failed { unanswered: Unanswered::Arrival(arrival), refusal }),
    };
    routed.exchange.status(arrival.head().opening_status().as_u16());
    let (read, write) = dialled.stream.split();
    let target = (Incoming::H1(h1::Incoming::bytes(read)), Outgoing::H1(h1::Outgoing::bytes(write)));
    let carried = match arrival.accept(HeaderMap::new()).await {
        Ok(End::Stream(incoming, outgoing)) => {
            pump::tunnel((incoming, outgoing), target, routed.exchange.counters()).await
        }
        Ok(End::Udp(_)) => return Ok("proxy_internal_error: datagrams cannot enter a TCP connection".to_owned()),
        Err(error) => return Ok(format!("client_closed: {error}")),
    };
    Ok(carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned()))
}

/// Opens the UDP socket that a CONNECT-UDP asks for, and carries the tunnel (RFC 9298, 3.1). The name was resolved before the
/// tunnel is accepted, and only the target's datagrams are taken.
pub(crate) async fn udp(routed: &Routed, arrival: Arrival, next: &Next) -> Result<String, Failed> {
    let tries = Tries::new(routed, next, arrival.head());
    let timeouts = tries.timeouts;
    let departing = depart(routed, arrival.head(), next);
    let opened = async {
        let (_, target) = departing?;
        let (address, active) = reach::udp_address(&tries, &target).await?;
        let socket = UdpSocket::connected(address).await.map_err(|error| {
            Refusal::new(ProxyError::DestinationIpUnroutable, error.to_string()).next_hop(&address.to_string())
        })?;
        Ok::<_, Refusal>((UdpEnd::Socket(Arc::new(socket)), active))
    };
    let (target, _active) = match opened.await {
        Ok(opened) => opened,
        Err(refusal) => return Err(Failed { unanswered: Unanswered::Arrival(arrival), refusal }),
    };
    routed.exchange.status(arrival.head().opening_status().as_u16());
    let fields = HeaderMap::from_iter([(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"))]);
    let client = match arrival.accept(fields).await {
        Ok(client) => client,
        Err(error) => return Ok(format!("client_closed: {error}")),
    };
    let carried = match client {
        End::Stream(mut incoming, mut outgoing) => {
            carry_udp(&mut incoming, &mut outgoing, &target, Side::Client, &routed.exchange, timeouts.udp)
                .await
                .inspect_err(|broken| outgoing.reset(broken.reset))
        }
        End::Udp(client) => carry_udp_to_udp(&client, &target, &routed.exchange, timeouts.udp).await,
    };
    Ok(carried.map_or_else(|broken| broken.reason(), str::to_owned))
}
