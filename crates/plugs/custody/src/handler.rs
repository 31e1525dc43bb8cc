//! The side of the client: requests go into custody, and their responses come out of it.

use std::sync::Arc;

use hermes_http::{Kind, RequestHead, ResponseHead, pipe};
use hermes_net::StreamInfo;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Onward, Opener, RequestContent, Response};
use hermes_proto::binary_http::{BinaryPiece, encode_request};
use hermes_proto::custody::ErrCode;
use hermes_proto::proxy_status::ProxyError;
use http::{Method, StatusCode};

use crate::engine::NeighbourId;
use crate::message::{Cut, MessageReader, end, give, say_request_length, take_length};
use crate::node::{Custody, Exchange};
use crate::progress;
use crate::resume::{Begun, Rest};

impl Handler for Custody {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.ask(request))
    }
}

impl Custody {
    async fn ask(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let (name, neighbour) = self.next(request.onward)?;
        let HandlerRequest {
            head,
            content,
            opener,
            user,
            source,
            waits,
            ..
        } = request;
        let is_tunnel = head.kind() == Kind::Connect;
        // After a restart of this node, the exchange that was begun for the same request goes on.
        let (exchange, begun) = match self.take_up(neighbour, &source) {
            Some((exchange, begun)) => (exchange, Some(begun)),
            // The request was acted on, and its exchange onward is lost: another one could do it a second time.
            None if self.is_taken_up(&source) => {
                return Err(refused(&name, Cut::Broken(ErrCode::Unknown)));
            }
            None => (self.begin(&name, neighbour, &head, &source)?, None),
        };
        if is_tunnel {
            exchange.tunnel();
        }
        exchange.belongs_as(&source, user.as_deref());
        let is_head = head.method == Method::HEAD;
        let exchange = Arc::new(exchange);
        match begun {
            // The head is in custody since before the restart: only content is still to be given.
            Some(begun) => go_on(&exchange, content, begun.rest(), &opener),
            None => send(&exchange, head, content, &opener).await,
        }

        let mut reader = MessageReader::response(&exchange);
        let words = |known| Some(progress::of_request(&name, known));
        let piece = progress::saying(&exchange, &waits, words, reader.piece(&exchange)).await;
        let mut head = match piece {
            Ok(Some(BinaryPiece::Response(head))) => *head,
            Ok(_) => return Err(refusal(&name, "the neighbour's answer is not a response")),
            Err(cut) => return Err(refused(&name, cut)),
        };

        let length = length_of(&mut head, is_head).map_err(|cut| refused(&name, cut))?;
        let kept = reader.keep_head(&head.fields);
        kept.map_err(|cut| refused(&name, cut))?;
        let (outgoing, incoming) = pipe(length);
        opener.spawn(async move {
            let words = |known| progress::of_rest(&name, known);
            let passed = reader.pass_on(&exchange, outgoing);
            progress::saying(&exchange, &waits, words, passed).await;
        });
        Ok(Response::Stream(head, incoming))
    }

    /// The neighbour that a request was on its way to, and its name.
    fn next(&self, onward: Option<Onward>) -> Result<(Arc<str>, NeighbourId), Refusal> {
        let name = onward.map(|onward| onward.upstream().clone());
        let name = name.ok_or_else(|| {
            let details = "custody is asked for by `retry: { custody: true }` of a route with `to`";
            Refusal::new(ProxyError::ProxyConfigurationError, details)
        })?;
        let neighbour = self.neighbour(&name).ok_or_else(|| {
            let details = format!("`{name}` is not a neighbour of custody");
            Refusal::new(ProxyError::ProxyConfigurationError, details)
        })?;
        Ok((name, neighbour))
    }

    /// The exchange that was begun for this request before the node was started again, and its written beginning.
    fn take_up(&self, neighbour: NeighbourId, source: &StreamInfo) -> Option<(Exchange, Begun)> {
        let exchange = self.adopt(neighbour, source)?;
        // A head that broke off cannot be completed: the exchange ends, as it is dropped here.
        let begun = Begun::request(&exchange).ok()??;
        self.continues(source);
        Some((exchange, begun))
    }

    fn begin(
        &self,
        name: &str,
        neighbour: NeighbourId,
        head: &RequestHead,
        source: &StreamInfo,
    ) -> Result<Exchange, Refusal> {
        let repeatable = head.method.is_idempotent();
        self.open(neighbour, repeatable, source).ok_or_else(|| {
            let details = format!("too many exchanges are in custody for {name}");
            Refusal::new(ProxyError::ConnectionLimitReached, details)
        })
    }
}

/// Gives the request into custody; its content beside the response.
async fn send(
    exchange: &Arc<Exchange>,
    mut head: RequestHead,
    content: RequestContent,
    opener: &Opener,
) {
    let length = content.length();
    say_request_length(&mut head, length);
    // If the exchange is over, the response says so.
    let begun = exchange.write(encode_request(&head)).await;
    if begun.is_err() {
        return;
    }
    if length == Some(0) {
        let _ = end(exchange, None).await;
        return;
    }

    go_on(exchange, content, Rest::default(), opener);
}

/// Gives the content of a request into custody, or the rest of it.
fn go_on(exchange: &Arc<Exchange>, content: RequestContent, rest: Rest, opener: &Opener) {
    let exchange = exchange.clone();
    opener.spawn(async move {
        tokio::select! {
            // The response may end the exchange while the client still sends: the rest of its content is not wanted.
            _ = give(&exchange, content, rest) => {}
            () = exchange.over() => {}
        }
    });
}

/// The length of a response's content. Where there is none, the field says something else.
fn length_of(head: &mut ResponseHead, is_head: bool) -> Result<Option<u64>, Cut> {
    let none = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&head.status);
    if is_head || none {
        Ok(Some(0))
    } else {
        take_length(&mut head.fields)
    }
}

fn refused(name: &str, cut: Cut) -> Refusal {
    match cut {
        Cut::Broken(ErrCode::Expired) => {
            let details = "no response came while the exchange was kept and the neighbour known";
            Refusal::new(ProxyError::HttpResponseTimeout, details).next_hop(name)
        }
        Cut::Broken(ErrCode::Refused) => {
            let details = "the neighbour has no room for another exchange, or cannot read it";
            Refusal::new(ProxyError::DestinationUnavailable, details).next_hop(name)
        }
        Cut::Broken(ErrCode::Unknown) => refusal(
            name,
            "the neighbour has lost the exchange; whether it was acted on is unknown",
        ),
        Cut::Broken(ErrCode::Broken) => refusal(name, "the response broke off"),
        Cut::Malformed(error) => refusal(name, &error.to_string()),
        Cut::NoRoom => {
            let details = "heads of responses in custody have no room left";
            Refusal::new(ProxyError::ConnectionLimitReached, details).next_hop(name)
        }
    }
}

fn refusal(name: &str, details: &str) -> Refusal {
    Refusal::new(ProxyError::HttpResponseIncomplete, details).next_hop(name)
}
