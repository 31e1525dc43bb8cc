//! *Forward*: what happens to an exchange once its route is known.
//!
//! | action | message | CONNECT | CONNECT-UDP | Upgrade |
//! |---|---|---|---|---|
//! | `to` | `message`, to the next proxy | `tunnel` | `tunnel` | `tunnel` |
//! | `terminate` | `message`, to the origin | `terminate`: a TCP connection | `terminate`: a UDP socket | `tunnel`, to the origin |
//! | `broadcast` | `broadcast`, if the request asks for it | | | |
//! | `respond`, `redirect` | `local` | `local` | `local` | `local` |

mod broadcast;
pub(crate) mod departure;
mod local;
mod message;
mod pump;
mod reach;
mod retry;
mod terminate;
mod tunnel;

use hermes_config::model::{Action, Hops, Terminate};
use hermes_http::h1::client::Receiver;
use hermes_http::{Kind, Responder};
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::pick_hop;

use crate::arrival::Arrival;
use crate::refusal::Refusal;
use crate::routed::Routed;
use broadcast::Offer;
pub(crate) use departure::Next;
pub use pump::{Broken, Side, silence};
pub(crate) use tunnel::CAPSULE_PROTOCOL;

/// What is still to be answered.
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and each is moved once")]
pub(crate) enum Unanswered {
    /// Nothing of it was touched.
    Arrival(Arrival),
    /// Its content was, or may have been, read.
    Responder(Responder),
}

/// An exchange that could not be forwarded, and why.
pub(crate) struct Failed {
    pub(crate) unanswered: Unanswered,
    pub(crate) refusal: Refusal,
}

/// Acts on an exchange; returns the reason of its end, for the record.
pub(crate) async fn forward(routed: &Routed, arrival: Arrival) -> Result<String, Failed> {
    let arrival = match broadcast::offer(routed, arrival) {
        Offer::Ordinary(arrival) => arrival,
        Offer::Broadcast(rule, arrival) => return broadcast::run(routed, arrival, rule).await,
        Offer::Refused(failed) => return Err(failed),
    };
    let action = routed.snapshot.document.routes.get(routed.route).and_then(|route| route.action());
    match action {
        Some(Action::Respond(respond)) => local::respond(routed, arrival, respond).await,
        Some(Action::Redirect(redirect)) => local::redirect(routed, arrival, redirect).await,
        Some(Action::To(hops)) => to(routed, arrival, hops).await,
        Some(Action::Terminate(terminate)) => end(routed, arrival, terminate).await,
        None => Err(misconfigured(arrival, "the route has no action".to_owned())),
    }
}

fn misconfigured(arrival: Arrival, details: String) -> Failed {
    let refusal = Refusal::new(ProxyError::ProxyConfigurationError, details);
    Failed { unanswered: Unanswered::Arrival(arrival), refusal }
}

async fn to(routed: &Routed, arrival: Arrival, hops: &Hops) -> Result<String, Failed> {
    let name = pick_hop(hops, fastrand::u64(..));
    let Some(upstream) = routed.snapshot.upstreams.get(name).cloned() else {
        return Err(misconfigured(arrival, format!("there is no upstream {name}")));
    };
    let next = Next::Upstream { upstream, receiver: Receiver::Proxy };
    match arrival.kind() {
        Kind::Message => message::forward(routed, arrival, &next).await,
        Kind::Connect | Kind::ConnectUdp | Kind::Upgrade => tunnel::forward(routed, arrival, &next).await,
    }
}

async fn end(routed: &Routed, arrival: Arrival, terminate: &Terminate) -> Result<String, Failed> {
    let next = match terminate {
        Terminate::Target(_) => Next::Target,
        Terminate::Upstream(name) => match routed.snapshot.upstreams.get(name).cloned() {
            Some(upstream) => Next::Upstream { upstream, receiver: Receiver::Origin },
            None => return Err(misconfigured(arrival, format!("there is no upstream {name}"))),
        },
    };
    match arrival.kind() {
        Kind::Message => message::forward(routed, arrival, &next).await,
        Kind::Upgrade => tunnel::forward(routed, arrival, &next).await,
        Kind::Connect => terminate::tcp(routed, arrival, &next).await,
        Kind::ConnectUdp => terminate::udp(routed, arrival, &next).await,
    }
}
