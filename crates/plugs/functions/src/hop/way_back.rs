//! The way back from a process: an address that is open for one connection.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use hermes_net::Stream;
use hermes_plug::target::Target;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::handshake::HopFailure;

/// The addresses that are open, of all functions of this process.
static OPEN: Mutex<Option<HashSet<SocketAddr>>> = Mutex::new(None);

/// Whether this is the address of an open way back: then a function leads its tunnel to us and not to that address.
pub(super) fn is_open(target: &Target) -> bool {
    let host = target.host().trim_matches(['[', ']']);
    let (Ok(host), Some(port)) = (host.parse::<IpAddr>(), target.port()) else {
        return false;
    };
    let open = OPEN.lock();
    open.as_ref()
        .is_some_and(|open| open.contains(&SocketAddr::new(host, port)))
}

/// An address that is open for one connection.
pub(super) struct WayBack {
    listener: TcpListener,
    address: SocketAddr,
}

impl WayBack {
    /// Opens a port of this address.
    pub(super) fn open(back: IpAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((back, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // Before the process hears of it, so that a loop through this node is known however fast it is.
        OPEN.lock().get_or_insert_default().insert(address);
        let listener = TcpListener::from_std(listener)?;
        Ok(Self { listener, address })
    }

    /// The address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The first connection from there; one from elsewhere is closed.
    pub(super) async fn accept(self, from: Option<IpAddr>) -> Result<Stream, HopFailure> {
        // A process at a Unix socket is one of this machine.
        let expected = from.unwrap_or(self.address.ip());
        loop {
            let (stream, peer) = self.listener.accept().await?;
            let is_expected =
                peer.ip() == expected || peer.ip().is_loopback() && expected.is_loopback();
            if !is_expected {
                tracing::info!(%peer, "a stranger knocked at the way back of a function");
                continue;
            }
            stream.set_nodelay(true)?;
            return Ok(Stream::tcp(stream, peer));
        }
    }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        if let Some(open) = OPEN.lock().as_mut() {
            open.remove(&self.address);
        }
    }
}
