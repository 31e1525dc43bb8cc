//! An exchange that has arrived, of whatever kind.

use std::sync::Arc;

use bytes::Bytes;
use hermes_http::{
    AnswerFields, Incoming, Kind, LateField, Offered, Outgoing, RefusalReason, RequestHead,
    ResponseHead, StreamError,
};
use hermes_net::StreamInfo;
use hermes_packet::{PacketEnd, Session};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;

use crate::refusal::Refusal;

/// An exchange that is not yet answered: offered over HTTP or by a TCP connection, or of packets that came to an end of this node.
pub enum Arrival {
    /// Over HTTP, or a TCP connection turned into CONNECT. Boxed, because it goes through many hands.
    Offered(Box<Offered>),
    /// Packets: of a UDP client, of a device, or of an end that an ingress brings.
    Packets(Box<PacketArrival>),
}

/// A tunnel of packets whose client side is an end of this node, which learns the answer: an open tunnel [reads](PacketEnd::reader) it, and
/// [`PacketEnd::accept`] or [`PacketEnd::refuse`] is called before.
pub struct PacketArrival {
    /// The CONNECT-UDP or CONNECT-IP that the packets mean.
    pub head: RequestHead,
    /// Where they come from.
    pub source: Arc<StreamInfo>,
    /// Where they are read, and where answers are written. It says also in which [format](PacketEnd::format) they are.
    pub end: PacketEnd,
}

/// One side of an open tunnel.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are the large one, and each is moved once"
)]
pub enum End {
    /// Bytes, or capsules, in a pair of streams.
    Stream(Incoming, Outgoing),
    /// Packets.
    Packets(PacketEnd),
}

impl From<Box<Offered>> for Arrival {
    fn from(offered: Box<Offered>) -> Self {
        Self::Offered(offered)
    }
}

impl From<PacketArrival> for Arrival {
    fn from(packets: PacketArrival) -> Self {
        Self::Packets(Box::new(packets))
    }
}

impl Arrival {
    /// The request.
    pub fn head(&self) -> &RequestHead {
        match self {
            Self::Offered(offered) => &offered.head,
            Self::Packets(packets) => &packets.head,
        }
    }

    /// The request, to be changed on the way through the pipeline.
    pub fn head_mut(&mut self) -> &mut RequestHead {
        match self {
            Self::Offered(offered) => &mut offered.head,
            Self::Packets(packets) => &mut packets.head,
        }
    }

    /// Its final response gets these fields, where it has one.
    pub fn add_to_answer(&mut self, decided: Vec<AnswerFields>) {
        match self {
            Self::Offered(offered) if !decided.is_empty() => offered.add_to_answer(decided),
            Self::Offered(_) | Self::Packets(_) => {}
        }
    }

    /// Its final response gets this field, where it has one.
    pub fn add_late(&mut self, late: LateField) {
        match self {
            Self::Offered(offered) => offered.add_late(late),
            Self::Packets(_) => {}
        }
    }

    /// The UDP client that it is the tunnel of.
    pub fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Packets(packets) => packets.end.session(),
            Self::Offered(_) => None,
        }
    }

    /// Where it came from.
    pub fn source(&self) -> &Arc<StreamInfo> {
        match self {
            Self::Offered(offered) => &offered.source,
            Self::Packets(packets) => &packets.source,
        }
    }

    /// Its payload.
    pub fn kind(&self) -> Kind {
        self.head().kind()
    }

    /// Bytes of the client before its tunnel is open, where they can be taken; see [`Offered::early`].
    pub fn early(&mut self) -> Option<&mut Incoming> {
        match self {
            Self::Offered(offered) => offered.early(),
            Self::Packets(_) => None,
        }
    }

    /// Whether its client was handed in by an ingress, and waits for the target; see [`Offered::held`].
    pub fn is_held(&self) -> bool {
        match self {
            Self::Offered(offered) => offered.is_held(),
            Self::Packets(_) => false,
        }
    }

    /// Takes bytes of its tunnel that may open the connection to the target: see [`HeldClient::first_bytes`](hermes_http::HeldClient::first_bytes).
    pub fn first_bytes(&mut self) -> Option<Bytes> {
        match self {
            Self::Offered(offered) => offered.first_bytes(),
            Self::Packets(_) => None,
        }
    }

    /// Waits until the client is known to be gone, which may be never. A session of datagrams is when others need its room.
    pub async fn gone(&mut self) {
        match self {
            Self::Offered(offered) => offered.gone().await,
            Self::Packets(packets) => match packets.end.session() {
                Some(session) => session.evicted().await,
                None => std::future::pending().await,
            },
        }
    }

    /// Waits for `wanted`, as long as the client is there.
    ///
    /// # Errors
    /// `wanted` was refused, or the client went before that.
    pub async fn unless_gone<T>(
        &mut self,
        wanted: impl Future<Output = Result<T, Refusal>>,
        before: &str,
    ) -> Result<T, Refusal> {
        tokio::select! {
            wanted = wanted => wanted,
            () = self.gone() => Err(Refusal::client_gone(before)),
        }
    }

    /// Takes in content that nothing needs; see [`Offered::settle`].
    pub async fn settle(&mut self) {
        if let Self::Offered(offered) = self {
            offered.settle().await;
        }
    }

    /// Answers it here. A TCP client sees a reset; an end of packets hears that there is no tunnel.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn answer(self, head: ResponseHead, content: Bytes) -> Result<(), StreamError> {
        match self {
            Self::Offered(offered) => offered.refuse(head, content).await,
            Self::Packets(packets) => {
                packets.end.refuse(RefusalReason {
                    status: head.status,
                    error: ProxyError::HttpUpgradeFailed,
                    details: format!("packets were answered with {}", head.status),
                });
                Ok(())
            }
        }
    }

    /// Refuses it for this reason, of which a client of HTTP learns by `head` and `content`.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refuse(
        self,
        reason: RefusalReason,
        head: ResponseHead,
        content: Bytes,
    ) -> Result<(), StreamError> {
        match self {
            Self::Offered(offered) => offered.refuse_for(reason, head, content).await,
            Self::Packets(packets) => {
                packets.end.refuse(reason);
                Ok(())
            }
        }
    }

    /// Accepts the tunnel and gives the client's side of it.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn accept(self, fields: Fields) -> Result<End, StreamError> {
        match self {
            Self::Offered(offered) => offered
                .accept(fields)
                .await
                .map(|(incoming, outgoing)| End::Stream(incoming, outgoing)),
            Self::Packets(packets) => {
                packets.end.accept();
                Ok(End::Packets(packets.end))
            }
        }
    }
}
