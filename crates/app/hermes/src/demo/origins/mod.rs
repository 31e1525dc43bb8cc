//! The servers at the far end. They know nothing of the overlay.

mod http;
mod tcp;
mod tls;
mod udp;

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::certificates::Certificates;
use super::says::Says;

pub use tcp::{GREETING, farewell};

/// Running origins. Dropping them ends them.
pub struct Origins {
    addresses: Vec<(&'static str, SocketAddr)>,
    _tasks: JoinSet<()>,
}

impl Origins {
    /// Starts all of them on loopback, at ports that the system chooses.
    pub async fn start(certificates: &Certificates) -> Result<Self, String> {
        let acceptor = tls::acceptor(certificates)?;
        let mut origins = Self {
            addresses: Vec::new(),
            _tasks: JoinSet::new(),
        };

        origins
            .serve("VIDEO", |stream| http::serve(stream, "VIDEO"))
            .await?;
        origins
            .serve("SECURE", move |stream| tls::serve(stream, acceptor.clone()))
            .await?;
        origins.serve("DB", tcp::serve).await?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .says("ECHO")?;
        origins
            .addresses
            .push(("ECHO", socket.local_addr().says("ECHO")?));
        origins._tasks.spawn(udp::serve(socket));

        Ok(origins)
    }

    /// Where each of them is.
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.addresses
    }

    /// Accepts connections and hands each to `serve`.
    async fn serve<F, S>(&mut self, name: &'static str, serve: F) -> Result<(), String>
    where
        F: Fn(TcpStream) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .says(name)?;
        self.addresses
            .push((name, listener.local_addr().says(name)?));
        self._tasks.spawn(accept(listener, serve));
        Ok(())
    }
}

async fn accept<F, S>(listener: TcpListener, serve: F)
where
    F: Fn(TcpStream) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                // Small answers should leave at once; where that cannot be set they merely leave later.
                drop(stream.set_nodelay(true));
                connections.spawn(serve(stream));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
