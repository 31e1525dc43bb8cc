//! An exchange that a client offers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_net::memory::ExchangeCharge;
use hermes_net::{Stream, StreamInfo};
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::EXPECT;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, StatusCode};
use tokio::time::timeout;

use crate::answer_fields::{Adding, AnswerFields};
use crate::error::{Reset, StreamError};
use crate::head::{Kind, RequestHead, ResponseHead};
use crate::held::{HeldClient, RefusalReason};
use crate::pace::Pace;
use crate::responders::{ConnectionResponder, RequestStreamResponder, StreamResponder};
use crate::{Frame, Incoming, Outgoing, h1};

/// Content that nothing needs and that is taken in before its answer, in bytes.
#[doc(alias = "bound")]
const UNNEEDED: usize = 64 * 1024;

/// How long it is waited for.
const PATIENCE: Duration = Duration::from_millis(100);

/// An exchange that was offered and is not yet answered.
#[derive(Debug)]
pub struct Offered {
    /// The request.
    pub head: RequestHead,
    /// The connection that it came on.
    pub source: Arc<StreamInfo>,
    incoming: Incoming,
    responder: Responder,
    /// The charge of its head, if it came over HTTP.
    charge: Option<ExchangeCharge>,
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
            charge: None,
        })
    }

    pub(crate) fn charge(&mut self, charge: ExchangeCharge) {
        self.charge = Some(charge);
    }

    /// The charge of its head, to be held as long as the exchange lasts.
    pub fn take_charge(&mut self) -> Option<ExchangeCharge> {
        self.charge.take()
    }

    /// A plain connection that becomes a tunnel; `head` is the CONNECT for it.
    pub fn connection(head: RequestHead, stream: Stream) -> Box<Self> {
        let source = stream.info().clone();
        let (read, write) = stream.split();
        let incoming = Incoming::H1(h1::BodyReceiver::bytes(read));
        let responder = Responder::Connection(Outgoing::H1(h1::BodySender::bytes(write)));
        Self::new(head, source, incoming, responder)
    }

    /// An exchange that came over no connection of HTTP; `held` waits for its answer, and `content` is that of the request. Of a
    /// tunnel it is used if it is [stored](HeldClient::is_stored).
    pub fn held(
        head: RequestHead,
        source: Arc<StreamInfo>,
        content: Incoming,
        held: Box<dyn HeldClient>,
    ) -> Box<Self> {
        Self::new(head, source, content, Responder::Held(held))
    }

    /// The kind of the exchange.
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

    /// Its final response gets these fields, in this order, be it forwarded or made here. A plain connection has no response.
    pub fn add_to_answer(&mut self, decided: Vec<AnswerFields>) {
        let ended = Responder::Connection(Outgoing::Ended);
        let responder = std::mem::replace(&mut self.responder, ended);
        self.responder = Responder::Adding(Box::new(Adding { decided, responder }));
    }

    /// Reads and drops the unneeded content of a request, if it is short and comes soon: an answer
    /// that overtakes its request hides mistakes in it, and leaves an unusable connection of
    /// HTTP/1.1. A client that sent `Expect: 100-continue` is not asked for its content.
    pub async fn settle(&mut self) {
        if self.head.kind() != Kind::Message || self.head.fields.contains_key(EXPECT) {
            return;
        }

        let mut left = UNNEEDED;
        let taken_in = async {
            while let Some(Ok(Frame::Data(data))) = self.incoming.frame().await {
                left = left.saturating_sub(data.len());
                if left == 0 {
                    return;
                }
            }
        };

        // A later rest is not waited for.
        drop(timeout(PATIENCE, taken_in).await);
    }

    /// Answers with `head` and `content`, without looking at the rest of the request.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refuse(self, head: ResponseHead, content: Bytes) -> Result<(), StreamError> {
        // The unread rest of the content decides whether the connection can go on, and the answer
        // says so.
        drop(self.incoming);
        self.responder.answer(head, content).await
    }

    /// The same, as a refusal for this reason.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refuse_for(
        self,
        reason: RefusalReason,
        head: ResponseHead,
        content: Bytes,
    ) -> Result<(), StreamError> {
        drop(self.incoming);
        self.responder.refuse(reason, head, content).await
    }

    /// Sends an interim response.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn interim(&mut self, head: &ResponseHead) -> Result<(), StreamError> {
        self.responder.interim(head).await
    }

    /// The client's bytes before its tunnel is accepted, if they can be taken and [put
    /// back](Incoming::unread): on a plain connection and over HTTP/2.
    pub fn early(&mut self) -> Option<&mut Incoming> {
        let way = self.responder.way();
        if !matches!(way, Responder::H2(_) | Responder::Connection(_)) {
            return None;
        }
        // A tunnel may be as quiet as it likes.
        self.incoming.pace(Pace::default());
        Some(&mut self.incoming)
    }

    /// Whether its client is to hear nothing before it is known whether the target answers.
    pub fn is_held(&self) -> bool {
        matches!(self.responder.way(), Responder::Held(_))
    }

    /// Waits until the client is known to be gone, which may be never.
    pub async fn gone(&mut self) {
        self.responder.gone().await;
    }

    /// Whether its tunnel's bytes are there as those of a message are: they can pass on before the tunnel is accepted.
    pub fn is_stored(&self) -> bool {
        self.held_client().is_some_and(HeldClient::is_stored)
    }

    /// Whether it was acted on already: see [`HeldClient::is_taken_up`].
    pub fn is_taken_up(&self) -> bool {
        self.held_client().is_some_and(HeldClient::is_taken_up)
    }

    fn held_client(&self) -> Option<&dyn HeldClient> {
        match self.responder.way() {
            Responder::Held(held) => Some(&**held),
            Responder::H1(_) | Responder::H2(_) | Responder::H3(_) => None,
            Responder::Connection(_) | Responder::Adding(_) => None,
        }
    }

    /// Accepts a tunnel before it is open. From now on it is like a plain connection: it can be accepted once more, which sends
    /// nothing, or be reset.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn accept_early(self: Box<Self>, fields: Fields) -> Result<Box<Self>, StreamError> {
        let head = self.head.clone();
        let source = self.source.clone();
        let (incoming, outgoing) = self.accept(fields).await?;
        Ok(Self::new(
            head,
            source,
            incoming,
            Responder::Connection(outgoing),
        ))
    }

    /// Accepts a tunnel: 200, or 101 on HTTP/1.1 Upgrade. From now on the tunnel's bytes leave; if
    /// the request was a message, they are the content of its response.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn accept(mut self, mut fields: Fields) -> Result<(Incoming, Outgoing), StreamError> {
        let mut responder = self.responder;
        loop {
            match responder {
                Responder::Adding(adding) => {
                    adding.apply(&mut fields);
                    responder = adding.responder;
                }
                Responder::H1(responder) => return responder.accept(fields, self.incoming).await,
                Responder::H2(responder) => {
                    // A tunnel may be as quiet as it likes.
                    self.incoming.pace(Pace::default());
                    return Ok((self.incoming, responder.accept(fields)?));
                }
                Responder::H3(responder) => {
                    self.incoming.pace(Pace::default());
                    return Ok((self.incoming, responder.accept(fields).await?));
                }
                Responder::Connection(outgoing) => return Ok((self.incoming, outgoing)),
                Responder::Held(held) if held.is_stored() => {
                    let (_, outgoing) = held.accept(fields).await?;
                    return Ok((self.incoming, outgoing));
                }
                Responder::Held(held) => return held.accept(fields).await,
            }
        }
    }
}

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
    fn way(&self) -> &Self {
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

    /// Answers with `head` and `content`; without the content where the method or the status forbids it (RFC 9110, 6.4.1).
    ///
    /// # Errors
    /// The client is gone.
    pub async fn answer(self, head: ResponseHead, content: Bytes) -> Result<(), StreamError> {
        self.answer_as(None, head, content).await
    }

    /// The same, as a refusal for this reason.
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
                    outgoing.reset(Reset::Connect);
                    return Ok(Outgoing::Ended);
                }
                Self::Held(held) => return held.respond(head, length).await,
            }
        }
    }
}
