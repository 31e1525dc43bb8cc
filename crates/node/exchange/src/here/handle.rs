//! Answers that a handler gives here.

use std::sync::atomic::Ordering;

use hermes_admit::next::Handled;
use hermes_admit::reevaluate::Opened;
use hermes_admit::routed::Routed;
use hermes_http::{Incoming, Offered, Outgoing, Responder, ResponseHead, StreamError};
use hermes_observe::{CLIENT_CLOSED, Exchange};
use hermes_packet::Side;
use hermes_plug::feed::Feed;
use hermes_plug::{Handler, HandlerRequest, Onward, RequestContent, Response};
use http::{Method, StatusCode};

use super::feed::{FeedOwner, OpenFeed};
use crate::carried::Carried;
use crate::failed::{Failed, Unanswered};
use crate::message;
use crate::pump::{Direction, pump_answer};
use crate::reach::plug_request;
use crate::reach::progress::AnswerProgress;

/// Gives a message to a handler; `onward` is the way that it was on when the route's carrier took it.
pub(crate) async fn give(
    routed: &Routed,
    offered: Offered,
    handled: &Handled,
    onward: Option<Onward>,
) -> Result<Carried, Failed> {
    let (head, content, responder) = offered.message();
    let exchange = &routed.exchange;
    // An answer of the next hop is not this node's own.
    let is_own = onward.is_none();
    let returning = |head| {
        if is_own {
            head
        } else {
            message::returning(routed, head)
        }
    };
    let content = RequestContent::new(content, exchange.clone());
    let kept = is_own.then(|| head.clone());
    let own_feeds = || {
        let head = kept.as_ref()?;
        let opened = Opened::answered(routed, head, &handled.name);
        Some(FeedOwner::enter(routed, opened))
    };
    let call = HandlerCall {
        exchange,
        handler: &*handled.handler,
        name: &handled.name,
        request: plug_request::message(routed, head, content, onward),
        responder,
    };
    respond(call, &returning, &own_feeds).await
}

/// Changes the head of a handler's response on its way to the client.
pub(crate) type Returning<'a> = &'a (dyn Fn(ResponseHead) -> ResponseHead + Sync);

/// The owner of a feed that answers the request; none for a carrier, and where no route leads to the handler.
pub(crate) type OwnFeeds<'a> = &'a (dyn Fn() -> Option<FeedOwner> + Sync);

/// A request that a handler answers.
pub(crate) struct HandlerCall<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) handler: &'a dyn Handler,
    /// The name of the handler.
    pub(crate) name: &'a str,
    pub(crate) request: HandlerRequest,
    pub(crate) responder: Responder,
}

/// Asks a handler, and passes its answer to the client; says how that ended. A feed is still to be carried.
pub(crate) async fn respond(
    call: HandlerCall<'_>,
    returning: Returning<'_>,
    own_feeds: OwnFeeds<'_>,
) -> Result<Carried, Failed> {
    let HandlerCall {
        exchange,
        handler,
        name,
        request,
        mut responder,
    } = call;

    let is_head = request.head.method == Method::HEAD;
    let progress = AnswerProgress::of(&request);
    let response = progress.until(handler.handle(request), &mut responder);
    let (head, content) = match response.await {
        Ok(Response::Whole(head, content)) => {
            let head = returning(head);
            exchange.status(head.status.as_u16());
            let given = if is_head { 0 } else { content.len() as u64 };
            let answered = responder.answer(head, content).await;
            let failed = whole(exchange, given, answered);
            let reason = failed.unwrap_or_else(|| format!("responded: {name}"));
            return Ok(Carried::Over(reason));
        }
        Ok(Response::Stream(head, content)) => (returning(head), Content::Stream(content)),
        Ok(Response::Feed(head, feed)) => (returning(head), Content::Feed(feed)),
        Err(refusal) => {
            return Err(Failed {
                unanswered: Unanswered::Responder(responder),
                refusal,
            });
        }
    };

    let streamed = StreamedAnswer {
        exchange,
        name,
        is_head,
        head,
        content,
    };
    streamed.send(responder, own_feeds).await
}

/// An answer whose content is not whole.
struct StreamedAnswer<'a> {
    exchange: &'a Exchange,
    /// The name of the handler.
    name: &'a str,
    /// Whether the request was HEAD.
    is_head: bool,
    head: ResponseHead,
    content: Content,
}

impl StreamedAnswer<'_> {
    /// Sends it, but for the content of a feed.
    async fn send(self, responder: Responder, own_feeds: OwnFeeds<'_>) -> Result<Carried, Failed> {
        let Self {
            exchange,
            name,
            is_head,
            head,
            content,
        } = self;
        exchange.status(head.status.as_u16());
        // RFC 9110, 6.4.1: these have no content, whatever the handler gave.
        let has_none = is_head
            || head.status == StatusCode::NO_CONTENT
            || head.status == StatusCode::NOT_MODIFIED;
        let length = match &content {
            _ if has_none => Some(0),
            Content::Stream(content) => content.length(),
            Content::Feed(_) => None,
        };
        let mut outgoing = match responder.respond(head, length).await {
            Ok(outgoing) => outgoing,
            Err(error) => return Ok(Carried::Over(format!("{CLIENT_CLOSED}: {error}"))),
        };

        let content = match content {
            _ if has_none => Incoming::Empty,
            Content::Stream(content) => content,
            Content::Feed(feed) => {
                return Ok(match own_feeds() {
                    Some(owner) => Carried::tunnel(OpenFeed::new(owner, feed, outgoing, name)),
                    None => Carried::Over(
                        "proxy_internal_error: a feed on the way elsewhere".to_owned(),
                    ),
                });
            }
        };
        let sent = send(content, exchange, &mut outgoing).await;
        let reason = sent.map_or_else(|reason| reason, |()| format!("responded: {name}"));
        Ok(Carried::Over(reason))
    }
}

/// Counts the bytes of an answer that was given at once, as those of a stream are; the reason if its client was gone.
fn whole(exchange: &Exchange, given: u64, answered: Result<(), StreamError>) -> Option<String> {
    if let Err(error) = answered {
        return Some(format!("{CLIENT_CLOSED}: {error}"));
    }
    let moved = &exchange.counters().target_to_client;
    moved.fetch_add(given, Ordering::Relaxed);
    None
}

/// The content of a handler's answer.
enum Content {
    Stream(Incoming),
    Feed(Box<dyn Feed>),
}

/// Sends a content to its end; says why that failed.
async fn send(
    mut content: Incoming,
    exchange: &Exchange,
    outgoing: &mut Outgoing,
) -> Result<(), String> {
    let direction = Direction {
        from: Side::Target,
        moved: &exchange.counters().target_to_client,
        rules: None,
    };
    let pumped = pump_answer(&mut content, outgoing, direction).await;
    pumped.map_err(|broken| {
        outgoing.reset(broken.reset);
        broken.reason()
    })
}
