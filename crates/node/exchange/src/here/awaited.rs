//! A plug as the client of an exchange.

use std::fmt;
use std::pin::Pin;

use hermes_admit::filter;
use hermes_admit::note;
use hermes_admit::routed::Routed;
use hermes_http::{
    Cause, HeldClient, Incoming, Outgoing, RefusalReason, Replying, RequestHead, Reset,
    ResponseHead, StreamError, pipe,
};
use hermes_observe::{Begin, Exchange};
use hermes_plug::OpenedTunnel;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use tokio::sync::oneshot;

use crate::carried::Carried;
use crate::failed::Failed;

/// The record of an exchange that a handler begins in the name of another.
pub(crate) fn record(
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
    let listener = &own.listener.name;
    own.snapshot
        .note_target(&exchange, head, target, &own.source, listener);
    if let Some(user) = user {
        exchange.user(user);
    }
    exchange
}

/// Runs a task beside an exchange until the node ends: a drain waits for it, and then drops it.
pub(crate) fn spawn(routed: &Routed, task: impl Future<Output = ()> + Send + 'static) {
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
pub(crate) fn waiting() -> (
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
pub(crate) async fn end(routed: &Routed, forwarded: Result<Carried, Failed>) {
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
    let id = note::routed_refusal(routed, unanswered.arrival(), &refusal);
    let for_ingress = refusal.for_ingress();
    let (head, content) = refusal.answer(&routed.snapshot.node.name, id, true);

    // A handler that does not wait any more has its reasons.
    let _ = unanswered.refuse(for_ingress, head, content).await;
    exchange.finish(&reason);
}

/// The first answer to an exchange that a plug opened.
pub(crate) enum FirstAnswer {
    /// Its response, which may be a refusal for this reason.
    Response(ResponseHead, Incoming, Option<RefusalReason>),
    /// Its tunnel is open.
    Tunnel(OpenedTunnel),
}

/// The refusal of an exchange that a plug cannot open.
pub(crate) fn unfit(details: &str) -> Refusal {
    Refusal::new(ProxyError::ProxyInternalError, details)
}

/// The plug's side of an exchange that it opened.
pub(crate) struct Awaited {
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
    fn accept(self: Box<Self>, fields: Fields) -> Replying<(Incoming, Outgoing)> {
        let (to_target, from_plug) = pipe(None);
        let (to_plug, from_target) = pipe(None);
        let tunnel = OpenedTunnel {
            fields,
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
