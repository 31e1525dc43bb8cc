//! `hermes echo`: servers that show their requests, to try an overlay with.

mod http;
mod plain;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use clap::Args;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::output::{Output, note};
use crate::stop::told_to_stop;
pub use http::joined;

/// Connections of one listener at once; further ones wait. It is for trials.
#[doc(alias = "bound")]
const CONNECTIONS: usize = 1000;

/// Where the HTTP server listens if nothing is said.
const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8000);

/// Arguments of `hermes echo`.
#[derive(Debug, Args)]
pub struct Echo {
    /// Where an HTTP server (1.1 and 2) shows each request in its answer, as JSON to `accept: application/json`. An address and
    /// a port, or a port on loopback. Default: 8000, if nothing else is named.
    #[arg(value_name = "ADDRESS", value_parser = address)]
    http: Vec<SocketAddr>,
    /// Where a TCP server sends back all that it gets.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    tcp: Vec<SocketAddr>,
    /// Where a UDP server sends back every datagram.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    udp: Vec<SocketAddr>,
}

/// Serves until Ctrl-C or SIGTERM, with a line for each request, connection and sender of datagrams.
///
/// # Errors
/// When an address cannot be listened on.
pub async fn run(mut echo: Echo, output: Output) -> Result<(), Failure> {
    if echo.http.is_empty() && echo.tcp.is_empty() && echo.udp.is_empty() {
        echo.http.push(DEFAULT);
    }

    let mut servers = JoinSet::new();
    for address in echo.http {
        let listener = listen("http", address).await?;
        servers.spawn(accept(listener, move |stream, from| {
            http::serve(stream, from, output)
        }));
    }

    for address in echo.tcp {
        let listener = listen("tcp", address).await?;
        servers.spawn(accept(listener, move |stream, from| {
            plain::stream(stream, from, output)
        }));
    }

    for address in echo.udp {
        let socket = UdpSocket::bind(address)
            .await
            .map_err(|error| refused("udp", address, &error))?;
        told("udp", socket.local_addr());
        servers.spawn(plain::datagrams(socket, output));
    }

    told_to_stop().await;
    Ok(())
}

/// An address with a port, or a port alone.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = |text: &str| {
        text.parse()
            .ok()
            .map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    text.parse()
        .ok()
        .or_else(|| port(text))
        .ok_or("write it like 127.0.0.1:8000, [::1]:8000 or 8000".to_owned())
}

async fn listen(kind: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| refused(kind, address, &error))?;
    told(kind, listener.local_addr());
    Ok(listener)
}

fn refused(kind: &str, address: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot listen for {kind} at {address}: {error}"))
        .remedy("choose another address or port")
}

/// In the words of `hermes run`.
fn told(kind: &str, address: std::io::Result<SocketAddr>) {
    // Of a socket that was just bound it is known.
    if let Ok(address) = address {
        note(format_args!("listening {kind} {address}"));
    }
}

/// Accepts connections and hands each to `serve`.
async fn accept<F, S>(listener: TcpListener, serve: F)
where
    F: Fn(TcpStream, SocketAddr) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();

    // The semaphore is never closed.
    while let Ok(permit) = room.clone().acquire_owned().await {
        // Where one cannot be accepted, such as for want of descriptors, another may be: once some have ended.
        let Ok((stream, from)) = listener.accept().await else {
            connections.join_next().await;
            continue;
        };

        // Small answers should leave at once; where that cannot be set they merely leave later.
        drop(stream.set_nodelay(true));
        let served = serve(stream, from);
        connections.spawn(async move {
            served.await;
            drop(permit);
        });

        while connections.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_loopback() {
        assert_eq!(address("8000"), Ok(DEFAULT));
        assert_eq!(
            address("[::1]:80")
                .map(|address| address.to_string())
                .as_deref(),
            Ok("[::1]:80")
        );
        assert!(
            ["", "localhost:80", "127.0.0.1", "65536"]
                .into_iter()
                .all(|text| address(text).is_err())
        );
    }
}
