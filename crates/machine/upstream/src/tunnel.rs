//! An open tunnel through another proxy.

use std::net::SocketAddr;

use hermes_http::{Incoming, Outgoing};
use hermes_net::{PeerAddress, Stream, StreamInfo};

use crate::endpoint::Active;
use crate::tunnel_io::TunnelIo;

/// An open tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    /// Counts it; to be kept until it is over.
    pub(crate) active: Active,
    /// The proxy's address; `None` for a Unix socket, or behind a further proxy.
    pub(crate) address: Option<SocketAddr>,
    /// Whether the proxy heeds the floor of datagrams that it was asked for.
    pub(crate) has_floor: bool,
    /// Whether the proxy understands [`datagram_limit`].
    pub(crate) listens: bool,
}

impl Tunnel {
    /// A tunnel of bytes as a stream.
    pub(crate) fn into_stream(self) -> Stream {
        let peer = self
            .address
            .map_or(PeerAddress::Unix { uid: None }, PeerAddress::Ip);
        let info = StreamInfo {
            peer,
            local: None,
            tls: None,
            origin: None,
        };

        Stream::other(
            Box::new(TunnelIo::new(self.incoming, self.outgoing).holding(self.active)),
            info,
        )
    }
}
