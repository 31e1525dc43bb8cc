//! A port that is opened for one connection, of a peer that is expected.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;

use crate::descriptors::claim;
use crate::listen::tune;
use crate::own_mark::marked;
use crate::{LocalEnd, Stream};

/// Connections that the system keeps until they are looked at: a stranger who comes first must not keep the expected peer out.
#[doc(alias = "bound")]
const BACKLOG: i32 = 16;

/// Ports that are tried for one request: each costs a socket.
#[doc(alias = "bound")]
const TRIES: u16 = 64;

/// The pause after connections could not be taken, for want of descriptors.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(100);

/// A port that waits for one connection.
#[derive(Debug)]
pub struct ExpectedPort {
    listener: TcpListener,
    address: SocketAddr,
}

impl ExpectedPort {
    /// Opens a port that is free, of `count` ones from `low` on, at this address; `random` says which is tried first, so that strangers
    /// cannot know the next.
    ///
    /// # Errors
    /// None of those that were tried is free, the address is not this machine's, or there are no more descriptors.
    pub fn open(
        from: &LocalEnd,
        address: IpAddr,
        low: u16,
        count: u16,
        random: u16,
    ) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for turn in 0..count.min(TRIES) {
            let offset = (u32::from(random) + u32::from(turn)) % u32::from(count);
            let port = low.saturating_add(offset as u16);
            match Self::at(from, SocketAddr::new(address, port)) {
                Ok(open) => return Ok(open),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn at(from: &LocalEnd, address: SocketAddr) -> io::Result<Self> {
        let socket = marked(claim(from.tcp_at(address)?)?)?;
        socket.set_nonblocking(true)?;
        // Another socket may have the port too until one of them listens.
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from_std(socket.into())?;
        Ok(Self { listener, address })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a connection of whom `is_expected` is true. Those of others are reset.
    pub async fn connection(&self, is_expected: impl Fn(SocketAddr) -> bool) -> Stream {
        loop {
            let accepted = self.listener.accept().await;
            let Ok((tcp, peer)) = accepted.and_then(|(tcp, peer)| Ok((claim(tcp)?, peer))) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let stream = Stream::tcp(tcp, peer);
            let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
            if !is_expected(peer) {
                tracing::info!(%peer, address = %self.address, "a connection of another peer than the expected one is reset");
                stream.abort();
                continue;
            }
            if let crate::Transport::Tcp(tcp) = stream.transport() {
                tune(tcp);
            }
            return stream;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn each_port_is_had_once_and_none_beyond_the_last() {
        let open = |low| ExpectedPort::open(&LocalEnd::ANY, HERE, low, 2, 1);
        let is_full = |low| open(low).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
        // Other programs may have taken one of a pair.
        let pairs = (0..100).filter_map(|_| {
            let free = std::net::TcpListener::bind((HERE, 0)).ok()?;
            let low = free.local_addr().ok()?.port().min(u16::MAX - 1);
            drop(free);
            Some((low, open(low).ok()?, open(low).ok()?))
        });
        let (low, first, second) = pairs.into_iter().next().unwrap();
        assert_eq!(
            first.address().port(),
            low + 1,
            "the random one is tried first"
        );
        assert_eq!(second.address().port(), low);
        assert!(is_full(low));
        drop(second);
        assert_eq!(open(low).unwrap().address().port(), low);
    }

    #[tokio::test]
    async fn others_are_reset_and_the_expected_peer_is_taken() {
        let port = std::net::TcpListener::bind((HERE, 0)).unwrap();
        let number = port.local_addr().unwrap().port();
        drop(port);
        let open = ExpectedPort::open(&LocalEnd::ANY, HERE, number, 1, 0).unwrap();
        let mut stranger = TcpStream::connect(open.address()).await.unwrap();
        let expected = TcpStream::connect(open.address()).await.unwrap();
        let wanted = expected.local_addr().unwrap();

        let stream = open.connection(|peer| peer == wanted).await;
        assert_eq!(stream.info().peer.socket(), Some(wanted));
        assert!(stranger.read_u8().await.is_err(), "it is reset");
    }
}
