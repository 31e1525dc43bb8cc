//! The side of the target: what neighbours ask for becomes exchanges of this node.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use hermes_http::{
    Cause, HeldClient, Incoming, Kind, Offered, Outgoing, Replying, Reset, ResponseHead,
    StreamError, pipe,
};
use hermes_net::{PeerAddress, Stream, StreamInfo, Watch};
use hermes_proto::binary_http::{BinaryPiece, encode_response};
use hermes_proto::custody::ErrCode;
use hermes_proto::fields::Fields;
use hermes_proto::hop;
use hermes_proxy::plug::{Gate, Ingress, Serving};

use crate::message::{MessageReader, give, say_response_length, take_length};
use crate::node::{Custody, Exchange};

impl Ingress for Custody {
    fn connection(&self, stream: Stream, _: Gate) -> Serving<'_> {
        // It is for `udp` listeners.
        Box::pin(async move { stream.abort() })
    }

    fn takes_datagrams(&self) -> bool {
        true
    }

    fn datagrams(&self, socket: std::net::UdpSocket, gate: Gate, watch: Watch) -> Serving<'_> {
        Box::pin(async move {
            let local = socket.local_addr().ok();
            let tasks = watch.clone();
            let asked = |key, from| {
                let asked = NeighbourRequest {
                    exchange: Arc::new(self.answer(key)),
                    source: Arc::new(StreamInfo {
                        peer: PeerAddress::Ip(from),
                        local,
                        tls: None,
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
        let mut reader = MessageReader::request();
        let piece = tokio::select! {
            piece = reader.piece(&self.exchange) => piece,
            () = self.exchange.over() => return,
        };
        let Ok(Some(BinaryPiece::Request(mut head))) = piece else {
            return self.exchange.break_off(ErrCode::Refused);
        };
        if head.kind() != Kind::Message || hop::strip(&mut head.fields).is_err() {
            return self.exchange.break_off(ErrCode::Refused);
        }

        let length = take_length(&mut head.fields);
        let has_none = length.is_none() && head.method.is_safe();
        let content = if has_none {
            Incoming::Empty
        } else {
            let (outgoing, incoming) = pipe(length);
            let exchange = self.exchange.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = reader.pass_on(&exchange, outgoing) => {}
                    () = exchange.over() => {}
                }
            });
            incoming
        };

        let held = Box::new(NeighbourClient {
            exchange: self.exchange,
            tasks: self.tasks,
            answered: false,
        });
        let offered = Offered::held(*head, self.source, content, held);
        self.gate.hand_in(offered).await;
    }
}

/// A neighbour that waits for a response.
struct NeighbourClient {
    exchange: Arc<Exchange>,
    tasks: Watch,
    answered: bool,
}

impl fmt::Debug for NeighbourClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NeighbourClient")
    }
}

impl HeldClient for NeighbourClient {
    fn accept(self: Box<Self>, _: Fields) -> Replying<(Incoming, Outgoing)> {
        let error = StreamError::new(Cause::Reset(Reset::Cancel));
        Box::pin(std::future::ready(Err(error)))
    }

    fn respond(
        mut self: Box<Self>,
        mut head: ResponseHead,
        length: Option<u64>,
    ) -> Replying<Outgoing> {
        self.answered = true;
        Box::pin(async move {
            say_response_length(&mut head, length);
            let begun = self.exchange.write(encode_response(&head)).await;
            begun.map_err(|_| StreamError::new(Cause::Reset(Reset::Cancel)))?;

            let (outgoing, incoming) = pipe(length);
            let exchange = self.exchange.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    _ = give(&exchange, incoming) => {}
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

impl Drop for NeighbourClient {
    fn drop(&mut self) {
        if !self.answered {
            self.exchange.break_off(ErrCode::Broken);
        }
    }
}
