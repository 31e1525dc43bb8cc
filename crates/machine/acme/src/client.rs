//! HTTP towards an authority, with bounds on its cost: bytes, time, requests, and the hosts it may
//! refer us to.

use std::error::Error as StdError;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hermes_net::{Resolver, Stream, connect, tls};
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tokio::time::timeout;

/// Time for one request and its answer: some authorities sign in seconds.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_secs(30);

/// Time to connect to one of the authority's addresses.
#[doc(alias = "bound")]
const CONNECT: Duration = Duration::from_secs(10);

/// Bytes of an answer: a long chain is 20 KiB.
#[doc(alias = "bound")]
const ANSWER: usize = 256 * 1024;

/// Bytes of an answer's head.
#[doc(alias = "bound")]
const HEAD: usize = 32 * 1024;

/// Requests of one attempt: an authority asks for some ten, and for four with each further name.
#[doc(alias = "bound")]
const REQUESTS: u32 = 1000;

/// Speaks to one authority, for one attempt.
#[derive(Clone)]
pub(crate) struct BoundedClient(Arc<Peer>);

struct Peer {
    /// The host and port of its directory; no other host is asked, even if the authority refers to
    /// one.
    authority: Authority,
    tls: Arc<rustls::ClientConfig>,
    resolver: Arc<Resolver>,
    sent: AtomicU32,
}

type Answered = Result<BytesResponse, Error>;

impl BoundedClient {
    pub(crate) fn new(
        directory: &Uri,
        tls: Arc<rustls::ClientConfig>,
        resolver: Arc<Resolver>,
    ) -> Option<Self> {
        let authority = directory.authority()?.clone();
        Some(Self(Arc::new(Peer {
            authority,
            tls,
            resolver,
            sent: AtomicU32::new(0),
        })))
    }
}

impl HttpClient for BoundedClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        let peer = self.0.clone();
        Box::pin(async move {
            peer.permit(request.uri())?;
            timeout(TIME, peer.send(request))
                .await
                .unwrap_or_else(|_| Err(Error::Other("no answer in time".into())))
        })
    }
}

impl Peer {
    /// Whether one more request may be sent there.
    fn permit(&self, uri: &Uri) -> Result<(), Error> {
        let is_same =
            uri.scheme() == Some(&Scheme::HTTPS) && uri.authority() == Some(&self.authority);
        if !is_same {
            return Err(Error::Str(
                "a URL at the host of the directory: the authority named another",
            ));
        }
        if self.sent.fetch_add(1, Ordering::Relaxed) >= REQUESTS {
            return Err(Error::Str(
                "an end: the authority asks for request after request",
            ));
        }
        Ok(())
    }

    async fn send(&self, mut request: Request<BodyWrapper<Bytes>>) -> Answered {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        *request.uri_mut() = Uri::try_from(path)?;
        let host = self.authority.as_str().parse().map_err(other)?;
        request.headers_mut().insert(HOST, host);

        let stream = self.connect().await?;
        let handshake = http1::Builder::new()
            .max_buf_size(HEAD)
            .handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(other)?;
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(other)?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER).collect().await;
            let body = body.map_err(Error::Other)?.to_bytes();
            Ok(BytesResponse {
                parts,
                body: Box::new(body),
            })
        };

        tokio::pin!(exchange, connection);
        let mut is_open = true;
        loop {
            // A connection that ended may leave an answer that is still to be read.
            tokio::select! {
                answered = &mut exchange => return answered,
                _ = &mut connection, if is_open => is_open = false,
            }
        }
    }

    async fn connect(&self) -> Result<Stream, Error> {
        let host = self.authority.host();
        let port = self.authority.port_u16().unwrap_or(443);
        let found = self.resolver.lookup_endpoint(host).await.map_err(other)?;
        let addresses: Vec<SocketAddr> = found
            .addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, port))
            .collect();

        let tcp = connect::tcp(&addresses, CONNECT).await.map_err(other)?;
        let peer = tcp.peer_addr().map_err(other)?;
        let stream = Stream::tcp(tcp, peer);
        tls::connect(stream, self.tls.clone(), host, CONNECT)
            .await
            .map_err(other)
    }
}

fn other(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::Other(error.into())
}
