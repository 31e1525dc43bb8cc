//! *Forward*: what happens to an exchange once its route is known.
//!
//! | action | message | CONNECT, connect-tcp | CONNECT-UDP | CONNECT-IP | Upgrade |
//! |---|---|---|---|---|---|
//! | `to` | `message`, to the next proxy | `tunnel` | `tunnel` | `tunnel` | `tunnel` |
//! | `terminate` | `message`, to the origin | `terminate`: a TCP connection | `terminate`: a UDP socket | `packets`: a TUN device, or a stack | `tunnel`, to the origin |
//! | `terminate: { ip }` | | `terminate`, by `ip_path` | `terminate`, by `ip_path` | | |
//! | `broadcast` | `broadcast`, if the request asks for it | | | | |
//! | `attach` | | | | | `attach`, if it is asked for |
//! | `respond`, `redirect` | `local` | `local` | `local` | `local` | `local` |
//! | `handle` | `handle` | | | | |

mod affinity;
pub(crate) mod answer_changes;
mod attach;
mod binding;
mod bridges;
mod broadcast;
mod bulk;
mod carried;
mod cause;
mod custody;
mod datagram_path;
mod datagrams;
mod denied_flows;
pub(crate) mod departure;
mod descriptor_share;
mod directions;
mod early;
mod early_answer;
mod failed;
mod form;
pub(crate) mod handle;
mod interrupted;
mod ip_path;
mod kept_request;
mod left_paths;
mod local;
mod message;
mod movable;
mod outlive;
mod packet_flows;
mod packet_gate;
mod packet_session;
mod packets;
mod paths;
pub(crate) mod post;
mod progress;
mod pump;
mod reach;
mod read_ahead;
mod rest;
mod resume;
mod resumption;
mod retry;
mod round;
mod stalled;
mod terminate;
mod transformed;
mod tunnel;
mod udp_bind;
mod upgrades;
mod verdict;
mod wait;

use hermes_http::Kind;
use hermes_http::h1::client::Receiver;
use hermes_packet::Asked;
use hermes_rules::route::Act;

use crate::arrival::Arrival;
use crate::next::{Next, pick};
use crate::refusal::Refusal;
use crate::routed::Routed;
use broadcast::Offer;
pub(crate) use carried::Carried;
pub(crate) use failed::{Failed, Unanswered};
pub use hermes_packet::{Broken, Side};
pub use pump::silence;
pub(crate) use upgrades::permits_upgrade;

/// Acts on an exchange; what it returns is left to be carried, or says why the exchange ended, for the record.
pub(crate) async fn forward(routed: &Routed, arrival: Arrival) -> Result<Carried, Failed> {
    if let Err(refusal) = custody::permits(routed, &arrival) {
        return Err(Failed {
            unanswered: Unanswered::Arrival(arrival),
            refusal,
        });
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
        Act::Handle(next) => match next.handled() {
            Some(handled) => Box::pin(handle::answer(routed, arrival, handled)).await,
            None => return onwards(routed, arrival, next).await,
        },
        Act::Proxy(hops) => return onwards(routed, arrival, pick(hops)).await,
        Act::Origin(next) => return onwards(routed, arrival, next).await,
    };

    ended.map(Carried::Over)
}

/// Whether the route takes what arrived.
///
/// # Errors
/// Why it does not.
fn check(routed: &Routed, arrival: &Arrival, next: &Next) -> Result<(), Refusal> {
    // Sessions are taken over where they end, and there alone.
    let ends_here = next.receiver() == Receiver::Origin && !routed.target.is_any();
    if matches!(routed.asked, Some(Asked::Only(_))) && !ends_here {
        return Err(paths::no_room());
    }

    upgrades::check(&routed.route, arrival.head())?;
    if arrival.kind() != Kind::ConnectIp && packets::end(routed).is_some() {
        return Err(packets::only_packets());
    }

    let is_flow = matches!(
        arrival.kind(),
        Kind::Connect | Kind::ConnectTcp | Kind::ConnectUdp
    );
    if ip_path::listener(routed).is_some() && (!is_flow || routed.target.is_any()) {
        return Err(ip_path::only_flows());
    }
    Ok(())
}

/// To the next hop. What follows has a place of its own on the heap: else each future around it would be as large as the largest
/// of them, and be copied at each step on the way there.
async fn onwards(routed: &Routed, mut arrival: Arrival, next: &Next) -> Result<Carried, Failed> {
    if let Err(refusal) = check(routed, &arrival, next) {
        return Err(Failed {
            unanswered: Unanswered::Arrival(arrival),
            refusal,
        });
    }

    form::confirm(&mut arrival).await;
    if next.answers_early() {
        arrival = match Box::pin(early_answer::give(routed, arrival)).await {
            Ok(arrival) => arrival,
            Err(error) => return Ok(Carried::Over(format!("client_closed: {error}"))),
        };
    }
    match (arrival.kind(), next.receiver()) {
        (Kind::ConnectIp, Receiver::Origin) => Box::pin(packets::open(routed, arrival, next)).await,
        (Kind::Message | Kind::Connect | Kind::ConnectTcp, _) if next.custody().is_some() => {
            Box::pin(custody::forward(routed, arrival, next)).await
        }
        (Kind::Message, _) => Box::pin(message::forward(routed, arrival, next))
            .await
            .map(Carried::Over),
        (Kind::Upgrade, _) | (_, Receiver::Proxy) => {
            Box::pin(tunnel::forward(routed, arrival, next)).await
        }
        (Kind::Connect | Kind::ConnectTcp, Receiver::Origin) => {
            Box::pin(terminate::tcp(routed, arrival, next)).await
        }
        (Kind::ConnectUdp, Receiver::Origin) => {
            Box::pin(terminate::udp(routed, arrival, next)).await
        }
    }
}
