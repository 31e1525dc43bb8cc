//! Connections over QUIC.

mod crowd;
mod datagrams;
mod identity;
mod resilience;
mod shared;
mod streams;

use std::future::Future;
use std::net::SocketAddr;

use bytes::Bytes;
use hermes_net::quic::{
    ClientConfig, Connection, Endpoint, Incoming, Keys, Record, RecvStream, SendStream,
    ServerOptions,
};
use hermes_net::tls::{self, ClientOptions};
use hermes_net::{Drain, listen};
use tokio::time::timeout;

use crate::authority::Authority;
use crate::{PATIENCE, loopback};

/// The name in the certificate of [`Authority::server`].
const NAME: &str = "server.example";

/// Certificates, and both configurations that trust them.
struct Trust {
    authority: Authority,
    client: ClientConfig,
    server: ServerOptions,
}

impl Trust {
    fn new() -> Self {
        let authority = Authority::new();
        let (identity, ca) = (authority.server(), authority.ca());
        let tls = tls::client(ClientOptions {
            authorities: Some((&ca).into()),
            ..ClientOptions::default()
        })
        .unwrap();
        let client = ClientConfig::new(&tls, false, Record::default()).unwrap();
        let server = ServerOptions::new(
            tls::server(identity.serving()).unwrap(),
            Keys::derive(b"secret"),
        );
        Self {
            authority,
            client,
            server,
        }
    }

    fn serve(&self) -> (Endpoint, SocketAddr) {
        serve(&self.server)
    }

    /// Both ends of a connection, with their endpoints: who connected first.
    async fn pair(&self) -> [(Connection, Endpoint); 2] {
        let (server, address) = self.serve();
        let client = Endpoint::client(address).unwrap();
        let (near, far) =
            tokio::join!(client.connect(address, NAME, &self.client), accept(&server));
        [(near.unwrap(), client), (far, server)]
    }
}

fn serve(options: &ServerOptions) -> (Endpoint, SocketAddr) {
    let endpoint = Endpoint::server(listen::udp(loopback()).unwrap(), 0, options).unwrap();
    let address = endpoint.local_addr().unwrap();
    (endpoint, address)
}

async fn incoming(endpoint: &Endpoint) -> Incoming {
    endpoint.accept().await.unwrap()
}

async fn accept(endpoint: &Endpoint) -> Connection {
    incoming(endpoint).await.accept().await.unwrap()
}

/// Fails instead of hanging.
async fn patiently<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.unwrap()
}

/// Accepts every connection and sends every stream back, until `drain` says to stop.
fn spawn_echo(endpoint: Endpoint, drain: &Drain) {
    let watch = drain.watch();
    drain.watch().spawn(async move {
        loop {
            let incoming = tokio::select! {
                incoming = endpoint.accept() => incoming.unwrap(),
                () = watch.graceful() => return,
            };
            let inner = watch.clone();
            watch.spawn(async move {
                let Ok(connection) = incoming.accept().await else {
                    return;
                };
                while let Ok((send, recv)) = connection.accept_bi().await {
                    inner.spawn(echo(send, recv));
                }
            });
        }
    });
}

async fn echo(mut send: SendStream, mut recv: RecvStream) {
    while let Ok(Some(bytes)) = recv.read(64 << 10).await {
        if write(&mut send, bytes).await.is_err() {
            return;
        }
    }
    let _ = send.finish();
}

async fn write(send: &mut SendStream, bytes: Bytes) -> Result<(), hermes_net::quic::WriteError> {
    let mut pieces = [bytes];
    while !pieces[0].is_empty() {
        send.write(&mut pieces).await?;
    }
    Ok(())
}

/// Sends `text` on a stream of its own and returns the answer.
async fn ask(
    connection: &Connection,
    text: &'static str,
) -> Result<Vec<u8>, hermes_net::quic::ConnectionError> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let gone = |error: hermes_net::quic::WriteError| match error {
        hermes_net::quic::WriteError::Connection(error) => error,
        other => panic!("{other}"),
    };
    write(&mut send, Bytes::from_static(text.as_bytes()))
        .await
        .map_err(gone)?;
    send.finish().map_err(gone)?;
    read_all(&mut recv).await
}

async fn read_all(recv: &mut RecvStream) -> Result<Vec<u8>, hermes_net::quic::ConnectionError> {
    let mut all = Vec::new();
    loop {
        match recv.read(usize::MAX).await {
            Ok(Some(bytes)) => all.extend_from_slice(&bytes),
            Ok(None) => return Ok(all),
            Err(hermes_net::quic::ReadError::Connection(error)) => return Err(error),
            Err(other) => panic!("{other}"),
        }
    }
}
