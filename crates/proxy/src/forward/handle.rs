//! Answers that a handler gives here, and the exchanges that it opens.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hermes_http::{Cause, RequestHead, Responder};
use hermes_http::{
    HeldClient, Incoming, Kind, Offered, Outgoing, Replying, Reset, ResponseHead, StreamError, pipe,
};
use hermes_observe::{Begin, CLIENT_CLOSED, Exchange};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::{Method, StatusCode};
use tokio::sync::oneshot;

use super::progress::AnswerProgress;
use super::pump::{Direction, pump};
use super::{Failed, Side, Unanswered, forward, message};
use crate::arrival::Arrival;
use crate::decision_log::Witness;
use crate::entry::Entry;
use crate::filter::{self, KnownUser};
use crate::next::Handled;
use crate::permit::Permitting;
use crate::plug::{
    Handler, HandlerRequest, Opener, OpeningAnswer, Opens, RequestContent, Response, Waits,
};
use crate::refusal::Refusal;
use crate::routed::Routed;
use crate::target::{Forms, Target};
use crate::why::note;

/// Handlers that an exchange may pass, each of which opened the next: more than anyone needs, few enough to end a circle soon.
#[doc(alias = "bound")]
const HANDLERS: u8 = 4;

/// Has the handler of the route answer.
pub(super) async fn answer(
    routed: &Routed,
    arrival: Arrival,
    handled: &Handled,
) -> Result<String, Failed> {
    let offered = match arrival {
        Arrival::Offered(offered) if offered.kind() == Kind::Message => offered,
        unanswered => {
            let details = format!("the handler {} takes requests, no tunnels", handled.name);
            let refusal = Refusal::new(ProxyError::HttpUpgradeFailed, details);
            return Err(Failed {
                unanswered: Unanswered::Arrival(unanswered),
                refusal: refusal.status(StatusCode::NOT_IMPLEMENTED),
            });
        }
    };

    give(routed, *offered, handled, None).await
}

/// Gives a message to a handler; `onward` is the upstream that it was on its way to.
pub(super) async fn give(
    routed: &Routed,
    offered: Offered,
    handled: &Handled,
    onward: Option<Arc<str>>,
) -> Result<String, Failed> {
    let (head, content, responder) = offered.message();
    let exchange = &routed.exchange;
    // What comes from the next hop is not this node's own.
    let is_own = onward.is_none();
    let returning = |head| {
        if is_own {
            head
        } else {
            message::returning(routed, head)
        }
    };
    let content = RequestContent::new(content, exchange.clone());
    let asked = ask(routed, head, content, onward);
    respond(
        exchange,
        &*handled.handler,
        &handled.name,
        (asked, responder),
        &returning,
    )
    .await
}

/// What a handler is asked for an exchange.
pub(super) fn ask(
    routed: &Routed,
    head: RequestHead,
    content: RequestContent,
    onward: Option<Arc<str>>,
) -> HandlerRequest {
    HandlerRequest {
        head,
        content,
        target: routed.target.clone(),
        user: routed.user.clone(),
        source: routed.source.clone(),
        listener: routed.listener.name.clone(),
        onward,
        opener: Opener::new(Arc::new(Behalf {
            routed: routed.clone(),
        })),
        waits: Waits::new(routed.exchange.clone(), &routed.snapshot.node),
    }
}

/// What becomes of the head of a handler's response.
pub(crate) type Returning<'a> = &'a (dyn Fn(ResponseHead) -> ResponseHead + Sync);

/// Asks a handler, and passes its answer to the client; says how that ended.
pub(crate) async fn respond(
    exchange: &Exchange,
    handler: &dyn Handler,
    name: &str,
    (asked, mut responder): (HandlerRequest, Responder),
    returning: Returning<'_>,
) -> Result<String, Failed> {
    let is_head = asked.head.method == Method::HEAD;
    let progress = AnswerProgress::of(&asked);
    let response = progress.until(handler.handle(asked), &mut responder);
    let (head, mut content) = match response.await {
        Ok(Response::Whole(head, content)) => {
            let head = returning(head);
            exchange.status(head.status.as_u16());
            return Ok(match responder.answer(head, content).await {
                Ok(()) => format!("responded: {name}"),
                Err(error) => format!("{CLIENT_CLOSED}: {error}"),
            });
        }
        Ok(Response::Stream(head, content)) => (returning(head), content),
        Err(refusal) => {
            return Err(Failed {
                unanswered: Unanswered::Responder(responder),
                refusal,
            });
        }
    };

    exchange.status(head.status.as_u16());
    // RFC 9110, 6.4.1: these have no content, whatever the handler gave.
    let has_none =
        is_head || head.status == StatusCode::NO_CONTENT || head.status == StatusCode::NOT_MODIFIED;
    let length = if has_none { Some(0) } else { content.length() };
    let mut outgoing = match responder.respond(head, length).await {
        Ok(outgoing) => outgoing,
        Err(error) => return Ok(format!("{CLIENT_CLOSED}: {error}")),
    };

    if has_none {
        content = Incoming::Empty;
    }
    let direction = Direction {
        from: Side::Target,
        moved: &exchange.counters().target_to_client,
        rules: None,
    };

    Ok(match pump(&mut content, &mut outgoing, direction).await {
        Ok(()) => format!("responded: {name}"),
        Err(broken) => {
            outgoing.reset(broken.reset);
            broken.reason()
        }
    })
}

/// In whose name a handler opens exchanges.
struct Behalf {
    routed: Routed,
}

impl Behalf {
    /// The request on its route.
    fn route(&self, head: &mut RequestHead) -> Result<Routed, Refusal> {
        let own = &self.routed;
        if head.kind() != Kind::Message {
            let details = "a handler opens requests, no tunnels";
            return Err(Refusal::new(ProxyError::ProxyInternalError, details));
        }

        // A request that a handler opens may be routed to a handler again: this ends a circle.
        if own.handlers >= HANDLERS {
            let details = "the request passed too many handlers";
            return Err(Refusal::new(ProxyError::ProxyLoopDetected, details)
                .status(StatusCode::LOOP_DETECTED));
        }

        let forms = Forms {
            udp_templates: &[],
            tcp_templates: &[],
            gateway: true,
        };

        let target = Target::of(head, &forms, false)?;
        let entry = Entry {
            snapshot: &own.snapshot,
            listener: &own.listener,
            source: &own.source,
        };
        let whose = KnownUser::new(&own.auth, &own.listener, own.user.as_deref());
        let mut witness = Witness::new(&own.worker, &own.exchange, &own.auth);
        let permitting = Permitting {
            target: &target,
            whose,
            witness: Some(&mut witness),
            at: None,
        };
        entry.permit(head, permitting)?;

        let listener = &own.listener.name;
        let facts = filter::facts(head, &target, whose, &own.source, listener);
        let route = own.snapshot.rules.route(&facts, &mut ());
        let route = route.cloned().map_err(|unmatched| {
            let details = || format!("no route for {target}, which a handler asks for");
            filter::unmatched(&unmatched, details)
        })?;

        let begun = own.worker.shared.telemetry.begin_at(
            Begin {
                kind: filter::kind(head),
                listener: listener.clone(),
                source: own.source.peer,
                protocol: "handler",
            },
            own.listener.telemetry.clone(),
        );

        begun.method(head.wire_method());
        begun.target(target.with_path(head.path()));
        if let Some(user) = &own.user {
            begun.user(user);
        }

        begun.route(&route.name);
        Ok(Routed {
            exchange: Arc::new(begun),
            target,
            route,
            asked: None,
            handlers: own.handlers + 1,
            ..own.clone()
        })
    }
}

impl Opens for Behalf {
    fn open(&self, mut head: RequestHead, content: Incoming) -> OpeningAnswer<'_> {
        Box::pin(async move {
            let routed = self.route(&mut head)?;
            let (told, answer) = oneshot::channel();
            let held = Box::new(Awaited { told });
            let offered = Offered::held(head, routed.source.clone(), content, held);
            self.spawn(Box::pin(carry(routed, Arrival::Offered(offered))));

            answer.await.map_err(|_| {
                Refusal::new(ProxyError::ProxyInternalError, "the exchange was cut off")
            })
        })
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let watch = self.routed.worker.shared.drain.clone();
        let forced = watch.clone();
        watch.spawn(async move {
            tokio::select! {
                () = task => {}
                () = forced.forced() => {}
            }
        });
    }
}

/// An exchange that a handler opened, to its end.
async fn carry(routed: Routed, arrival: Arrival) {
    let exchange = &routed.exchange;
    let Failed {
        unanswered,
        refusal,
    } = match forward(&routed, arrival).await {
        Ok(carried) => {
            let reason = carried.carry(&routed).await;
            note::end(&routed, &reason);
            return exchange.finish(&reason);
        }
        Err(failed) => failed,
    };

    exchange.status(refusal.code().as_u16());
    let reason = refusal.reason();
    let arrival = match &unanswered {
        Unanswered::Arrival(arrival) => Some(arrival),
        Unanswered::Responder(_) => None,
    };
    let id = note::routed_refusal(&routed, arrival, &refusal);
    let (head, content) = refusal.answer(&routed.snapshot.node, id, true);

    // A handler that does not wait any more has its reasons.
    let _ = match unanswered {
        Unanswered::Arrival(arrival) => arrival.refuse(head, content).await,
        Unanswered::Responder(responder) => responder.answer(head, content).await,
    };

    exchange.finish(&reason);
}

/// The handler's side of an exchange that it opened.
struct Awaited {
    told: oneshot::Sender<(ResponseHead, Incoming)>,
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Awaited")
    }
}

impl HeldClient for Awaited {
    fn accept(self: Box<Self>, _: Fields) -> Replying<(Incoming, Outgoing)> {
        let error = StreamError::new(Cause::Reset(Reset::Cancel));
        Box::pin(std::future::ready(Err(error)))
    }

    fn respond(self: Box<Self>, head: ResponseHead, length: Option<u64>) -> Replying<Outgoing> {
        let (outgoing, incoming) = pipe(length);
        let told = self.told.send((head, incoming));
        let answered = told.map(|()| outgoing);
        Box::pin(std::future::ready(
            answered.map_err(|_| StreamError::new(Cause::Reset(Reset::Cancel))),
        ))
    }

    fn gone(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.told.closed())
    }
}
