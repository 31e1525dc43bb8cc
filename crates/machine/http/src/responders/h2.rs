//! The way to answer an exchange over HTTP/2.

use std::future::poll_fn;

use hermes_proto::fields::Fields;
use hermes_proto::h2::SendError;
use hermes_proto::websocket::Key;
use http::StatusCode;

use crate::error::{Cause, StreamError};
use crate::h2::handle::StreamHandle;
use crate::h2::{StreamSender, convert};
use crate::head::ResponseHead;
use crate::pace::{Answered, Pace};
use crate::priority;
use crate::{MinRate, Outgoing};

/// The way to answer one exchange.
#[derive(Debug)]
pub struct StreamResponder {
    pub(crate) stream: StreamHandle,
    pub(crate) is_head: bool,
    /// The key that a WebSocket client waits to see answered, behind a proxy that passes it on.
    pub(crate) websocket: Option<Key>,
    /// How fast the client must read the response.
    pub(crate) min_rate: Option<MinRate>,
    /// Told when the response begins.
    pub(crate) answered: Answered,
}

impl StreamResponder {
    /// Waits while the client takes no heads: those of a connection would else wait for it without bound.
    pub(crate) async fn interim(&mut self, head: &ResponseHead) -> Result<(), StreamError> {
        self.stream.has_room_for_head().await?;
        self.send(head, false)
    }

    fn send(&self, head: &ResponseHead, end: bool) -> Result<(), StreamError> {
        if let Some(signal) = priority::signal(&head.fields) {
            let mut core = self.stream.joint.core();
            core.advise(self.stream.stream, |signals| signals.response = signal);
        }
        let sent = self
            .stream
            .tell(|machine, stream| machine.respond(stream, &convert::response_parts(head), end));
        sent.map_err(|error| match error {
            SendError::Gone => self.stream.gone(),
            SendError::Unsendable(why) => StreamError::new(Cause::Invalid(why.to_string())),
        })
    }

    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    pub(crate) async fn gone(&mut self) {
        let _ = poll_fn(|cx| self.stream.poll_broken(cx)).await;
    }

    pub(crate) async fn respond(
        self,
        head: ResponseHead,
        length: Option<u64>,
    ) -> Result<Outgoing, StreamError> {
        let end = length == Some(0);
        let mut pace = Pace::of_reader(self.min_rate);
        pace.bound(self.stream.has_room_for_head()).await??;
        self.send(&head, end)?;
        self.answered.set();
        let outgoing = if end {
            Outgoing::Ended
        } else {
            Outgoing::H2(StreamSender::new(self.stream))
        };

        Ok(outgoing.paced(pace))
    }

    pub(crate) fn accept(self, mut fields: Fields) -> Result<Outgoing, StreamError> {
        crate::websocket::answer(self.websocket.as_ref(), &mut fields);
        let head = ResponseHead {
            fields,
            ..ResponseHead::new(StatusCode::OK)
        };
        self.send(&head, false)?;
        Ok(Outgoing::H2(StreamSender::new(self.stream)))
    }
}
