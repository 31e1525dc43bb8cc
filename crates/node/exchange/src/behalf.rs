//! Exchanges that a handler or a connector opens on behalf of another.

use std::pin::Pin;
use std::sync::Arc;

use hermes_admit::decide::{Candidate, Mode};
use hermes_admit::entry::Entry;
use hermes_admit::routed::{Delegation, Routed};
use hermes_http::{
    AnswerFields, Incoming, Kind, Offered, RefusalReason, RequestHead, ResponseHead,
};
use hermes_net::clock;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::{Forms, Target};
use hermes_plug::{Opener, OpeningAnswer, OpeningTunnel, Opens};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

use crate::forward::forward;
use crate::here::awaited::{FirstAnswer, end, record, spawn, unfit, waiting};

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

impl Behalf {
    /// The request on its route: policy and filters decide on it as on one that arrives.
    async fn route(&self, head: &mut RequestHead) -> Result<OpenedExchange, Refusal> {
        let own = &self.routed;
        // A request that a handler opens may be routed to a handler again: this ends a circle.
        if own.delegation.handlers >= HANDLERS {
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
        let mut auth = own.auth.on_behalf();
        // Rules with hours and filters that allow for a time are asked again about its tunnels, as about those that arrive.
        auth.authorized = grant.lasts.map(|lasts| clock::now() + lasts);
        let routed = Routed {
            exchange: Arc::new(exchange),
            target,
            user,
            route,
            asked: None,
            auth: Arc::new(auth),
            delegation: Delegation {
                handlers: own.delegation.handlers + 1,
                ..own.delegation
            },
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
                return Err(unfit("it is a tunnel, not a request"));
            }
            match self.first_answer(head, content).await? {
                FirstAnswer::Response(head, content, _) => Ok((head, content)),
                FirstAnswer::Tunnel(_) => Err(unfit("a request became a tunnel")),
            }
        })
    }

    fn tunnel(&self, head: RequestHead) -> OpeningTunnel<'_> {
        Box::pin(async move {
            if head.kind() == Kind::Message {
                return Err(unfit("it is a request, not a tunnel"));
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
