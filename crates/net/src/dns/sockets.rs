//! The sockets on which DNS is asked: they leave the descriptors alone that are kept back.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use hickory_resolver::net::runtime::{RuntimeProvider, TokioRuntimeProvider};

use crate::descriptors;

/// What opens them.
#[derive(Clone, Default)]
pub(super) struct Sockets(TokioRuntimeProvider);

type Opening<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl RuntimeProvider for Sockets {
    type Handle = <TokioRuntimeProvider as RuntimeProvider>::Handle;
    type Timer = <TokioRuntimeProvider as RuntimeProvider>::Timer;
    type Udp = <TokioRuntimeProvider as RuntimeProvider>::Udp;
    type Tcp = <TokioRuntimeProvider as RuntimeProvider>::Tcp;

    fn create_handle(&self) -> Self::Handle {
        self.0.create_handle()
    }

    fn connect_tcp(&self, to: SocketAddr, from: Option<SocketAddr>, time: Option<Duration>) -> Opening<Self::Tcp> {
        // Few: one for answers that are too large for UDP.
        self.0.connect_tcp(to, from, time)
    }

    fn bind_udp(&self, local: SocketAddr, _server: SocketAddr) -> Opening<Self::Udp> {
        Box::pin(async move { descriptors::claim(tokio::net::UdpSocket::bind(local).await?) })
    }
}
