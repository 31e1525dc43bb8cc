//! An exchange that a client offers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_net::memory::ExchangeCharge;
use hermes_net::{Stream, StreamInfo};
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::EXPECT;
use tokio::time::timeout;

use crate::answer_fields::{AnswerFields, LateField};
use crate::error::StreamError;
use crate::head::{Kind, RequestHead, ResponseHead};
use crate::held::{HeldClient, RefusalReason};
use crate::pace::Pace;
use crate::responders::{Adding, Responder};
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
        self.adding(decided, None);
    }

    /// Its final response gets this field, which is made when it is sent.
    pub fn add_late(&mut self, late: LateField) {
        self.adding(Vec::new(), Some(late));
    }

    fn adding(&mut self, decided: Vec<AnswerFields>, late: Option<LateField>) {
        let ended = Responder::Connection(Outgoing::Ended);
        let responder = std::mem::replace(&mut self.responder, ended);
        self.responder = Responder::Adding(Box::new(Adding {
            decided,
            late,
            responder,
        }));
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

    /// As [`Self::refuse`], with the reason of the refusal.
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

    /// Takes bytes of its tunnel that may open the connection to the target: see [`HeldClient::first_bytes`].
    pub fn first_bytes(&mut self) -> Option<Bytes> {
        self.responder.first_bytes()
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
