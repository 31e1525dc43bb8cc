//! *Forward*: acts on an exchange once its route is known.
//!
//! | action | message | CONNECT, connect-tcp | CONNECT-UDP | CONNECT-IP | Upgrade |
//! |---|---|---|---|---|---|
//! | `to` | `message`, to the next proxy | `tunnel` | `tunnel` | `tunnel` | `tunnel` |
//! | `terminate` | `message`, to the origin | `terminate`: a TCP connection | `terminate`: a UDP socket | `packets`: a TUN device, or a stack | `tunnel`, to the origin |
//! | `terminate: { ip }` | | `terminate`, by `from_stack` | `terminate`, by `from_stack` | | |
//! | `terminate: { by }` | | `terminate`, by a connector | `terminate`, by a connector | `terminate`, if the connector takes it | the same |
//! | `broadcast` | `broadcast`, if the request asks for it | | | | |
//! | `through` a handler | `between`, and from there to the next hop | | | | |
//! | `attach` | | | | | `attach`, if it is asked for |
//! | `respond`, `redirect` | `local` | `local` | `local` | `local` | `local` |
//! | `handle` | `handle` | `terminate`, by the handler | `terminate`, by the handler | `terminate`, if the handler takes it | the same |

use std::sync::Arc;

use hermes_admit::next::{Next, pick};
use hermes_admit::routed::Routed;
use hermes_http::Kind;
use hermes_http::h1::client::Receiver;
use hermes_packet::Asked;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_proto::functions_field;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::route::Act;
use http::StatusCode;

use crate::between;
use crate::beyond::Beyond;
use crate::carried::Carried;
use crate::carrier;
use crate::failed::Failed;
use crate::here::attach;
use crate::here::handle;
use crate::here::local;
use crate::message;
use crate::message::broadcast;
use crate::message::broadcast::Offer;
use crate::packets;
use crate::reach::form;
use crate::reach::opening;
use crate::reach::termination::Termination;
use crate::reach::transforms::{Changes, admit};
use crate::tunnel;
use crate::tunnel::early_answer;
use crate::tunnel::listening;
use crate::tunnel::terminate;

/// Acts on an exchange. Returns a tunnel to be carried, or the reason for which the exchange ended, for the record.
pub(crate) async fn forward(routed: &Routed, arrival: Arrival) -> Result<Carried, Failed> {
    if let Err(refusal) = carrier::permits(routed, &arrival) {
        return Err(Failed::untouched(arrival, refusal));
    }
    let arrival = match broadcast::offer(routed, arrival) {
        Offer::Ordinary(arrival) => arrival,
        Offer::Broadcast(rule, arrival) => {
            return Box::pin(broadcast::run(routed, arrival, rule))
                .await
                .map(Carried::Over);
        }
        Offer::Refused(failed) => return Err(failed),
    };

    let ended = match &routed.route.act {
        Act::Attach(rule) => Box::pin(attach::accept(routed, arrival, rule)).await,
        Act::Respond(respond) => Box::pin(local::respond(routed, arrival, respond)).await,
        Act::Redirect(redirect) => Box::pin(local::redirect(routed, arrival, redirect)).await,
        Act::Handle(next) => match (next.handled(), arrival) {
            (Some(handled), Arrival::Offered(offered)) if offered.kind() == Kind::Message => {
                return Box::pin(handle::give(routed, *offered, handled, None)).await;
            }
            (_, tunnel) => return onwards(routed, tunnel, next).await,
        },
        Act::Proxy(hops) => return onwards(routed, arrival, pick(hops)).await,
        Act::Origin(next) => return onwards(routed, arrival, next).await,
    };

    ended.map(Carried::Over)
}

/// Whether the route takes exchanges of this kind.
///
/// # Errors
/// Why it does not.
fn check(routed: &Routed, arrival: &Arrival, next: &Next) -> Result<(), Refusal> {
    // Sessions are taken over where they end, and there alone.
    let ends_here = next.receiver() == Receiver::Origin && !routed.target.is_any();
    if matches!(routed.asked, Some(Asked::Only(_))) && !ends_here {
        return Err(opening::no_room());
    }

    hermes_admit::upgrades::check(&routed.route, arrival.head())?;
    if arrival.kind() != Kind::ConnectIp && packets::end(routed).is_some() {
        return Err(packets::only_packets());
    }

    if next.is_socks() && !takes_socks(arrival.kind()) {
        let details = "the next hop speaks SOCKS, which carries connections and datagrams alone";
        let refusal = Refusal::new(ProxyError::HttpRequestDenied, details);
        return Err(refusal.status(StatusCode::NOT_IMPLEMENTED));
    }
    if listening::is_asked_for(arrival) && !takes_listening(next) {
        let details = "the next hop of this route waits for no connections";
        let refusal = Refusal::new(ProxyError::HttpRequestDenied, details);
        return Err(refusal.status(StatusCode::NOT_IMPLEMENTED));
    }
    Termination::of(routed, next).check(arrival.kind(), &routed.target)
}

/// Whether an exchange of this kind can go to a proxy of SOCKS.
fn takes_socks(kind: Kind) -> bool {
    matches!(kind, Kind::Connect | Kind::ConnectTcp | Kind::ConnectUdp)
}

/// Whether a CONNECT that waits for its target can go there: others than a proxy of HTTP and this node itself would connect to it.
fn takes_listening(next: &Next) -> bool {
    let is_proxy = next.receiver() == Receiver::Proxy;
    (is_proxy || next.is_target()) && !next.is_socks() && next.carrier().is_none()
}

/// To the next hop. Its future is on the heap: else each future around it would be as large as the largest
/// of them, and be copied at each step on the way there.
async fn onwards(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Arc<Next>,
) -> Result<Carried, Failed> {
    if let Err(refusal) = check(routed, &arrival, next) {
        return Err(Failed::untouched(arrival, refusal));
    }

    if arrival.kind() == Kind::Message
        && !next.through.own.is_empty()
        && let Err(refusal) = Box::pin(admit(routed, &mut arrival, next)).await
    {
        return Err(Failed::untouched(arrival, refusal));
    }

    let is_asked = arrival.head().fields.contains_key(functions_field::FIELD);
    let has_transforms = !next.through.own.is_empty() || is_asked;
    let mut changes = if arrival.kind().carries_packets() && has_transforms {
        match Box::pin(Changes::of_arrival(routed, &mut arrival, next)).await {
            Ok(changes) => changes,
            Err(refusal) => return Err(Failed::untouched(arrival, refusal)),
        }
    } else {
        None
    };

    form::confirm(&mut arrival).await;
    if next.answers_early() && !listening::is_asked_for(&arrival) {
        arrival = match Box::pin(early_answer::give(routed, arrival)).await {
            Ok(arrival) => arrival,
            Err(error) => return Ok(Carried::Over(format!("client_closed: {error}"))),
        };
    }

    let beyond = changes
        .as_deref_mut()
        .and_then(|changes| changes.beyond.as_deref_mut());
    let mut carried = by_kind(routed, arrival, next, beyond).await?;
    if let (Carried::Tunnel(tunnel), Some(changes)) = (&mut carried, changes) {
        tunnel.change_datagrams(changes);
    }
    Ok(carried)
}

/// Sends an exchange on as its kind and its next hop ask for; see the table of this module.
async fn by_kind(
    routed: &Routed,
    arrival: Arrival,
    next: &Arc<Next>,
    beyond: Option<&mut Beyond>,
) -> Result<Carried, Failed> {
    let is_plug = next.plug().is_some();
    match (arrival.kind(), next.receiver()) {
        (Kind::ConnectIp, Receiver::Origin) if !is_plug => {
            Box::pin(packets::open(routed, arrival, next)).await
        }
        (Kind::Message, _) if !next.through.between.is_empty() => {
            Box::pin(between::answer(routed, arrival, next)).await
        }
        (Kind::Message | Kind::Connect | Kind::ConnectTcp, _) if next.carrier().is_some() => {
            Box::pin(carrier::forward(routed, arrival, next)).await
        }
        (Kind::Message, _) => Box::pin(message::forward(routed, arrival, next))
            .await
            .map(Carried::Over),
        (_, Receiver::Proxy) => Box::pin(tunnel::forward(routed, arrival, next, beyond)).await,
        (Kind::Upgrade, Receiver::Origin) if !is_plug => {
            Box::pin(tunnel::forward(routed, arrival, next, beyond)).await
        }
        (Kind::Connect | Kind::ConnectTcp | Kind::Upgrade, Receiver::Origin) => {
            Box::pin(terminate::bytes(routed, arrival, next)).await
        }
        (Kind::ConnectUdp | Kind::ConnectIp, Receiver::Origin) => {
            Box::pin(terminate::datagrams(
                routed,
                arrival,
                next,
                beyond.as_deref(),
            ))
            .await
        }
    }
}
