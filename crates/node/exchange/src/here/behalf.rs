//! Exchanges that a handler or a connector opens on behalf of another.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hermes_admit::decide::{Candidate, Mode};
use hermes_admit::entry::Entry;
use hermes_admit::filter;
use hermes_admit::note;
use hermes_admit::routed::Routed;
use hermes_http::{
    AnswerFields, Cause, HeldClient, Incoming, Kind, Offered, Outgoing, RefusalReason, Replying,
    RequestHead, Reset, ResponseHead, StreamError, pipe,
};
use hermes_observe::{Begin, Exchange};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::{Forms, Target};
use hermes_plug::{OpenedTunnel, Opener, OpeningAnswer, OpeningTunnel, Opens, TunnelRequest};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use tokio::sync::oneshot;

use crate::carried::Carried;
use crate::failed::{Failed, Unanswered};
use crate::forward::forward;

/// Handlers that an exchange may pass, each of which opened the next: more than anyone needs, few enough to end a circle soon.
#[doc(alias = "bound")]
const HANDLERS: u8 = 4;

/// In whose name a plug opens exchanges.
struct Behalf {
    routed: Routed,
}

/// Opens exchanges on behalf of this one.
pub(crate) fn opener(routed: &Routed) -> Opener {
    Opener::new(Arc::new(Behalf {
        routed: routed.clone(),
    }))
}

/// The request for a tunnel that a plug gets, with this head.
pub(crate) fn tunnel(routed: &Routed, head: RequestHead, target: &Target) -> TunnelRequest {
    TunnelRequest {
        head,
        target: target.clone(),
        user: routed.user.clone(),
        source: routed.source.clone(),
        listener: routed.listener.name.clone(),
        bounds: routed.datagram_bounds().bounds,
        opener: opener(routed),
    }
}

impl Behalf {
    /// The request on its route: policy and filters decide on it as on one that arrives.
    async fn route(&self, head: &mut RequestHead) -> Result<OpenedExchange, Refusal> {
        let own = &self.routed;
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

        let exchange = record(own, head, &target, user.as_deref());
        exchange.route(&route.name);
        let routed = Routed {
            exchange: Arc::new(exchange),
            target,
            user,
            route,
            asked: None,
            auth: Arc::new(own.auth.on_behalf()),
            handlers: own.handlers + 1,
            ..own.clone()
        };
        Ok(OpenedExchange {
            routed,
            answer: grant.answer,
        })
    }
}

/// The record of an exchange that a handler begins in the name of another.
pub(super) fn record(
    own: &Routed,
    head: &RequestHead,
    target: &Target,
    user: Option<&str>,
) -> Exchange {
    let exchange = own.worker.shared.telemetry.begin_at(
        Begin {
            kind: filter::kind(head),
            listener: own.listener.name.clone(),
            source: own.source.peer,
            protocol: "handler",
        },
        own.listener.telemetry.clone(),
    );
    exchange.method(head.wire_method());
    exchange.target(target.with_path(head.path()));
    if let Some(user) = user {
        exchange.user(user);
    }
    exchange
}

/// An exchange that a handler opened, on its route.
struct OpenedExchange {
    routed: Routed,
    /// Fields that filters add to its answer.
    answer: Vec<AnswerFields>,
}

impl Behalf {
    /// Sends a request on its route, and gives the first that is heard of it.
    async fn first_answer(
        &self,
        mut head: RequestHead,
        content: Incoming,
    ) -> Result<FirstAnswer, Refusal> {
        let opened = self.route(&mut head).await?;
        let routed = opened.routed;
        let (held, answer) = waiting();
        let offered = Offered::held(head, routed.source.clone(), content, held);
        let mut arrival = Arrival::Offered(offered);
        arrival.add_to_answer(opened.answer);
        spawn(&self.routed, async move {
            let forwarded = forward(&routed, arrival).await;
            end(&routed, forwarded).await;
        });
        answer.await
    }
}

impl Opens for Behalf {
    fn open(&self, head: RequestHead, content: Incoming) -> OpeningAnswer<'_> {
        Box::pin(async move {
            if head.kind() != Kind::Message {
                return Err(unfit("it is a tunnel, and no request"));
            }
            match self.first_answer(head, content).await? {
                FirstAnswer::Response(head, content, _) => Ok((head, content)),
                FirstAnswer::Tunnel(_) => Err(unfit("a request became a tunnel")),
            }
        })
    }

    fn tunnel(&self, head: RequestHead) -> OpeningTunnel<'_> {
        Box::pin(async move {
            if !matches!(
                head.kind(),
                Kind::Connect | Kind::ConnectTcp | Kind::ConnectUdp
            ) {
                return Err(unfit("it is no tunnel of bytes or datagrams"));
            }
            match self.first_answer(head, Incoming::Empty).await? {
                FirstAnswer::Tunnel(tunnel) => Ok(tunnel),
                FirstAnswer::Response(head, _, reason) => Err(refused(&head, reason)),
            }
        })
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        spawn(&self.routed, task);
    }
}

/// Runs a task beside an exchange until the node ends: a drain waits for it, and then drops it.
pub(super) fn spawn(routed: &Routed, task: impl Future<Output = ()> + Send + 'static) {
    let watch = routed.worker.shared.drain.clone();
    let forced = watch.clone();
    watch.spawn(async move {
        tokio::select! {
            () = task => {}
            () = forced.forced() => {}
        }
    });
}

/// A plug as the client of an exchange, and the first that it hears.
///
/// # Errors
/// Of the answer: the exchange was cut off, because the node ends.
pub(super) fn waiting() -> (
    Box<Awaited>,
    impl Future<Output = Result<FirstAnswer, Refusal>>,
) {
    let (told, answer) = oneshot::channel();
    let answer = async move {
        let cut_off = |_| Refusal::new(ProxyError::ProxyInternalError, "the exchange was cut off");
        answer.await.map_err(cut_off)
    };
    (Box::new(Awaited { told }), answer)
}

/// Carries an exchange whose client is a plug, and records its end; a refusal becomes the plug's answer.
pub(super) async fn end(routed: &Routed, forwarded: Result<Carried, Failed>) {
    let exchange = &routed.exchange;
    let Failed {
        unanswered,
        refusal,
    } = match forwarded {
        Ok(carried) => {
            let reason = carried.carry(routed).await;
            note::end(routed, &reason);
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
    let id = note::routed_refusal(routed, arrival, &refusal);
    let for_ingress = refusal.for_ingress();
    let (head, content) = refusal.answer(&routed.snapshot.node, id, true);

    // A handler that does not wait any more has its reasons.
    let _ = match unanswered {
        Unanswered::Arrival(arrival) => arrival.refuse(for_ingress, head, content).await,
        Unanswered::Responder(responder) => responder.refuse(for_ingress, head, content).await,
    };

    exchange.finish(&reason);
}

/// The first answer to an exchange that a plug opened.
pub(super) enum FirstAnswer {
    /// Its response, which may be a refusal for this reason.
    Response(ResponseHead, Incoming, Option<RefusalReason>),
    /// Its tunnel is open.
    Tunnel(OpenedTunnel),
}

/// The refusal of an exchange that a plug cannot open.
pub(super) fn unfit(details: &str) -> Refusal {
    Refusal::new(ProxyError::ProxyInternalError, details)
}

/// Why there is no tunnel.
fn refused(head: &ResponseHead, reason: Option<RefusalReason>) -> Refusal {
    let refusal = match reason {
        Some(reason) => Refusal::new(reason.error, reason.details),
        None => {
            let details = format!("the tunnel was answered with {}", head.status);
            Refusal::new(ProxyError::HttpUpgradeFailed, details)
        }
    };
    refusal.status(head.status)
}

/// The plug's side of an exchange that it opened.
pub(super) struct Awaited {
    told: oneshot::Sender<FirstAnswer>,
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Awaited")
    }
}

impl Awaited {
    /// Gives the plug its answer, and returns this side of it.
    fn tell<T: Send + 'static>(self, first: FirstAnswer, own: T) -> Replying<T> {
        let told = self.told.send(first).map(|()| own);
        let answered = told.map_err(|_| StreamError::new(Cause::Reset(Reset::Cancel)));
        Box::pin(std::future::ready(answered))
    }
}

impl HeldClient for Awaited {
    fn accept(self: Box<Self>, _: Fields) -> Replying<(Incoming, Outgoing)> {
        let (to_target, from_plug) = pipe(None);
        let (to_plug, from_target) = pipe(None);
        let tunnel = OpenedTunnel {
            incoming: from_target,
            outgoing: to_target,
        };
        self.tell(FirstAnswer::Tunnel(tunnel), (from_plug, to_plug))
    }

    fn respond(self: Box<Self>, head: ResponseHead, length: Option<u64>) -> Replying<Outgoing> {
        let (outgoing, incoming) = pipe(length);
        self.tell(FirstAnswer::Response(head, incoming, None), outgoing)
    }

    fn refuse(
        self: Box<Self>,
        reason: RefusalReason,
        head: ResponseHead,
        length: Option<u64>,
    ) -> Replying<Outgoing> {
        let (outgoing, incoming) = pipe(length);
        self.tell(
            FirstAnswer::Response(head, incoming, Some(reason)),
            outgoing,
        )
    }

    fn gone(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.told.closed())
    }
}
