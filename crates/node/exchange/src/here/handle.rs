//! Answers that a handler gives here, and the exchanges that it opens.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hermes_admit::decide::{Candidate, Mode};
use hermes_admit::entry::Entry;
use hermes_admit::filter;
use hermes_admit::next::Handled;
use hermes_admit::note;
use hermes_admit::routed::Routed;
use hermes_http::{AnswerFields, Cause, RequestHead, Responder};
use hermes_http::{
    HeldClient, Incoming, Kind, Offered, Outgoing, Replying, Reset, ResponseHead, StreamError, pipe,
};
use hermes_observe::{Begin, CLIENT_CLOSED, Exchange};
use hermes_packet::Side;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::{Forms, Target};
use hermes_plug::{
    Handler, HandlerRequest, Opener, OpeningAnswer, Opens, RequestContent, Response, Waits,
};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::{Method, StatusCode};
use tokio::sync::oneshot;

use crate::failed::{Failed, Unanswered};
use crate::forward::forward;
use crate::message;
use crate::pump::{Direction, pump};
use crate::reach::progress::AnswerProgress;

/// Handlers that an exchange may pass, each of which opened the next: more than anyone needs, few enough to end a circle soon.
#[doc(alias = "bound")]
const HANDLERS: u8 = 4;

/// Has the handler of the route answer.
pub(crate) async fn answer(
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
pub(crate) async fn give(
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
pub(crate) fn ask(
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
    /// The request on its route: policy and filters decide on it as on one that arrives.
    async fn route(&self, head: &mut RequestHead) -> Result<OpenedExchange, Refusal> {
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
        let mut user = own.user.clone();
        let mut candidate = Candidate {
            entry: Entry {
                snapshot: &own.snapshot,
                listener: &own.listener,
                source: &own.source,
            },
            target: &target,
            auth: &own.auth,
            mode: Mode::Opened(own.logger()),
        };
        let (grant, route) = candidate.decide(head, &mut user).await?;

        let begun = own.worker.shared.telemetry.begin_at(
            Begin {
                kind: filter::kind(head),
                listener: own.listener.name.clone(),
                source: own.source.peer,
                protocol: "handler",
            },
            own.listener.telemetry.clone(),
        );

        begun.method(head.wire_method());
        begun.target(target.with_path(head.path()));
        if let Some(user) = &user {
            begun.user(user);
        }

        begun.route(&route.name);
        let routed = Routed {
            exchange: Arc::new(begun),
            target,
            user,
            route,
            asked: None,
            handlers: own.handlers + 1,
            ..own.clone()
        };
        Ok(OpenedExchange {
            routed,
            answer: grant.answer,
        })
    }
}

/// An exchange that a handler opened, on its route.
struct OpenedExchange {
    routed: Routed,
    /// What filters add to its answer.
    answer: Vec<AnswerFields>,
}

impl Opens for Behalf {
    fn open(&self, mut head: RequestHead, content: Incoming) -> OpeningAnswer<'_> {
        Box::pin(async move {
            let opened = self.route(&mut head).await?;
            let routed = opened.routed;
            let (told, answer) = oneshot::channel();
            let held = Box::new(Awaited { told });
            let offered = Offered::held(head, routed.source.clone(), content, held);
            let mut arrival = Arrival::Offered(offered);
            arrival.add_to_answer(opened.answer);
            self.spawn(Box::pin(carry(routed, arrival)));

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
    let for_ingress = refusal.for_ingress();
    let (head, content) = refusal.answer(&routed.snapshot.node, id, true);

    // A handler that does not wait any more has its reasons.
    let _ = match unanswered {
        Unanswered::Arrival(arrival) => arrival.refuse(for_ingress, head, content).await,
        Unanswered::Responder(responder) => responder.refuse(for_ingress, head, content).await,
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
