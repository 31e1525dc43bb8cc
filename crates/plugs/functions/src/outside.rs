//! Connections to what is outside of this process: hops, scanners and processors.

use std::io;
use std::net::IpAddr;

use hermes_config::model::EndpointAddress;
use hermes_net::Stream;
use tokio::net::{TcpStream, UnixStream};

/// A connection to a function outside.
pub(crate) enum OutsideStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl OutsideStream {
    /// Connects.
    ///
    /// # Errors
    /// No one listens there.
    pub(crate) async fn connect(to: &EndpointAddress) -> io::Result<Self> {
        match to {
            EndpointAddress::Tcp(address) => {
                let host = address.host.trim_matches(['[', ']']);
                let stream = TcpStream::connect((host, address.port)).await?;
                // Pieces of a conversation must not wait for one another.
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            EndpointAddress::Unix(path) => Ok(Self::Unix(UnixStream::connect(path).await?)),
        }
    }

    /// The address of the other side, where it has one.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|peer| peer.ip()),
            Self::Unix(_) => None,
        }
    }
}

impl From<OutsideStream> for Stream {
    fn from(outside: OutsideStream) -> Self {
        match outside {
            OutsideStream::Tcp(stream) => Self::from(stream),
            OutsideStream::Unix(stream) => Self::unix(stream),
        }
    }
}
