//! The way to answer an exchange over HTTP/3.

use hermes_proto::fields::Fields;
use hermes_proto::websocket::Key;
use http::{Method, StatusCode};

use crate::error::{Reset, StreamError};
use crate::h3::convert;
use crate::h3::outgoing::RequestStreamSender;
use crate::h3::sender::Sender;
use crate::head::{RequestHead, ResponseHead};
use crate::pace::{Answered, Pace};
use crate::{MinRate, Outgoing};

/// The way to answer one exchange.
#[derive(Debug)]
pub struct RequestStreamResponder {
    sender: Sender,
    is_head: bool,
    /// The key that a WebSocket client waits to see answered, behind a proxy that passes it on.
    websocket: Option<Key>,
    /// How fast the client must read the response.
    min_rate: Option<MinRate>,
    /// Told when the response begins.
    answered: Answered,
}

impl RequestStreamResponder {
    pub(crate) fn new(
        sender: Sender,
        head: &RequestHead,
        min_rate: Option<MinRate>,
        answered: Answered,
    ) -> Self {
        let websocket = crate::websocket::key_of(head);
        Self {
            sender,
            is_head: head.method == Method::HEAD,
            websocket,
            min_rate,
            answered,
        }
    }

    pub(crate) async fn interim(&mut self, head: &ResponseHead) -> Result<(), StreamError> {
        let section = convert::from_response(head, &self.sender.state)?;
        self.sender.section(&section).await
    }

    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    pub(crate) async fn gone(&mut self) {
        let state = self.sender.state.clone();
        tokio::select! {
            _ = self.sender.broken() => {}
            () = state.shared().deserted() => {}
        }
    }

    pub(crate) async fn respond(
        mut self,
        head: ResponseHead,
        length: Option<u64>,
    ) -> Result<Outgoing, StreamError> {
        let state = &self.sender.state;
        state
            .shared()
            .priorities
            .response(state, crate::priority::signal(&head.fields));
        let section = convert::from_response(&head, &self.sender.state)?;
        self.sender.section(&section).await?;
        self.answered.set();

        if length == Some(0) {
            self.sender.finish().await?;
            return Ok(Outgoing::Ended);
        }

        Ok(Outgoing::H3(RequestStreamSender::new(self.sender))
            .paced(Pace::of_reader(self.min_rate)))
    }

    pub(crate) async fn accept(mut self, mut fields: Fields) -> Result<Outgoing, StreamError> {
        crate::websocket::answer(self.websocket.as_ref(), &mut fields);
        let head = ResponseHead {
            fields,
            ..ResponseHead::new(StatusCode::OK)
        };
        let section = convert::from_response(&head, &self.sender.state)?;
        self.sender.section(&section).await?;
        Ok(Outgoing::H3(RequestStreamSender::new(self.sender)))
    }

    /// Resets the stream without an answer.
    pub fn reset(mut self, reset: Reset) {
        self.sender.reset(reset);
    }
}
