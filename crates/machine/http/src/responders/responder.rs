//! The way to answer one exchange, of any version.

use bytes::Bytes;
use hermes_proto::fields::Fields;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, StatusCode};

use super::{ConnectionResponder, RequestStreamResponder, StreamResponder};
use crate::answer_fields::{AnswerFields, LateField};
use crate::error::{Reset, StreamError};
use crate::head::ResponseHead;
use crate::held::{HeldClient, RefusalReason};
use crate::outgoing::Outgoing;

/// The way to answer one exchange.
#[derive(Debug)]
pub enum Responder {
    /// HTTP/1.1.
    H1(ConnectionResponder),
    /// HTTP/2.
    H2(StreamResponder),
    /// HTTP/3.
    H3(RequestStreamResponder),
    /// A plain connection, which can only be accepted or reset.
    Connection(Outgoing),
    /// No connection of HTTP.
    Held(Box<dyn HeldClient>),
    /// Another way, on which the final response gets more fields.
    Adding(Box<Adding>),
}

impl Responder {
    /// The responder itself, below any additions.
    pub(crate) fn way(&self) -> &Self {
        match self {
            Self::Adding(adding) => adding.responder.way(),
            way => way,
        }
    }

    /// Sends an interim response; it is not sent to an HTTP/1.0 client (RFC 9110, 15.2), nor is a
    /// 101 ever, which would end HTTP/1.1 and does not exist in HTTP/2 (RFC 9113, 8.6).
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, head: &ResponseHead) -> Result<(), StreamError> {
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(());
        }

        let mut responder = self;
        loop {
            match responder {
                Self::Adding(adding) => responder = &mut adding.responder,
                Self::H1(responder) => return responder.interim(head).await,
                Self::H2(responder) => return responder.interim(head).await,
                Self::H3(responder) => return responder.interim(head).await,
                Self::Connection(_) | Self::Held(_) => return Ok(()),
            }
        }
    }

    /// Waits until the client is known to be gone, which may be never.
    pub async fn gone(&mut self) {
        let mut responder = self;
        loop {
            match responder {
                Self::Adding(adding) => responder = &mut adding.responder,
                Self::H2(responder) => return responder.gone().await,
                Self::H3(responder) => return responder.gone().await,
                Self::H1(responder) => return responder.gone().await,
                Self::Connection(_) => std::future::pending().await,
                Self::Held(held) => return held.gone().await,
            }
        }
    }

    /// Bytes of a held client that may open the connection to its target.
    pub(crate) fn first_bytes(&mut self) -> Option<Bytes> {
        match self {
            Self::Adding(adding) => adding.responder.first_bytes(),
            Self::Held(held) => held.first_bytes(),
            Self::H1(_) | Self::H2(_) | Self::H3(_) | Self::Connection(_) => None,
        }
    }

    /// Answers with `head` and `content`; without the content where the method or the status forbids it (RFC 9110, 6.4.1).
    ///
    /// # Errors
    /// The client is gone.
    pub async fn answer(self, head: ResponseHead, content: Bytes) -> Result<(), StreamError> {
        self.answer_as(None, head, content).await
    }

    /// As [`Self::answer`], with the reason of the refusal.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refuse(
        self,
        reason: RefusalReason,
        head: ResponseHead,
        content: Bytes,
    ) -> Result<(), StreamError> {
        self.answer_as(Some(reason), head, content).await
    }

    async fn answer_as(
        self,
        refusal: Option<RefusalReason>,
        mut head: ResponseHead,
        content: Bytes,
    ) -> Result<(), StreamError> {
        let forbidden = matches!(
            head.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
        if !forbidden {
            head.fields
                .insert(CONTENT_LENGTH, HeaderValue::from(content.len()));
        }

        let content = if self.is_head() || forbidden {
            Bytes::new()
        } else {
            content
        };

        let length = Some(content.len() as u64);
        let mut outgoing = match refusal {
            Some(reason) => self.respond_refusal(reason, head, length).await?,
            None => self.respond(head, length).await?,
        };
        if content.is_empty() {
            outgoing.finish(None).await
        } else {
            outgoing.data(content, true).await
        }
    }

    fn is_head(&self) -> bool {
        match self {
            Self::H1(responder) => responder.is_head(),
            Self::H2(responder) => responder.is_head(),
            Self::H3(responder) => responder.is_head(),
            Self::Connection(_) | Self::Held(_) => false,
            Self::Adding(adding) => adding.responder.is_head(),
        }
    }

    /// Begins a refusal for this reason; see [`Self::respond`].
    ///
    /// # Errors
    /// The client is gone.
    pub async fn respond_refusal(
        self,
        reason: RefusalReason,
        mut head: ResponseHead,
        length: Option<u64>,
    ) -> Result<Outgoing, StreamError> {
        let mut responder = self;
        while let Self::Adding(adding) = responder {
            adding.apply(&mut head.fields);
            responder = adding.responder;
        }
        match responder {
            Self::Held(held) => held.refuse(reason, head, length).await,
            responder => responder.respond(head, length).await,
        }
    }

    /// Begins the final response. `length` is the content's length if it is known; `Some(0)` for no
    /// content.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn respond(
        self,
        mut head: ResponseHead,
        length: Option<u64>,
    ) -> Result<Outgoing, StreamError> {
        let mut responder = self;
        loop {
            match responder {
                Self::Adding(adding) => {
                    adding.apply(&mut head.fields);
                    responder = adding.responder;
                }
                Self::H1(responder) => return responder.respond(head, length),
                // Boxed: exchanges over other versions should not carry the room for it.
                Self::H2(responder) => return Box::pin(responder.respond(head, length)).await,
                Self::H3(responder) => return Box::pin(responder.respond(head, length)).await,
                Self::Connection(mut outgoing) => {
                    // A tunnel has no place for a response: its end says that it failed.
                    outgoing.reset(Reset::Connect);
                    return Ok(Outgoing::Ended);
                }
                Self::Held(held) => return held.respond(head, length).await,
            }
        }
    }
}

/// The responder of an exchange, and the fields to add to its answer.
#[derive(Debug)]
pub struct Adding {
    /// By each decision, in their order.
    pub(crate) decided: Vec<AnswerFields>,
    /// A field that is known only when it is sent.
    pub(crate) late: Option<LateField>,
    pub(crate) responder: Responder,
}

impl Adding {
    pub(crate) fn apply(&self, fields: &mut Fields) {
        for decided in &self.decided {
            decided.apply(fields);
        }
        if let Some(late) = &self.late {
            let (name, value) = late.make();
            fields.append(name, value);
        }
    }
}
