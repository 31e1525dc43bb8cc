//! Ways for datagrams: through the next proxy, or a UDP socket where the overlay ends.

use std::sync::Arc;

use hermes_http::{Event, RequestHead};
use hermes_net::UdpSocket;
use hermes_proto::proxy_status::ProxyError;
use hermes_upstream::{UdpDialled, UdpWay};

use super::datagrams::{Ends, Path};
use super::departure::{Next, depart};
use super::retry::Tries;
use super::{next_hop, reach, tunnel};
use crate::datagrams::UdpEnd;
use crate::redecide::Opened;
use crate::refusal::Refusal;
use crate::routed::Routed;

/// Opens the way that the exchange's route says.
pub(crate) async fn open(routed: &Routed, head: &RequestHead) -> Result<(Path, Opened), Refusal> {
    let action = routed.snapshot.document.routes[routed.route].action();
    let next = action.map_or_else(|| Err("the route has no action".to_owned()), |action| next_hop(routed, action));
    let next = next.map_err(|details| Refusal::new(ProxyError::ProxyConfigurationError, details))?;
    if next.receiver() == hermes_http::h1::client::Receiver::Origin {
        return socket(routed, head, &next).await;
    }
    let (departing, target) = depart(routed, head.clone(), &next)?;
    let opened = tunnel::open(&Tries::new(routed, &next, head), &departing, &target).await?;
    match opened.answer {
        Event::Tunnel(_, incoming) => {
            let ends = Ends::streams(incoming, opened.outgoing);
            Ok((Path { ends, active: opened.active, idle: opened.idle }, Opened::new(routed, head, &next, None)))
        }
        Event::Final(head, _) | Event::Interim(head) => {
            let details = format!("the next hop answered {}", head.status);
            Err(Refusal::new(ProxyError::HttpUpgradeFailed, details))
        }
    }
}

/// Opens a UDP socket towards the target.
pub(crate) async fn socket(routed: &Routed, head: &RequestHead, next: &Next) -> Result<(Path, Opened), Refusal> {
    let tries = Tries::new(routed, next, head);
    let (_, target) = depart(routed, head.clone(), next)?;
    let UdpDialled { way, active, .. } = reach::dial_udp(&tries, &target).await?;
    let idle = tries.timeouts.udp;
    let address = match way {
        UdpWay::Address(address) => address,
        UdpWay::Tunnel(streams) => {
            let ends = Ends::streams(streams.0, streams.1);
            return Ok((Path { ends, active, idle }, Opened::new(routed, head, next, None)));
        }
    };
    let socket = UdpSocket::connected(address).await.map_err(|error| {
        Refusal::new(ProxyError::DestinationIpUnroutable, error.to_string()).next_hop(&address.to_string())
    })?;
    let hold = routed.listener.hold(routed.snapshot.document.routes[routed.route].datagrams.as_ref());
    let ends = Ends::udp(UdpEnd::Socket(Arc::new(socket), hold));
    Ok((Path { ends, active, idle }, Opened::new(routed, head, next, Some(address))))
}
