//! A small HTTP/1.1 client, as a program that knows proxies has one.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::says::{Says, expect};

/// A connection for requests, one after the other.
pub struct Client {
    sender: SendRequest<Empty<Bytes>>,
    _driver: JoinSet<()>,
}

/// A response.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub fields: HeaderMap,
    /// Its content.
    pub content: Bytes,
}

impl Client {
    /// A client over TCP.
    pub async fn dial(address: SocketAddr) -> Result<Self, String> {
        Self::open(dial(address).await?).await
    }

    /// A client over any stream.
    pub async fn open(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Self, String> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.says("HTTP")?;
        let mut driver = JoinSet::new();

        // Its errors show in the request that meets them.
        driver.spawn(async move { drop(connection.with_upgrades().await) });
        Ok(Self {
            sender,
            _driver: driver,
        })
    }

    /// Asks for `uri`: absolute for a proxy, a path for an origin, for which `host` is added.
    pub async fn get(
        &mut self,
        host: &str,
        uri: &str,
        fields: &[(&str, &str)],
    ) -> Result<Answer, String> {
        let mut request = Request::builder().uri(uri).header(header::HOST, host);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }

        let request = request.body(Empty::new()).says(uri)?;
        self.sender.ready().await.says(uri)?;
        let response = self.sender.send_request(request).await.says(uri)?;
        let (head, body) = response.into_parts();
        let content = body.collect().await.says(uri)?.to_bytes();

        Ok(Answer {
            status: head.status,
            fields: head.headers,
            content,
        })
    }
}

impl Answer {
    /// The request as an origin of the demo saw it.
    pub fn seen(&self) -> Result<Value, String> {
        let said = || String::from_utf8_lossy(&self.content).trim().to_owned();
        expect(self.status == StatusCode::OK, || {
            format!("status {} instead of 200: {}", self.status, said())
        })?;
        serde_json::from_slice(&self.content).says("the origin's answer")
    }

    /// A field's lines, joined.
    pub fn field(&self, name: &str) -> String {
        let lines: Vec<_> = self
            .fields
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        lines.join(", ")
    }
}

/// Opens a TCP connection that does not wait to fill packets.
pub async fn dial(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).await.says(address)?;
    stream.set_nodelay(true).says(address)?;
    Ok(stream)
}

/// Opens a tunnel to `target` through the proxy at `address`.
pub async fn connect(address: SocketAddr, target: &str) -> Result<TokioIo<Upgraded>, String> {
    let mut client = Client::dial(address).await?;
    let request = Request::builder()
        .method(Method::CONNECT)
        .uri(target)
        .header(header::HOST, target);
    let request = request.body(Empty::new()).says(target)?;
    let response = client.sender.send_request(request).await.says(target)?;
    expect(response.status().is_success(), || {
        format!("CONNECT {target}: status {}", response.status())
    })?;

    // The tunnel outlives the client; the driver has handed the connection over when this resolves.
    hyper::upgrade::on(response)
        .await
        .map(TokioIo::new)
        .says(target)
}
