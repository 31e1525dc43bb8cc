//! The side of the target: requests of neighbours become exchanges of this node.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hermes_http::{
    Cause, HeldClient, Incoming, Kind, Offered, Outgoing, Replying, RequestHead, Reset,
    ResponseHead, StreamError, pipe,
};
use hermes_net::shared_socket::DatagramSocket;
use hermes_net::{IngressOrigin, PeerAddress, Stream, StreamInfo, Watch};
use hermes_plug::{Gate, Ingress, Serving};
use hermes_proto::binary_http::{BinaryPiece, encode_response};
use hermes_proto::custody::ErrCode;
use hermes_proto::fields::{Fields, names};
use hermes_proto::hop;
use http::StatusCode;

use crate::message::{Cut, MessageReader, give, keep_request, say_response_length, take_length};
use crate::node::{Custody, Exchange};
use crate::owner::HeldAccount;
use crate::resume::{Begun, Lost, Rest};

impl Ingress for Custody {
    fn connection(&self, stream: Stream, _: Gate) -> Serving<'_> {
        // It is for `udp` listeners.
        Box::pin(async move { stream.abort() })
    }

    fn takes_datagrams(&self) -> bool {
        true
    }

    fn datagrams(&self, socket: DatagramSocket, gate: Gate, watch: Watch) -> Serving<'_> {
        Box::pin(async move {
            let local = socket.socket.local_addr().ok();
            let tasks = watch.clone();
            let asked = |key, from| {
                let asked = NeighbourRequest {
                    exchange: Arc::new(self.answer(key)),
                    source: Arc::new(StreamInfo {
                        peer: PeerAddress::Ip(from),
                        local,
                        tls: None,
                        origin: Some(Arc::new(IngressOrigin::new(
                            self.name_of(key.neighbour),
                            key,
                        ))),
                    }),
                    gate: gate.clone(),
                    tasks: tasks.clone(),
                };
                tasks.spawn(asked.serve());
            };

            let driven = tokio::select! {
                driven = self.drive(socket, asked) => driven,
                () = self.quiet(&watch) => Ok(()),
            };
            if let Err(error) = driven {
                tracing::error!(%error, "custody is not served here");
            }
        })
    }
}

/// A request of a neighbour.
struct NeighbourRequest {
    exchange: Arc<Exchange>,
    source: Arc<StreamInfo>,
    gate: Gate,
    tasks: Watch,
}

impl NeighbourRequest {
    async fn serve(self) {
        let mut reader = MessageReader::request(&self.exchange);
        let piece = tokio::select! {
            piece = reader.piece(&self.exchange) => piece,
            () = self.exchange.over() => return,
        };
        let mut head = match piece {
            Ok(Some(BinaryPiece::Request(head))) => head,
            Ok(_) => return self.exchange.break_off(ErrCode::Refused),
            Err(cut) => return self.refuse(cut),
        };
        let is_tunnel = head.kind() == Kind::Connect;
        let is_known = is_tunnel || head.kind() == Kind::Message;
        if !is_known || hop::strip(&mut head.fields).is_err() {
            return self.exchange.break_off(ErrCode::Refused);
        }
        if is_tunnel {
            self.exchange.tunnel();
        }

        // The user that the neighbour names, for shares of memory alone: the rules decide whether to believe the name.
        let said = head.fields.get(names::USER);
        let said = said.and_then(|user| user.to_str().ok());
        self.exchange.belongs_to(said);
        let counted = match CountedHead::of(&self.exchange, &mut head) {
            Ok(counted) => counted,
            Err(cut) => return self.refuse(cut),
        };
        let length = counted.length;
        // A safe request that announces no length has no content: its target need not wait for the end of the message.
        let has_none = length.is_none() && head.method.is_safe();
        let content = if has_none {
            Incoming::Empty
        } else {
            let (outgoing, incoming) = pipe(length);
            let exchange = self.exchange.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = reader.pass_on(&exchange, outgoing) => exchange.done_reading(),
                    () = exchange.over() => {}
                }
            });
            incoming
        };

        let Ok(begun) = begun(&self.exchange) else {
            return self.exchange.break_off(ErrCode::Unknown);
        };
        let held = Box::new(NeighbourClient {
            exchange: self.exchange,
            tasks: self.tasks,
            begun,
            head: counted.held,
            answered: false,
        });
        let offered = Offered::held(*head, self.source, content, held);
        self.gate.hand_in(offered).await;
    }
}

/// The length and the account of a head.
struct CountedHead {
    /// Bytes of the content, as far as they are known.
    length: Option<u64>,
    /// The account of the head.
    held: HeldAccount,
}

impl CountedHead {
    /// Takes the length out of a head, and counts the rest.
    ///
    /// # Errors
    /// The length is malformed, or there is no room for the head.
    fn of(exchange: &Exchange, head: &mut RequestHead) -> Result<Self, Cut> {
        Ok(Self {
            length: take_length(&mut head.fields)?,
            held: keep_request(exchange, head)?,
        })
    }
}

impl NeighbourRequest {
    /// It cannot be served: its neighbour is told, and so is the log, unless the neighbour has broken it off itself.
    fn refuse(self, cut: Cut) {
        let reason = match cut {
            Cut::Broken(_) => None,
            Cut::Malformed(error) => Some(error.to_string()),
            Cut::NoRoom => Some(
                "heads of requests of this neighbour, or of this user of it, take all that they may have"
                    .to_owned(),
            ),
        };
        if let Some(reason) = reason {
            let neighbour = self.source.neighbour();
            let peer = self.source.peer.to_string();
            tracing::info!(neighbour, peer, reason, "a request in custody is refused");
        }
        self.exchange.break_off(ErrCode::Refused);
    }
}

/// The beginning of the response that was written before this node was started again.
fn begun(exchange: &Exchange) -> Result<Option<Begun>, Lost> {
    match exchange.is_resumed() {
        true => Begun::response(exchange),
        false => Ok(None),
    }
}

/// A neighbour that waits for a response.
struct NeighbourClient {
    exchange: Arc<Exchange>,
    tasks: Watch,
    begun: Option<Begun>,
    /// Counts the head of its request.
    head: HeldAccount,
    answered: bool,
}

impl fmt::Debug for NeighbourClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NeighbourClient")
    }
}

impl HeldClient for NeighbourClient {
    fn accept(self: Box<Self>, fields: Fields) -> Replying<(Incoming, Outgoing)> {
        let head = ResponseHead {
            fields,
            ..ResponseHead::new(StatusCode::OK)
        };
        Box::pin(async move { Ok((Incoming::Empty, self.respond(head, None).await?)) })
    }

    fn is_stored(&self) -> bool {
        true
    }

    fn is_taken_up(&self) -> bool {
        self.exchange.is_taken_up()
    }

    fn respond(
        mut self: Box<Self>,
        mut head: ResponseHead,
        length: Option<u64>,
    ) -> Replying<Outgoing> {
        self.answered = true;
        Box::pin(async move {
            say_response_length(&mut head, length);
            let rest = self.begin(&head).await?;
            let (outgoing, incoming) = pipe(length);
            let exchange = self.exchange.clone();
            let head = std::mem::take(&mut self.head);
            self.tasks.spawn(async move {
                let _counted = head;
                tokio::select! {
                    _ = give(&exchange, incoming, rest) => {}
                    () = exchange.over() => {}
                }
            });
            Ok(outgoing)
        })
    }

    fn gone(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.exchange.over())
    }
}

impl NeighbourClient {
    /// Gives a response's head, unless it was given before. Returns the part of its content that is still to be given.
    ///
    /// # Errors
    /// The exchange is over, or another response was begun.
    async fn begin(&mut self, head: &ResponseHead) -> Result<Rest, StreamError> {
        let cancelled = StreamError::new(Cause::Reset(Reset::Cancel));
        if let Some(begun) = self.begun.take() {
            let rest = begun.rest_of(head, self.exchange.is_continued());
            return rest.map_err(|_| {
                tracing::warn!("a response in custody is not the one that was begun before the node was started again");
                self.exchange.break_off(ErrCode::Broken);
                cancelled
            });
        }

        let written = self.exchange.write(encode_response(head)).await;
        written.map(|()| Rest::default()).map_err(|_| cancelled)
    }
}

impl Drop for NeighbourClient {
    fn drop(&mut self) {
        // Dropped without an answer, the neighbour would wait until the exchange expires.
        if !self.answered {
            self.exchange.break_off(ErrCode::Broken);
        }
    }
}
