//! An HTTP server for HTTP/1.1 and HTTP/2 that remembers its requests; its answers are in `answers`.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::combinators::BoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{ANY, Memory, Origin, answers, serve};
use crate::Pki;
use crate::head::join;

/// A request as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Target of the request as it was sent: a path, or with scheme and authority over HTTP/2.
    pub uri: String,
    /// Path and query.
    pub path: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// Field lines in their order, names in small letters.
    pub fields: Vec<(String, String)>,
}

impl Request {
    /// All values of a field, joined with a comma; `None` if it is absent.
    pub fn field(&self, name: &str) -> Option<String> {
        join(&self.fields, name)
    }

    /// The authority: that of the URI, else `Host`.
    pub fn host(&self) -> Option<String> {
        let uri: http::Uri = self.uri.parse().ok()?;
        uri.authority()
            .map(ToString::to_string)
            .or_else(|| self.field("host"))
    }
}

/// The content of an answer.
pub(super) type Content = BoxBody<Bytes, Infallible>;

/// A server on IPv4 loopback.
///
/// | path | answer |
/// |---|---|
/// | `/bytes/N` | N bytes with `Content-Length` |
/// | `/chunked/N` | N bytes without a length |
/// | `/slow` | its head and `first\n`, then, after [`Origin::release`], `last\n` |
/// | `/hang` | after [`Origin::release`] |
/// | `/status/N` | status N |
/// | `/etag` | 304 if `If-None-Match` is given |
/// | `/trailers` | `body\n` and the trailer `x-checksum: 42` |
/// | `/echo` | the content of the request, as it comes |
/// | `/post` | JSON: `bytes`, `trailers` of the request's content |
/// | other | JSON: `method`, `uri`, `version`, `fields`, `bytes`, `body` (as text) |
pub fn http() -> Origin<Request> {
    http_on(ANY)
}

/// As [`http()`], on this address.
pub fn http_on(address: SocketAddr) -> Origin<Request> {
    serve(address, |stream: TcpStream, memory| async move {
        let mut start = [0; 3];
        // A request in HTTP/1.1 has more than three bytes, too.
        while matches!(stream.peek(&mut start).await, Ok(read) if (1..3).contains(&read)) {
            tokio::task::yield_now().await;
        }
        converse(stream, &start == b"PRI", memory).await;
    })
}

/// As [`http()`], under TLS, with a certificate for these names, and HTTP/2 by ALPN.
pub fn https(pki: &Pki, names: &[&str]) -> Origin<Request> {
    let acceptor = TlsAcceptor::from(pki.server(names, &["h2", "http/1.1"]));
    serve(ANY, move |stream, memory| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                converse(stream, h2, memory).await;
            }
        }
    })
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    h2: bool,
    memory: Memory<Request>,
) {
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| {
        let memory = memory.clone();
        async move {
            memory.remember(seen(&request));
            Ok::<_, Infallible>(answers::answer(request, &memory.release).await)
        }
    });

    // A client that breaks off has its answer, or does not want it.
    if h2 {
        drop(
            http2::Builder::new(TokioExecutor::new())
                .serve_connection(stream, service)
                .await,
        );
    } else {
        drop(
            http1::Builder::new()
                .half_close(true)
                .serve_connection(stream, service)
                .with_upgrades()
                .await,
        );
    }
}

pub(super) fn seen(request: &http::Request<Incoming>) -> Request {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (
            name.to_string(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    };
    Request {
        method: request.method().to_string(),
        uri: request.uri().to_string(),
        path: request
            .uri()
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default(),
        version: format!("{:?}", request.version()),
        fields: request.headers().iter().map(line).collect(),
    }
}
