//! Answers that a handler gives here.

use hermes_admit::next::Handled;
use hermes_admit::routed::Routed;
use hermes_http::{Incoming, Offered, RequestHead, Responder, ResponseHead};
use hermes_observe::{CLIENT_CLOSED, Exchange};
use hermes_packet::Side;
use hermes_plug::{Handler, HandlerRequest, Onward, RequestContent, Response, Waits};
use http::{Method, StatusCode};

use super::behalf;
use crate::failed::{Failed, Unanswered};
use crate::message;
use crate::pump::{Direction, pump};
use crate::reach::progress::AnswerProgress;

/// Gives a message to a handler; `onward` is the way that it was on when it was taken into custody.
pub(crate) async fn give(
    routed: &Routed,
    offered: Offered,
    handled: &Handled,
    onward: Option<Onward>,
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
    onward: Option<Onward>,
) -> HandlerRequest {
    HandlerRequest {
        head,
        content,
        target: routed.target.clone(),
        user: routed.user.clone(),
        source: routed.source.clone(),
        listener: routed.listener.name.clone(),
        onward,
        opener: behalf::opener(routed),
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
