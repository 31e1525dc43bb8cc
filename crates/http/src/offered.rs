//! An exchange that a client offers.

use std::sync::Arc;

use bytes::Bytes;
use hermes_net::{Stream, StreamInfo};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::error::{Reset, StreamError};
use crate::head::{Kind, RequestHead, ResponseHead};
use crate::held::HeldClient;
use crate::pace::Pace;
use crate::{Incoming, Outgoing, h1, h2, h3};

/// An exchange that was offered and is not yet answered.
#[derive(Debug)]
pub struct Offered {
    /// The request.
    pub head: RequestHead,
    /// The connection that it came on.
    pub source: Arc<StreamInfo>,
    incoming: Incoming,
    responder: Responder,
}

impl Offered {
    /// Boxed, because it goes through many hands.
    pub(crate) fn new(
        head: RequestHead,
        source: Arc<StreamInfo>,
        incoming: Incoming,
        responder: Responder,
    ) -> Box<Self> {
        Box::new(Self {
            head,
            source,
            incoming,
            responder,
        })
    }

    /// A plain connection whose bytes are to become a tunnel; `head` is the CONNECT that says so.
    pub fn connection(head: RequestHead, stream: Stream) -> Box<Self> {
        let source = stream.info().clone();
        let (read, write) = stream.split();
        let incoming = Incoming::H1(h1::Incoming::bytes(read));
        let responder = Responder::Connection(Outgoing::H1(h1::Outgoing::bytes(write)));
        Self::new(head, source, incoming, responder)
    }

    /// An exchange that came over no connection of HTTP; `held` waits for its answer, and `content` is that of the request. Of a
    /// tunnel nothing is read before it is accepted.
    pub fn held(
        head: RequestHead,
        source: Arc<StreamInfo>,
        content: Incoming,
        held: Box<dyn HeldClient>,
    ) -> Box<Self> {
        Self::new(head, source, content, Responder::Held(held))
    }

    /// What the exchange carries.
    pub fn kind(&self) -> Kind {
        self.head.kind()
    }

    /// Whether the request has, or may have, content.
    pub fn has_content(&self) -> bool {
        !self.incoming.is_end()
    }

    /// Takes a message apart: its head, its content, and the way to answer it.
    pub fn message(mut self) -> (RequestHead, Incoming, Responder) {
        // Its connection can be watched then.
        if let Incoming::H1(incoming) = &mut self.incoming {
            incoming.part();
        }
        (self.head, self.incoming, self.responder)
    }

    /// Answers with `head` and `content`, without looking at the rest of the request.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refuse(self, head: ResponseHead, content: Bytes) -> Result<(), StreamError> {
        // What of the content was not read decides whether the connection can go on, and the answer says so.
        drop(self.incoming);
        self.responder.answer(head, content).await
    }

    /// Sends an interim response.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, head: &ResponseHead) -> Result<(), StreamError> {
        self.responder.interim(head).await
    }

    /// What the client sends before its tunnel is accepted, where that can be taken and [put back](Incoming::unread): on a plain
    /// connection and over HTTP/2.
    pub fn early(&mut self) -> Option<&mut Incoming> {
        if !matches!(self.responder, Responder::H2(_) | Responder::Connection(_)) {
            return None;
        }
        // A tunnel may be as quiet as it likes.
        self.incoming.pace(Pace::default());
        Some(&mut self.incoming)
    }

    /// Accepts a tunnel: 200, or 101 on HTTP/1.1 Upgrade. What leaves now are the tunnel's bytes; where the request was a
    /// message, they are its response's content.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn accept(mut self, fields: HeaderMap) -> Result<(Incoming, Outgoing), StreamError> {
        match self.responder {
            Responder::H1(responder) => responder.accept(fields, self.incoming).await,
            Responder::H2(responder) => {
                // A tunnel may be as quiet as it likes.
                self.incoming.pace(Pace::default());
                Ok((self.incoming, responder.accept(fields)?))
            }
            Responder::H3(responder) => {
                self.incoming.pace(Pace::default());
                Ok((self.incoming, responder.accept(fields).await?))
            }
            Responder::Connection(outgoing) => Ok((self.incoming, outgoing)),
            Responder::Held(held) => held.accept(fields).await,
        }
    }
}

/// The way to answer one exchange.
#[derive(Debug)]
pub enum Responder {
    /// HTTP/1.1.
    H1(h1::server::Responder),
    /// HTTP/2.
    H2(h2::server::Responder),
    /// HTTP/3.
    H3(h3::Responder),
    /// A plain connection, which can only be accepted or reset.
    Connection(Outgoing),
    /// No connection of HTTP.
    Held(Box<dyn HeldClient>),
}

impl Responder {
    /// Sends an interim response; an HTTP/1.0 client gets none (RFC 9110, 15.2), and no one a 101, which would end HTTP/1.1
    /// and does not exist in HTTP/2 (RFC 9113, 8.6).
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, head: &ResponseHead) -> Result<(), StreamError> {
        match self {
            _ if head.status == StatusCode::SWITCHING_PROTOCOLS => Ok(()),
            Self::H1(responder) => responder.interim(head).await,
            Self::H2(responder) => responder.interim(head).await,
            Self::H3(responder) => responder.interim(head).await,
            Self::Connection(_) | Self::Held(_) => Ok(()),
        }
    }

    /// Waits until the client is known to be gone, which may be never.
    pub async fn gone(&mut self) {
        match self {
            Self::H2(responder) => responder.gone().await,
            Self::H3(responder) => responder.gone().await,
            Self::H1(responder) => responder.gone().await,
            Self::Connection(_) => std::future::pending().await,
            Self::Held(held) => held.gone().await,
        }
    }

    /// Answers with `head` and `content`; without the content where the method or the status forbids it (RFC 9110, 6.4.1).
    ///
    /// # Errors
    /// The client is gone.
    pub async fn answer(self, mut head: ResponseHead, content: Bytes) -> Result<(), StreamError> {
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
        let mut outgoing = self.respond(head, Some(content.len() as u64)).await?;
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
        }
    }

    /// Begins the final response. `length` is the content's length where it is known; `Some(0)` for none.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn respond(
        self,
        head: ResponseHead,
        length: Option<u64>,
    ) -> Result<Outgoing, StreamError> {
        match self {
            Self::H1(responder) => responder.respond(head, length),
            Self::H2(responder) => responder.respond(head, length).await,
            Self::H3(responder) => responder.respond(head, length).await,
            Self::Connection(mut outgoing) => {
                outgoing.reset(Reset::Connect);
                Ok(Outgoing::Ended)
            }
            Self::Held(held) => held.respond(head, length).await,
        }
    }
}
