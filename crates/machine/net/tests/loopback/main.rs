//! The crate against real sockets of this machine: loopback addresses and port 0 only.
#![allow(clippy::unwrap_used)]

mod authority;
mod connecting;
mod kernel_tls;
mod listening;
mod quic;
mod resolving;
mod shared_sessions;
mod splicing;
mod streams;
mod tls;
mod udp;

use std::net::SocketAddr;
use std::slice;
use std::time::Duration;

use hermes_net::{Acceptor, Listener, Stream, connect, listen};

/// Longer than anything here takes: only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Port 0 on the IPv4 loopback.
fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Both ends of a TCP connection: who connected, who accepted.
async fn tcp_pair() -> (Stream, Stream) {
    let listener = Listener::from(listen::tcp(loopback()).unwrap());
    let address = listener.local_addr().unwrap();
    let acceptor = Acceptor::new(listener).unwrap();
    let (near, far) = tokio::join!(
        connect::tcp(slice::from_ref(&address), PATIENCE),
        acceptor.accept()
    );
    (Stream::from(near.unwrap()), far)
}

/// Both ends of a Unix connection: who connected, who accepted.
async fn unix_pair() -> (Stream, Stream) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let acceptor = Acceptor::new(listen::unix(&path, 0o600).unwrap().into()).unwrap();
    let (near, far) = tokio::join!(connect::unix(&path), acceptor.accept());
    (Stream::from(near.unwrap()), far)
}
