//! A connection that exchanges share, of either version.

use std::sync::Arc;

use hermes_http::{Outgoing, Pending, RequestHead, StreamError, client};
use hermes_net::StreamInfo;

/// A connection that exchanges share. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) enum Link {
    /// HTTP/2.
    H2(client::TcpLink),
    /// HTTP/3.
    H3(client::QuicLink),
}

impl Link {
    /// Whether exchanges can be opened on it.
    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::H2(link) => link.is_alive(),
            Self::H3(link) => link.is_alive(),
        }
    }

    /// Whether nothing comes back on it at the moment: it gets no exchanges, and may yet recover.
    pub(super) fn is_silent(&self) -> bool {
        match self {
            // PINGs find out that TCP cannot deliver.
            Self::H2(_) => false,
            Self::H3(link) => link.is_silent(),
        }
    }

    /// Whether it should get no further exchanges once there is another.
    pub(super) fn is_retired(&self) -> bool {
        match self {
            Self::H2(link) => link.is_retired(),
            // Streams of QUIC do not run out, and nothing is counted over a life.
            Self::H3(_) => false,
        }
    }

    /// A clone for one exchange beside `streams` others; `None` while the peer allows no more at
    /// once.
    pub(super) fn claim(&self, streams: usize) -> Option<Self> {
        match self {
            Self::H2(link) => (streams < link.max_streams()).then(|| self.clone()),
            Self::H3(link) => link.claim().map(Self::H3),
        }
    }

    /// The other end.
    pub(crate) fn source(&self) -> Arc<StreamInfo> {
        match self {
            Self::H2(link) => link.source().clone(),
            Self::H3(link) => link.connection().info().clone(),
        }
    }

    /// Opens an exchange; waits for room.
    pub(crate) async fn open(
        &self,
        head: &RequestHead,
        length: Option<u64>,
    ) -> Result<(Outgoing, Pending), StreamError> {
        match self {
            Self::H2(link) => link.open(head, length).await,
            Self::H3(link) => link.open(head, length).await,
        }
    }
}
