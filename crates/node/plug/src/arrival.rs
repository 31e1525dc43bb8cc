//! An exchange that has arrived, of whatever kind.

use std::sync::Arc;

use bytes::Bytes;
use hermes_http::{
    AnswerFields, Incoming, Kind, Offered, Outgoing, RequestHead, ResponseHead, StreamError,
};
use hermes_net::StreamInfo;
use hermes_packet::{PacketEnd, Session};
use hermes_proto::fields::Fields;

/// An exchange that is not yet answered: offered over HTTP or by a TCP connection, or begun by a datagram.
pub enum Arrival {
    /// Over HTTP, or a TCP connection turned into CONNECT. Boxed, because it goes through many hands.
    Offered(Box<Offered>),
    /// A UDP client's first datagram, turned into CONNECT-UDP.
    Session {
        /// The CONNECT-UDP that it means.
        head: Box<RequestHead>,
        /// Where the datagrams come from.
        source: Arc<StreamInfo>,
        /// The session.
        session: Arc<Session>,
    },
}

/// One side of an open tunnel.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are the large one, and each is moved once"
)]
pub enum End {
    /// Bytes, or capsules, in a pair of streams.
    Stream(Incoming, Outgoing),
    /// UDP.
    Udp(PacketEnd),
}

impl Arrival {
    /// The request.
    pub fn head(&self) -> &RequestHead {
        match self {
            Self::Offered(offered) => &offered.head,
            Self::Session { head, .. } => head,
        }
    }

    /// The request, to be changed on the way through the pipeline.
    pub fn head_mut(&mut self) -> &mut RequestHead {
        match self {
            Self::Offered(offered) => &mut offered.head,
            Self::Session { head, .. } => head,
        }
    }

    /// Its final response gets these fields, where it has one.
    pub fn add_to_answer(&mut self, decided: Vec<AnswerFields>) {
        match self {
            Self::Offered(offered) if !decided.is_empty() => offered.add_to_answer(decided),
            Self::Offered(_) | Self::Session { .. } => {}
        }
    }

    /// The UDP client that it is the tunnel of.
    pub fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Session { session, .. } => Some(session),
            Self::Offered(_) => None,
        }
    }

    /// Where it came from.
    pub fn source(&self) -> &Arc<StreamInfo> {
        match self {
            Self::Offered(offered) => &offered.source,
            Self::Session { source, .. } => source,
        }
    }

    /// What it carries.
    pub fn kind(&self) -> Kind {
        self.head().kind()
    }

    /// What the client sends before its tunnel is open, where it can be taken; see [`Offered::early`].
    pub fn early(&mut self) -> Option<&mut Incoming> {
        match self {
            Self::Offered(offered) => offered.early(),
            Self::Session { .. } => None,
        }
    }

    /// Takes in content that nothing needs; see [`Offered::settle`].
    pub async fn settle(&mut self) {
        if let Self::Offered(offered) = self {
            offered.settle().await;
        }
    }

    /// Answers it here. A TCP client sees a reset; a UDP client sees nothing.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refuse(self, head: ResponseHead, content: Bytes) -> Result<(), StreamError> {
        match self {
            Self::Offered(offered) => offered.refuse(head, content).await,
            Self::Session { session, .. } => {
                session.refuse();
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
            Self::Session { session, .. } => Ok(End::Udp(PacketEnd::Session(session))),
        }
    }
}
