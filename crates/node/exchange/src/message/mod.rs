//! A request and its response: [`forward`] asks the next hop, as often as the policy says, and delivers the answer.
//!
//! - `attempt`: one attempt, to the head of its response; `hedge`: several beside each other. Both give an `Answer`.
//! - `deliver`: the answer on its way to the client; `interrupted`: its rest from another attempt, if it breaks off.
//! - `direct`: a request that may go to its origin from here, beside the next proxy or in its place.
//! - `answer_changes`: the fields that a route changes in answers. `broadcast`: one request to many servers.

mod answer;
pub(crate) mod answer_changes;
mod attempt;
pub(crate) mod broadcast;
mod deliver;
mod direct;
mod hedge;
mod interrupted;
mod no_response;
mod read_ahead;
mod returning;

use std::sync::atomic::AtomicBool;

use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_http::Responder;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::retry::Stop;

use crate::failed::{Failed, Unanswered};
use crate::message::answer::Answer;
use crate::message::attempt::{Lost, Request, client_gone};
use crate::pump::Source;
use crate::reach::departure::depart;
use crate::reach::retry::{Replay, Tries};
pub(crate) use returning::returning;

/// Forwards a message and its response, whose contents stream in both directions at once.
pub(crate) async fn forward(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
) -> Result<String, Failed> {
    if let Some(direct) = next.direct_of_requests() {
        return Box::pin(direct::forward(routed, arrival, next, direct)).await;
    }

    let tries = Tries::new(routed, next, arrival.head());
    let (head, target) = match depart(routed, arrival.head_mut().take(), next) {
        Ok(departing) => departing,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };

    let Arrival::Offered(offered) = arrival else {
        let refusal = Refusal::new(
            ProxyError::ProxyInternalError,
            "a datagram is not a message",
        );
        return Err(Failed::untouched(arrival, refusal));
    };

    let (_, content, mut responder) = offered.message();
    let lost = AtomicBool::new(false);
    let counters = routed.exchange.counters();

    let account = || routed.account();
    let mut content = Replay::new(
        content,
        tries.keep_bytes(),
        &account,
        &lost,
        &counters.client_to_target,
    );

    let request = Request {
        routed,
        head: &head,
        target: &target,
        tries: &tries,
        lost: &lost,
    };

    loop {
        let lost = match request.ask(&mut content, &mut responder).await {
            Ok(answer) => return Ok(request.deliver(answer, responder).await),
            Err(lost) => lost,
        };
        if let Err(refusal) = request.pause(lost, &mut content, &mut responder).await {
            return Err(Failed {
                unanswered: Unanswered::Responder(responder),
                refusal,
            });
        }
    }
}

impl Request<'_> {
    /// An attempt, or several beside each other.
    async fn ask<'c>(
        &'c self,
        content: &'c mut Replay<'_>,
        responder: &mut Responder,
    ) -> Result<Answer<'c>, Lost> {
        match self.tries.hedge(&self.head.method) {
            Some(hedge) if content.is_end() => Box::pin(self.race(hedge, responder)).await,
            _ => self.single(content, responder).await,
        }
    }

    /// Waits for the next attempt, with the content that was kept.
    ///
    /// # Errors
    /// There is none, or the client has gone.
    async fn pause(
        &self,
        lost: Lost,
        content: &mut Replay<'_>,
        responder: &mut Responder,
    ) -> Result<(), Refusal> {
        let Lost { refusal, again } = lost;
        let pause = match again {
            Ok(pause) => pause,
            Err(stop) => return Err(explained(self.tries, content, refusal, stop)),
        };

        // Kept content goes out once more; `again` has checked that it is whole.
        content.rewind();
        if let Some(kept) = self.tries.kept() {
            Box::pin(kept.failed(self.tries, self.head, &refusal, responder)).await;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = responder.gone() => Err(client_gone()),
        }
    }
}

/// The last refusal, with the reason why there is no further attempt.
fn explained(tries: &Tries<'_>, content: &Replay<'_>, refusal: Refusal, stop: Stop) -> Refusal {
    let refusal = tries.explain(refusal, stop);
    match content.overdrawn() {
        Some(overdrawn) if stop == Stop::NotKept => refusal.note(&overdrawn.to_string()),
        _ => refusal,
    }
}
