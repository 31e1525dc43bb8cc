//! A request that goes to its origin from here, beside a next proxy or in its place (`tunnel.direct` of a route).
//!
//! The race is one of connections alone: no byte of the request leaves before one is ready, and then it leaves on that one. It goes out once more from here
//! only where it may be repeated: its method is idempotent and its content was kept, and the proxy was lost or says that itself has failed.

use std::pin::pin;
use std::sync::atomic::AtomicBool;

use hermes_admit::next::{Direct, Next};
use hermes_admit::routed::Routed;
use hermes_http::{RequestHead, Responder, ResponseHead};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::proxy_status;
use hermes_proto::proxy_status::ProxyError;
use tokio::time::Instant;

use super::attempt::{Lost, Request, client_gone};
use crate::failed::{Failed, Unanswered};
use crate::message::answer::Answer;
use crate::reach::departure::depart;
use crate::reach::next_tunnel;
use crate::reach::race::{DIRECT, First, first};
use crate::reach::retry::{self, Replay, Tries};
use crate::reach::verdict;
use crate::reach::{self, Ready, Unreached, descriptor_share};

/// Descriptors of both ways.
const DESCRIPTORS: usize = 2;

/// An attempt whose connection is ready.
struct ReadyAttempt {
    ready: Ready,
    /// When it must have been answered.
    deadline: Option<Instant>,
}

/// The same request on two ways.
struct Ways<'a> {
    overlay: Request<'a>,
    own: Request<'a>,
    direct: &'a Direct,
}

/// Forwards a message, by the next proxy or from here.
pub(super) async fn forward(
    routed: &Routed,
    arrival: Arrival,
    next: &Next,
    direct: &Direct,
) -> Result<String, Failed> {
    let arrived = arrival.head();
    let departing = departures(routed, arrived, next, direct);
    let [(head, target), (own_head, own_target)] = match departing {
        Ok(departing) => departing,
        Err(refusal) => return Err(Failed::untouched(arrival, refusal)),
    };
    let tries = Tries::new(routed, next, arrived);
    let own_tries = Tries::new(routed, &direct.next, arrived);

    let Arrival::Offered(offered) = arrival else {
        let details = "a datagram is not a message";
        let refusal = Refusal::new(ProxyError::ProxyInternalError, details);
        return Err(Failed::untouched(arrival, refusal));
    };
    let (_, content, responder) = offered.message();
    let lost = AtomicBool::new(false);
    let account = || routed.account();
    let mut content = Replay::new(
        content,
        tries.keep_bytes(),
        &account,
        &lost,
        &routed.exchange.counters().client_to_target,
    );

    let ways = Ways {
        overlay: Request {
            routed,
            head: &head,
            target: &target,
            tries: &tries,
            lost: &lost,
        },
        own: Request {
            routed,
            head: &own_head,
            target: &own_target,
            tries: &own_tries,
            lost: &lost,
        },
        direct,
    };
    ways.carry(&mut content, responder).await
}

/// The request as it leaves on both ways, for which there are descriptors.
fn departures(
    routed: &Routed,
    arrived: &RequestHead,
    next: &Next,
    direct: &Direct,
) -> Result<[(RequestHead, Target); 2], Refusal> {
    descriptor_share::take_all(routed, DESCRIPTORS)?;
    Ok([
        depart(routed, arrived.clone(), next)?,
        depart(routed, arrived.clone(), &direct.next)?,
    ])
}

impl Ways<'_> {
    async fn carry(
        &self,
        content: &mut Replay<'_>,
        mut responder: Responder,
    ) -> Result<String, Failed> {
        let allows_direct = |outcome: &Result<ReadyAttempt, Refusal>| {
            outcome.as_ref().err().is_some_and(is_failure)
        };
        let racing = first(
            self.overlay.begin(),
            self.own.begin(),
            self.direct.after,
            allows_direct,
        );
        let won = tokio::select! {
            won = racing => won,
            () = responder.gone() => Err(client_gone()),
        };

        let begun = match won {
            Ok(First::Overlay(begun)) => begun,
            Ok(First::Direct(begun)) => {
                self.goes_from_here();
                return self.own.carry(begun, content, responder, false).await;
            }
            Err(refusal) => return Err(unanswered(responder, refusal)),
        };
        match self.overlay.carry(begun, content, responder, true).await {
            Ok(ended) => Ok(ended),
            Err(failed) => self.again(failed, content).await,
        }
    }

    /// Sends the request once more, from here, after its proxy has failed, if that does no harm.
    async fn again(&self, failed: Failed, content: &mut Replay<'_>) -> Result<String, Failed> {
        let may_repeat = self.overlay.head.method.is_idempotent() && self.own.is_replayable();
        if !may_repeat || !is_failure(&failed.refusal) {
            return Err(failed);
        }
        let Failed {
            unanswered: Unanswered::Responder(mut responder),
            refusal,
        } = failed
        else {
            return Err(failed);
        };

        let begun = tokio::select! {
            begun = self.own.begin() => begun,
            () = responder.gone() => Err(client_gone()),
        };
        let Ok(begun) = begun else {
            return Err(unanswered(responder, refusal));
        };
        self.goes_from_here();
        content.rewind();
        let carried = self.own.carry(begun, content, responder, false).await;
        // The reason is that of the proxy: it is the way that the route says.
        carried.map_err(|failed| Failed { refusal, ..failed })
    }

    fn goes_from_here(&self) {
        let telemetry = &self.overlay.routed.worker.shared.telemetry;
        telemetry.retry(self.overlay.tries.next.name(), DIRECT);
    }
}

impl Request<'_> {
    /// Gets a connection ready, as often as the policy says.
    async fn begin(&self) -> Result<ReadyAttempt, Refusal> {
        let tries = self.tries;
        loop {
            let deadline = tries.begin();
            let ready = pin!(reach::checkout(tries, self.head, self.target));
            match retry::within(deadline, ready).await {
                Some(Ok(ready)) => return Ok(ReadyAttempt { ready, deadline }),
                Some(Err(unreached)) => reach::pause(tries, unreached).await?,
                None => reach::pause(tries, Unreached::too_late(tries)).await?,
            }
        }
    }

    /// Sends the request on a connection that is ready, and again as the policy says. With `leaves_failures`, a proxy that says that itself has failed is
    /// not passed on.
    async fn carry(
        &self,
        begun: ReadyAttempt,
        content: &mut Replay<'_>,
        mut responder: Responder,
        leaves_failures: bool,
    ) -> Result<String, Failed> {
        let mut begun = Some(begun);
        loop {
            // In a block, as an answer borrows the content.
            let lost = {
                let asked = match begun.take() {
                    Some(begun) => self.on(begun, content, &mut responder).await,
                    None => self.ask(content, &mut responder).await,
                };
                match asked {
                    Ok(answer) => match self.failure(&answer.head).filter(|_| leaves_failures) {
                        Some(refusal) => {
                            drop(answer);
                            return Err(unanswered(responder, refusal));
                        }
                        None => return Ok(self.deliver(answer, responder).await),
                    },
                    Err(lost) => lost,
                }
            };
            if let Err(refusal) = self.pause(lost, content, &mut responder).await {
                return Err(unanswered(responder, refusal));
            }
        }
    }

    /// An attempt on a connection that is ready.
    async fn on<'c>(
        &'c self,
        begun: ReadyAttempt,
        content: &'c mut Replay<'_>,
        responder: &mut Responder,
    ) -> Result<Answer<'c>, Lost> {
        let ReadyAttempt { ready, deadline } = begun;
        let opening = pin!(reach::open_on(
            ready,
            self.tries,
            self.head,
            content.length()
        ));
        let reached = retry::within(deadline, opening).await;
        let reached = reached.unwrap_or_else(|| Err(Unreached::too_late(self.tries)));
        self.asked(reached, deadline, content, responder).await
    }

    /// The refusal of a proxy that says that itself, or one behind it, has failed (RFC 9209, section 2.3), where the request may go out once more. An error
    /// without that is the origin's own answer.
    fn failure(&self, head: &ResponseHead) -> Option<Refusal> {
        let is_error = verdict::is_server_error(head.status);
        let may_repeat = self.head.method.is_idempotent() && self.is_replayable();
        if !is_error || !may_repeat {
            return None;
        }
        proxy_status::first_error(&head.fields)?;
        Some(next_tunnel::refused(self.routed, self.tries.next, head))
    }
}

/// Whether a refusal leaves the way from here to be tried: one that says no is heeded.
fn is_failure(refusal: &Refusal) -> bool {
    refusal.for_ingress().status.is_server_error()
}

fn unanswered(responder: Responder, refusal: Refusal) -> Failed {
    Failed {
        unanswered: Unanswered::Responder(responder),
        refusal,
    }
}
