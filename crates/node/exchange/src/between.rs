//! Handlers that stand between a request and its next hop, in the order of `through`.

use std::sync::Arc;

use hermes_admit::next::Next;
use hermes_admit::reevaluate::Opened;
use hermes_admit::routed::Routed;
use hermes_http::{Incoming, Kind, Offered, RequestHead};
use hermes_plug::arrival::Arrival;
use hermes_plug::{Onward, OpeningAnswer, RequestContent, Sends};

use crate::carried::Carried;
use crate::carrier;
use crate::failed::Failed;
use crate::here::awaited::{self, FirstAnswer};
use crate::here::feed::FeedOwner;
use crate::here::handle::{self, HandlerCall};
use crate::message;
use crate::reach::plug_request;

/// Has the handlers of a route answer a request, each of which may send it on to the next.
pub(crate) async fn answer(
    routed: &Routed,
    arrival: Arrival,
    next: &Arc<Next>,
) -> Result<Carried, Failed> {
    let way = Way {
        routed: routed.clone(),
        asked: Arc::new(arrival.head().clone()),
        next: next.clone(),
        passed: 0,
    };
    way.go(arrival).await
}

/// The way of a request from one of the handlers to its next hop.
#[derive(Clone)]
struct Way {
    /// The exchange on this part of the way.
    routed: Routed,
    /// The request before the first of them: rules that change are asked about it.
    asked: Arc<RequestHead>,
    next: Arc<Next>,
    /// Handlers that lie behind.
    passed: usize,
}

impl Way {
    /// To the next handler, or to the next hop.
    async fn go(self, arrival: Arrival) -> Result<Carried, Failed> {
        let Some(handled) = self.next.through.between.get(self.passed) else {
            return match self.next.carrier() {
                Some(_) => carrier::message(&self.routed, arrival, &self.next).await,
                None => message::forward(&self.routed, arrival, &self.next)
                    .await
                    .map(Carried::Over),
            };
        };
        let Arrival::Offered(offered) = arrival else {
            return Err(Failed::untouched(
                arrival,
                awaited::unfit("packets are not a message"),
            ));
        };

        let (head, content, responder) = offered.message();
        let routed = self.routed.clone();
        let handled = handled.clone();
        let way = Arc::new(self);
        let own_feeds = || {
            let opened = Opened::new(&way.routed, &way.asked, &way.next, None);
            Some(FeedOwner::enter(&way.routed, opened))
        };
        let onward = Onward::new(way.next.name().clone(), way.clone());
        let content = RequestContent::new(content, routed.exchange.clone());
        // The fields of the connection to the next hop were removed when its answer came.
        let call = HandlerCall {
            exchange: &routed.exchange,
            handler: &*handled.handler,
            name: &handled.name,
            request: plug_request::message(&routed, head, content, Some(onward)),
            responder,
        };
        handle::respond(call, &|head| head, &own_feeds).await
    }

    /// The exchange that a handler sends on. It is the same to policy and filters, which are not asked again.
    fn begin(&self, head: &RequestHead) -> Routed {
        let own = &self.routed;
        let exchange = awaited::record(own, head, &own.target, own.user.as_deref());
        exchange.route(&own.route.name);
        Routed {
            exchange: Arc::new(exchange),
            ..own.clone()
        }
    }
}

impl Sends for Way {
    fn send(&self, head: RequestHead, content: Incoming) -> OpeningAnswer<'_> {
        Box::pin(async move {
            if head.kind() != Kind::Message {
                return Err(awaited::unfit("it is a tunnel, not a request"));
            }

            let routed = self.begin(&head);
            let (held, answer) = awaited::waiting();
            let offered = Offered::held(head, routed.source.clone(), content, held);
            let onward = Self {
                routed: routed.clone(),
                asked: self.asked.clone(),
                next: self.next.clone(),
                passed: self.passed + 1,
            };
            // A task of its own: the plug may drop its answer, and the exchange must be recorded all the same.
            awaited::spawn(&self.routed, async move {
                let ended = onward.go(Arrival::Offered(offered)).await;
                awaited::end(&routed, ended).await;
            });
            match answer.await? {
                FirstAnswer::Response(head, content, _) => Ok((head, content)),
                FirstAnswer::Tunnel(_) => Err(awaited::unfit("a request became a tunnel")),
            }
        })
    }
}
