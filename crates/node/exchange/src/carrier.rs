//! Requests and tunnels that a plug carries to the next proxy, in place of a connection there: the route's *carrier*.

use std::sync::atomic::AtomicU64;

use hermes_admit::next::{Handled, Next};
use hermes_admit::reevaluate::{Opened, enter};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Incoming, Kind, Offered, Outgoing, RequestHead, Reset, pipe};
use hermes_observe::CLIENT_CLOSED;
use hermes_packet::Side;
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_plug::{HandlerRequest, Onward};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{functions_field, transform};
use hermes_rules::route::Act;
use hermes_upstream::Active;

use super::carried::Carried;
use super::pump::{Direction, pump};
use crate::failed::{Failed, Unanswered};
use crate::here::handle;
use crate::reach::carrier_path::{answer, ask, connect, endpoint};
use crate::reach::departure::depart;
use crate::reach::form;
use crate::reach::next_tunnel::{passed_on, refused};
use crate::tunnel::bytes::ByteTunnel;
use crate::tunnel::early_answer;
use crate::tunnel::outlive::near;
use crate::tunnel::outlive::near::{AskedSession, Granted, NearTunnel};

/// Whether the route may act on this: an exchange from before a restart is only taken up where a carrier keeps it.
pub(crate) fn permits(routed: &Routed, arrival: &Arrival) -> Result<(), Refusal> {
    let Arrival::Offered(offered) = arrival else {
        return Ok(());
    };
    let keeps = match &routed.route.act {
        Act::Proxy(hops) => hops.iter().all(|next| next.carrier().is_some()),
        _ => false,
    };
    if !offered.is_taken_up() || keeps && routed.route.config.broadcast.is_none() {
        return Ok(());
    }
    let details =
        "the request was acted on before this node was started again, and its route is another now";
    Err(Refusal::new(ProxyError::HttpResponseIncomplete, details))
}

/// Has the carrier answer a request, or carry a tunnel.
pub(crate) async fn forward(
    routed: &Routed,
    arrival: Arrival,
    next: &Next,
) -> Result<Carried, Failed> {
    match arrival.kind() {
        Kind::Message => message(routed, arrival, next).await,
        _ => tunnel(routed, arrival, next).await,
    }
}

/// Has the carrier answer, with the request as it would leave for the next proxy.
pub(crate) async fn message(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
) -> Result<Carried, Failed> {
    let departing = depart(routed, arrival.head_mut().take(), next);
    let refusal = match (departing, arrival, next.carrier()) {
        (Ok((head, _)), Arrival::Offered(mut offered), Some(handled)) => {
            offered.head = head;
            let onward = Some(Onward::by_carrier(next.name().clone()));
            return handle::give(routed, *offered, handled, onward).await;
        }
        (Err(refusal), unanswered, _) => (refusal, unanswered),
        (Ok(_), unanswered, _) => (no_message(), unanswered),
    };

    let (refusal, unanswered) = refusal;
    Err(Failed {
        unanswered: Unanswered::Arrival(unanswered),
        refusal,
    })
}

/// Has the carrier take a tunnel of bytes: as a CONNECT whose content is the client's bytes, and whose response's content is the
/// target's.
async fn tunnel(routed: &Routed, arrival: Arrival, next: &Next) -> Result<Carried, Failed> {
    let head = connect(routed, arrival.head(), next);
    let (mut head, handled, offered) = match (head, next.carrier(), arrival) {
        (Ok(head), Some(handled), Arrival::Offered(offered)) => (head, handled, offered),
        (head, _, unanswered) => {
            return Err(Failed {
                unanswered: Unanswered::Arrival(unanswered),
                refusal: head.err().unwrap_or_else(no_message),
            });
        }
    };

    let exchange = &routed.exchange;
    exchange.upstream(next.name(), &endpoint(handled), None);
    let carrier = Carrier { next, handled };
    if offered.is_stored() {
        return relay(routed, offered, head, carrier).await;
    }
    if head.fields.contains_key(functions_field::FIELD) {
        let details = "functions that a peer asks for are not for tunnels in custody";
        return Err(Failed {
            unanswered: Unanswered::Arrival(Arrival::Offered(offered)),
            refusal: Refusal::new(ProxyError::ProxyConfigurationError, details),
        });
    }
    // Nothing here would change the bytes back.
    head.fields.remove(transform::FIELD);
    let session = near::ask(routed, next, &mut head);
    // Whether bytes have to be within capsules is not known before the answer.
    if session.is_none() && next.answers_early() && early_answer::may_be_given(&offered) {
        return begin(routed, offered, head, carrier).await;
    }
    let request = TunnelRequest { head, session };
    open(routed, offered, request, carrier).await
}

/// The plug that carries to the next proxy.
#[derive(Clone, Copy)]
struct Carrier<'a> {
    next: &'a Next,
    handled: &'a Handled,
}

/// The request for a tunnel as it leaves.
struct TunnelRequest {
    head: RequestHead,
    /// The session that it asks the far end for.
    session: Option<Box<AskedSession>>,
}

/// Passes a tunnel on that a carrier brought here: its bytes pass before it is known whether the target answers.
async fn relay(
    routed: &Routed,
    mut offered: Box<Offered>,
    head: RequestHead,
    carrier: Carrier<'_>,
) -> Result<Carried, Failed> {
    let Carrier { next, handled } = carrier;
    let opened = Opened::new(routed, &offered.head, next, None);
    let mut guard = enter(routed, opened, false);
    offered.head = head;
    let onward = Some(Onward::by_carrier(next.name().clone()));
    tokio::select! {
        ended = handle::give(routed, *offered, handled, onward) => ended,
        reason = guard.ended() => Ok(Carried::Over(format!("policy_changed: {reason}"))),
    }
}

/// Opens a tunnel, and tells the client when the target has answered.
async fn open(
    routed: &Routed,
    mut offered: Box<Offered>,
    request: TunnelRequest,
    carrier: Carrier<'_>,
) -> Result<Carried, Failed> {
    let TunnelRequest { head, session } = request;
    let Carrier { next, handled } = carrier;
    let (up, content) = pipe(None);
    let asked = ask(routed, head, content, next);
    let answer = tokio::select! {
        answer = answer(handled, asked) => answer,
        () = offered.gone() => Err(Refusal::client_gone("before the tunnel was open")),
    };
    let opened = answer.and_then(|(head, content)| match head.status.is_success() {
        true => Ok((head.fields, content)),
        false => Err(refused(routed, next, &head)),
    });
    match opened {
        Ok((mut fields, down)) => {
            let granted = session.and_then(|asked| asked.granted(&mut fields));
            let answered = TunnelAnswer {
                fields,
                granted,
                target: Duplex {
                    incoming: down,
                    outgoing: up,
                },
            };
            Ok(accept(routed, offered, answered, next).await)
        }
        Err(refusal) => Err(Failed {
            unanswered: Unanswered::Arrival(Arrival::Offered(offered)),
            refusal,
        }),
    }
}

/// Carries a tunnel whose client was told that it is open. If it cannot be opened, the client sees a reset.
async fn begin(
    routed: &Routed,
    offered: Box<Offered>,
    head: RequestHead,
    carrier: Carrier<'_>,
) -> Result<Carried, Failed> {
    let Carrier { next, handled } = carrier;
    let (up, content) = pipe(None);
    let (sent, down) = pipe(None);
    let asked = ask(routed, head, content, next);
    let opener = asked.opener.clone();
    let handled = handled.clone();
    let target = routed.target.to_string();
    // A task of its own: the client's bytes pass before the next hop answers, and the answer must not wait for them.
    opener.spawn(async move { pass_answer(&handled, asked, sent, &target).await });
    let answered = TunnelAnswer {
        fields: Fields::new(),
        granted: None,
        target: Duplex {
            incoming: down,
            outgoing: up,
        },
    };
    Ok(accept(routed, offered, answered, next).await)
}

/// Waits for the next hop's answer, and passes on its content. The client was told that its tunnel is open: a refusal can only be a reset.
async fn pass_answer(handled: &Handled, asked: HandlerRequest, mut sent: Outgoing, target: &str) {
    let answered = tokio::select! {
        answered = answer(handled, asked) => answered,
        _ = sent.broken() => return,
    };
    let reason = match answered {
        Ok((head, mut content)) if head.status.is_success() => {
            return pass(&mut content, &mut sent).await;
        }
        Ok((head, _)) => format!("the next hop answered {}", head.status),
        Err(refusal) => refusal.reason(),
    };
    tracing::info!(target, reason, "a carried tunnel was not opened");
    sent.reset(Reset::Connect);
}

/// Passes on the bytes of the target.
async fn pass(content: &mut Incoming, sent: &mut Outgoing) {
    let direction = Direction {
        from: Side::Target,
        // The tunnel counts it.
        moved: &AtomicU64::new(0),
        rules: None,
    };
    if let Err(broken) = pump(content, sent, direction).await {
        sent.reset(broken.reset);
    }
}

/// A tunnel whose client is to be told.
struct TunnelAnswer {
    /// Fields of the answer: the client is to know of agreements further along.
    fields: Fields,
    /// The session that the far end has granted this node.
    granted: Option<Box<Granted>>,
    target: Duplex,
}

/// Tells the client that the tunnel is open, if it was not told before.
async fn accept(
    routed: &Routed,
    offered: Box<Offered>,
    answered: TunnelAnswer,
    next: &Next,
) -> Carried {
    let TunnelAnswer {
        fields,
        granted,
        target,
    } = answered;
    let kind = offered.kind();
    routed
        .exchange
        .status(offered.head.opening_status().as_u16());
    let opened = Opened::new(routed, &offered.head, next, None);
    let guard = enter(routed, opened, granted.is_some());
    let mut fields = passed_on(fields);
    fields.replace(&form::opening_fields(routed, kind));
    match Arrival::Offered(offered).accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => {
            let client = form::bytes(kind, Kind::Connect, Duplex { incoming, outgoing });
            if let Some(granted) = granted {
                let active = Active::default();
                let tunnel = NearTunnel::new(*granted, client, target, guard, active);
                return Carried::tunnel(tunnel);
            }
            let tunnel = ByteTunnel {
                client,
                target,
                guard,
                _active: Active::default(),
                learner: None,
            };
            Carried::tunnel(tunnel)
        }
        Ok(End::Packets(_)) => Carried::Over(no_message().reason()),
        Err(error) => Carried::Over(format!("{CLIENT_CLOSED}: {error}")),
    }
}

fn no_message() -> Refusal {
    let details = "the plug of this route carries requests and tunnels of bytes alone";
    Refusal::new(ProxyError::ProxyInternalError, details)
}
