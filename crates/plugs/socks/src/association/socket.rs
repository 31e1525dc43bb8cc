//! Sockets of associations, and the datagrams that are there.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;

use hermes_net::{RecvBatch, Stream, Transport, UdpError, UdpSocket};

/// Batches of datagrams that one wake-up takes from the socket, so that a flood leaves turns to others.
#[doc(alias = "bound")]
const BATCHES: usize = 4;

thread_local! {
    /// Room for datagrams while they are looked at: one for all associations of a worker.
    static BATCH: Cell<Option<Box<RecvBatch>>> = const { Cell::new(None) };
}

/// The address that a client's connection came to; `None` where that cannot take datagrams.
pub(super) fn local(stream: &Stream) -> Option<SocketAddr> {
    let info = stream.info();
    // One that a load balancer introduced is described by the load balancer's address.
    let local = match stream.transport() {
        Transport::Tcp(tcp) => tcp.local_addr().ok(),
        _ => info.local,
    };
    // A Unix socket has no address to send datagrams to.
    let mut local = local.filter(|_| info.peer.ip().is_some())?;
    local.set_ip(local.ip().to_canonical());
    Some(local)
}

/// Takes datagrams that are there.
///
/// # Errors
/// The socket is broken.
pub(super) fn receive(
    socket: &UdpSocket,
    mut take: impl FnMut(SocketAddr, &[u8]),
) -> io::Result<()> {
    let mut batch = BATCH.take().unwrap_or_else(|| Box::new(RecvBatch::new()));
    for _ in 0..BATCHES {
        match socket.try_recv(&mut batch) {
            Ok(Some(_)) => {
                for (source, datagram) in batch.datagrams() {
                    take(source, datagram);
                }
            }
            Ok(None) => break,
            Err(UdpError::Io(error)) => return Err(error),
            // About a datagram to a client that is not there, which its connection will say.
            Err(_) => break,
        }
    }
    BATCH.set(Some(batch));
    Ok(())
}
