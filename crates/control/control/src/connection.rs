//! Connections that a controller opens: HTTP/2 for gRPC, inside TLS or plain.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::client::Grpc;

/// How long it may take to connect, handshakes included.
#[doc(alias = "bound")]
const CONNECT: Duration = Duration::from_secs(2);

/// A silent server is asked after so long, and is gone if it does not answer within the same time again.
#[doc(alias = "bound")]
const SILENCE: Duration = Duration::from_secs(2);

/// Bytes that a server may send ahead of what was read.
#[doc(alias = "bound")]
const WINDOW: u32 = 4 * 1024 * 1024;

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// A name or an address, that of IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

/// A connection that carries gRPC. It ends with its last clone, or when the server is gone.
#[derive(Clone)]
pub(crate) struct Connection(SendRequest<tonic::body::Body>);

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached in time, or the two do not believe each other.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        tls: Option<Arc<ClientConfig>>,
    ) -> io::Result<Self> {
        tokio::time::timeout(CONNECT, handshakes(endpoint, tls)).await?
    }

    /// Connects to a server that is judged by its certificates before anything is sent.
    ///
    /// # Errors
    /// The server cannot be reached in time.
    pub(crate) async fn secured(
        endpoint: &Endpoint,
        tls: Arc<ClientConfig>,
    ) -> io::Result<SecuredStream> {
        let stream = tokio::time::timeout(CONNECT, shaken(endpoint, tls)).await??;
        Ok(SecuredStream(stream))
    }

    /// Its methods.
    pub(crate) fn grpc(self, longest: usize) -> Grpc<Self> {
        // HTTP/2 wants an authority, which the servers do not look at.
        Grpc::with_origin(self, Uri::from_static("http://store")).max_decoding_message_size(longest)
    }
}

/// A stream inside TLS.
pub(crate) struct SecuredStream(TlsStream<TcpStream>);

impl SecuredStream {
    /// The certificates of the server.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        let chain = self.0.get_ref().1.peer_certificates();
        chain.map(<[_]>::to_vec).unwrap_or_default()
    }

    /// Begins HTTP/2.
    ///
    /// # Errors
    /// The server does not.
    pub(crate) async fn begin(self) -> io::Result<Connection> {
        begin(self.0).await
    }
}

async fn connected(endpoint: &Endpoint) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
    // Requests are small, and each waits for the one before.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn shaken(endpoint: &Endpoint, tls: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let stream = connected(endpoint).await?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(io::Error::other)?;
    TlsConnector::from(tls).connect(name, stream).await
}

async fn handshakes(endpoint: &Endpoint, tls: Option<Arc<ClientConfig>>) -> io::Result<Connection> {
    match tls {
        None => begin(connected(endpoint).await?).await,
        Some(tls) => begin(shaken(endpoint, tls).await?).await,
    }
}

async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> io::Result<Connection> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(SILENCE)
        .keep_alive_timeout(SILENCE)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    // Its users learn of its end by their requests.
    tokio::spawn(connection);
    Ok(Connection(sender))
}

impl tower_service::Service<http::Request<tonic::body::Body>> for Connection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<http::Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
