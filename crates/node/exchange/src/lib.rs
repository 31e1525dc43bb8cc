//! Carries exchanges from their arrival to their end, of every kind and from every listener.
//!
//! ```text
//! accept -> identify -> tag -> policy -> authorize -> route -> forward
//! ```
//!
//! - [`run`] takes an exchange from its arrival to its end; the phases up to *route* are in `hermes-admit`.
//! - `forward`: the action of its route. `message`, `tunnel`, `datagrams` and `packets` carry it; `here`: it ends at this node.
//! - `reach`: from a route to an open connection, socket, tunnel or path. `carried`: an open tunnel. `pump`: the loop that moves one
//!   direction.
//! - `carrier`: taken to the next proxy by a plug, in place of a connection. `behalf`: exchanges that plugs open.
//!
//! Specifications: RFC 9110 (proxy role), RFC 9298 (CONNECT-UDP), RFC 9484 (CONNECT-IP).

mod behalf;
mod between;
mod beyond;
mod carried;
mod carrier;
mod datagrams;
mod failed;
mod forward;
mod here;
mod message;
mod packets;
mod pump;
mod reach;
mod stage;
mod transformed;
mod tunnel;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hermes_admit::entrance::Entrance;
use hermes_admit::max_forwards;
use hermes_admit::note;
use hermes_admit::pac::ProxyPac;
use hermes_admit::phases::entered::Entered;
use hermes_admit::phases::permits::Permits;
use hermes_admit::post;
use hermes_admit::reevaluate::TunnelState;
use hermes_admit::refusals::remembered::{Circumstances, Instead};
use hermes_admit::routed::Routed;
use hermes_admit::snapshot::Snapshot;
use hermes_http::{Kind, Offered, ResponseHead};
use hermes_observe::{CLIENT_CLOSED, Exchange};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_plug::{HandlerRequest, Opener, RequestContent, Waits};
use hermes_proto::fields::Fields;
use hermes_proto::refusal_id::RefusalId;

use crate::carried::{Carried, Carry};
use crate::failed::{Failed, Unanswered};
use crate::forward::forward;
use crate::here::acme;
use crate::here::handle::{self, HandlerCall};
use crate::message::answer_changes;
use crate::packets::opened_flows::{self, StartedExchange};
pub use crate::packets::opened_flows::{BegunFlow, Flows};

/// How far an exchange has come that is refused.
#[derive(Clone, Copy)]
enum Refused<'a> {
    /// It has no route.
    Entered(&'a Entered),
    /// It has one; and whether its client learns why.
    Routed(&'a Routed, bool),
}

impl Refused<'_> {
    fn exchange(&self) -> &Exchange {
        match self {
            Self::Entered(entered) => &entered.exchange,
            Self::Routed(routed, _) => &routed.exchange,
        }
    }

    /// The name of this node.
    fn node(&self) -> &str {
        match self {
            Self::Entered(entered) => &entered.snapshot.node.name,
            Self::Routed(routed, _) => &routed.snapshot.node.name,
        }
    }

    /// Whether its client learns why.
    fn is_explained(&self) -> bool {
        match self {
            Self::Entered(entered) => entered.explained,
            Self::Routed(_, explained) => *explained,
        }
    }

    /// Remembers the refusal, so that it can be asked about.
    fn note(&self, unanswered: &Unanswered, refusal: &Refusal) -> RefusalId {
        let arrival = unanswered.arrival();
        let entered = match self {
            Self::Entered(entered) => entered,
            Self::Routed(routed, _) => return note::routed_refusal(routed, arrival, refusal),
        };

        let circumstances = Circumstances {
            snapshot: &entered.snapshot,
            listener: &entered.listener,
            source: &entered.source,
            exchange: Some(&entered.exchange),
            instead: Instead::Request,
            head: arrival.map(Arrival::head),
            route: None,
        };
        let refusals = &entered.entrance.worker.shared.refusals;
        note::refusal(refusals, &circumstances, refusal)
    }
}

/// An open tunnel, and the permits that it holds while it is carried.
struct OpenTunnel {
    exchange: TunnelExchange,
    tunnel: Box<dyn Carry>,
    _permits: Permits,
}

impl OpenTunnel {
    fn new(routed: Routed, tunnel: Box<dyn Carry>, mut permits: Permits) -> Self {
        if !tunnel.keeps_head() {
            permits.opened(&routed.auth);
        }
        Self {
            exchange: TunnelExchange::new(routed, tunnel.guard().state()),
            tunnel,
            _permits: permits,
        }
    }
}

/// The exchange that a tunnel is.
enum TunnelExchange {
    /// As its state in the table of open tunnels has it: twice would be most of the memory of an idle one.
    OfState(Arc<TunnelState>),
    /// Of a tunnel that another exchange opened, whose state is that of the other.
    Own(Box<Routed>),
}

impl TunnelExchange {
    fn new(routed: Routed, state: &Arc<TunnelState>) -> Self {
        if Arc::ptr_eq(&state.as_opened().exchange, &routed.exchange) {
            Self::OfState(state.clone())
        } else {
            Self::Own(Box::new(routed))
        }
    }

    fn routed(&self) -> &Routed {
        match self {
            Self::OfState(state) => state.as_opened(),
            Self::Own(routed) => routed,
        }
    }
}

/// Takes an exchange from its arrival to its end. Whatever happens, it is answered once and recorded once.
pub fn run(entrance: &Entrance, arrival: Arrival) -> impl Future<Output = ()> + Send {
    take(entrance, arrival, false)
}

/// As [`run`], of an exchange that came in early data and must not be repeated: 425, if nothing else refuses it (RFC 8470, 5.2).
pub fn refuse_early(entrance: &Entrance, arrival: Arrival) -> impl Future<Output = ()> + Send {
    take(entrance, arrival, true)
}

/// As [`run`], for modules below this one.
fn start(entrance: &Entrance, arrival: Arrival) -> StartedExchange<'_> {
    Box::pin(run(entrance, arrival))
}

/// Flows of packets that come in by this entrance, and as exchanges with these fields.
pub fn flows(entrance: Entrance, fields: Fields) -> Flows {
    Flows::new(entrance, fields, start)
}

async fn take(entrance: &Entrance, arrival: Arrival, too_early: bool) {
    // The future of the opening is freed before the tunnel is carried: most tunnels are idle most of their time.
    if let Some(open) = opening(entrance, arrival, too_early).await {
        let routed = open.exchange.routed();
        let reason = match open.tunnel.stack().cloned() {
            None => open.tunnel.carry(routed).await,
            Some(stack) => opened_flows::beside(stack, open.tunnel, routed, start).await,
        };
        note::end(routed, &reason);
        routed.exchange.finish(&reason);
    }
}

/// An exchange that has begun; `Some` if it opened a tunnel, which is to be carried.
type OpeningExchange<'a> = Pin<Box<dyn Future<Output = Option<Box<OpenTunnel>>> + Send + 'a>>;

// A `dyn` future is compiled in the crate that makes it; one that is awaited by its type once more in each crate that awaits it. Most of this
// crate is in this one.
#[inline(never)]
fn opening(entrance: &Entrance, arrival: Arrival, too_early: bool) -> OpeningExchange<'_> {
    Box::pin(begin(entrance, arrival, too_early))
}

/// All of an exchange, but for a tunnel only its opening.
async fn begin(
    entrance: &Entrance,
    mut arrival: Arrival,
    too_early: bool,
) -> Option<Box<OpenTunnel>> {
    let entered = Entered::new(entrance, &mut arrival);
    if let Some(pac) = entered.proxy_pac(&arrival) {
        arrival = match arrival {
            Arrival::Offered(offered) => {
                // Boxed, here and below: few exchanges need it, and every one would carry room for
                // it.
                Box::pin(proxy_pac(&entered, *offered, &pac)).await;
                return None;
            }
            session => session,
        };
    }

    if let Some((head, content)) = acme::answer(&entered.snapshot, &arrival) {
        let reason = "responded: a challenge of this node's authority";
        Box::pin(here(&entered.exchange, arrival, head, content, reason)).await;
        return None;
    }

    let decided = entered.decide(&mut arrival, too_early).await;
    let explained = entered.explained;
    let (routed, received, permits) = match decided {
        Ok(admitted) => admitted.routed(entered, behalf::opener),
        Err(refusal) => {
            let failed = Failed::untouched(arrival, refusal);
            Box::pin(answer(Refused::Entered(&entered), failed)).await;
            return None;
        }
    };

    // TRACE and OPTIONS may end here (RFC 9110, 7.6.2).
    let forwarded = match on_route(&routed, &mut arrival, &received) {
        Ok(None) => forward(&routed, arrival).await,
        Ok(Some((head, content))) => {
            let reason = "responded: no hop is left";
            Box::pin(here(&routed.exchange, arrival, head, content, reason)).await;
            return None;
        }
        Err(refusal) => Err(Failed::untouched(arrival, refusal)),
    };

    match forwarded {
        Ok(Carried::Over(reason)) => {
            note::end(&routed, &reason);
            routed.exchange.finish(&reason);
            None
        }
        Ok(Carried::Tunnel(tunnel)) => Some(Box::new(OpenTunnel::new(routed, tunnel, permits))),
        Err(failed) => {
            Box::pin(answer(Refused::Routed(&routed, explained), failed)).await;
            None
        }
    }
}

/// Applies the settings of the route before the exchange leaves. Returns the answer where no hop is left.
fn on_route(
    routed: &Routed,
    arrival: &mut Arrival,
    received: &Fields,
) -> Result<Option<(ResponseHead, Bytes)>, Refusal> {
    let route = &routed.route.config;
    if post::arrive(arrival.head_mut(), route) {
        routed.exchange.is_post();
    }
    if let Some(session) = arrival.session() {
        session.set_bounds(routed.listener.datagram_bounds(route.datagrams.as_ref()));
    }

    // The answer to a CONNECT is for the proxy that asked.
    if matches!(arrival.kind(), Kind::Message | Kind::Upgrade)
        && let Some(changes) = answer_changes::of(routed, arrival.head())?
    {
        arrival.add_to_answer(vec![changes]);
    }
    count_down(&routed.snapshot, arrival, received)
}

/// A TRACE or OPTIONS comes one hop nearer to its end; the answer, if that is here.
fn count_down(
    snapshot: &Snapshot,
    arrival: &mut Arrival,
    received: &Fields,
) -> Result<Option<(ResponseHead, Bytes)>, Refusal> {
    let Arrival::Offered(offered) = arrival else {
        return Ok(None);
    };
    max_forwards::withdraw(&mut offered.head, received, &snapshot.rules.overlay);
    let has_content = offered.has_content();

    max_forwards::count_down(
        &mut offered.head,
        has_content,
        received,
        &snapshot.rules.overlay,
    )
}

/// Sends a browser the file that it asks for.
async fn proxy_pac(entered: &Entered, offered: Offered, pac: &ProxyPac) {
    let exchange = &entered.exchange;
    exchange.method(offered.head.wire_method());
    let (head, content, responder) = offered.message();

    let request = HandlerRequest {
        content: RequestContent::new(content, exchange.clone()),
        target: Target::Any,
        user: None,
        source: entered.source.clone(),
        listener: entered.listener.name.clone(),
        onward: None,
        opener: Opener::none(),
        waits: Waits::new(exchange.clone(), &entered.snapshot.node.name),
        head,
    };

    let call = HandlerCall {
        exchange,
        handler: pac,
        name: "proxy.pac",
        request,
        responder,
    };
    match handle::respond(call, &|head| head, &|| None).await {
        Ok(Carried::Over(reason)) => exchange.finish(&reason),
        Ok(Carried::Tunnel(_)) => exchange.finish("proxy_internal_error: a file without an end"),
        Err(failed) => answer(Refused::Entered(entered), failed).await,
    }
}

/// Answers a request for this proxy itself.
async fn here(
    exchange: &Exchange,
    arrival: Arrival,
    head: ResponseHead,
    content: Bytes,
    reason: &str,
) {
    exchange.method(arrival.head().wire_method());
    exchange.status(head.status.as_u16());
    match arrival.answer(head, content).await {
        Ok(()) => exchange.finish(reason),
        Err(error) => exchange.finish(&format!("client_closed: {error}")),
    }
}

/// Answers an exchange that was refused, and records the reason.
async fn answer(refused: Refused<'_>, failed: Failed) {
    let Failed {
        unanswered,
        refusal,
    } = failed;
    let exchange = refused.exchange();
    // A client that was answered early sees a reset.
    if !exchange.is_answered() {
        exchange.status(refusal.code().as_u16());
    }

    let id = refused.note(&unanswered, &refusal);
    let reason = refusal.reason();
    let for_ingress = refusal.for_ingress();
    let (head, content) = refusal.answer(refused.node(), id, refused.is_explained());
    match unanswered.refuse(for_ingress, head, content).await {
        _ if reason.starts_with(CLIENT_CLOSED) => exchange.finish(&reason),
        Ok(()) => exchange.finish(&reason),
        Err(_) => exchange.finish(&format!("client_closed: before the answer ({reason})")),
    }
}
