//! One exchange of a user with a name, through the node beside him, and the reports of the nodes on its way.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_control::service::Inquiry;
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::MAX_FORWARDS;
use hermes_proto::hop_report::{self, ReportedHop};
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::failure::Failure;

/// The node that exchanges enter by.
pub struct Proxy {
    /// Its URL, as people read it.
    pub url: String,
    address: SocketAddr,
    /// How long an answer may take.
    pub patience: Duration,
}

/// An answer.
pub struct ProbeAnswer {
    /// Its status.
    pub status: StatusCode,
    /// The nodes that say something, the nearest first.
    pub hops: Vec<ReportedHop>,
    /// From the request to the answer's head.
    pub took: Duration,
}

/// No answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// None came in time.
    Late,
    /// The node closed the connection.
    Closed,
}

impl Unanswered {
    /// In words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Late => "no answer in time",
            Self::Closed => "the connection was closed before the answer",
        }
    }
}

impl Proxy {
    /// The node whose listener has this URL.
    ///
    /// # Errors
    /// It cannot be asked from here.
    pub fn new(url: String, patience: Duration) -> Result<Self, Failure> {
        let failure = || {
            Failure::invalid(format!("{url} is no listener for programs on an address, without TLS"))
                .remedy("ask at a device, or name one by --proxy http://ADDRESS:PORT; at a controller, `hermes why --overlay NAME --user USER` tells the way of a user")
        };
        let uri: Uri = url.parse().map_err(|_| failure())?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
        let address = authority.and_then(|authority| authority.as_str().parse().ok());
        let address = address.ok_or_else(failure)?;
        Ok(Self {
            address,
            url,
            patience,
        })
    }

    /// Sends the exchange that is asked about.
    ///
    /// # Errors
    /// The node cannot be reached, or the exchange cannot be written.
    pub async fn exchange(
        &self,
        asked: &Inquiry,
    ) -> Result<Result<ProbeAnswer, Unanswered>, Failure> {
        let method = Method::from_bytes(asked.method.as_bytes())
            .map_err(|error| Failure::invalid(format!("{}: {error}", asked.method)))?;
        self.ask(request(asked, method)?).await
    }

    /// Asks the node after `hops` others, and no one behind it (RFC 9110, 7.6.2).
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    pub async fn knock(
        &self,
        asked: &Inquiry,
        hops: usize,
    ) -> Result<Result<ProbeAnswer, Unanswered>, Failure> {
        let mut request = request(asked, Method::OPTIONS)?;
        request
            .headers_mut()
            .insert(MAX_FORWARDS.as_str(), hops.into());
        self.ask(request).await
    }

    /// A connection of its own for each request: none waits for the rest of another's answer.
    async fn ask(
        &self,
        request: Request<Empty<Bytes>>,
    ) -> Result<Result<ProbeAnswer, Unanswered>, Failure> {
        let unreachable = |error: &dyn std::fmt::Display| {
            Failure::unreachable(format!("{}: {error}", self.url))
                .remedy("is the node running? name its listener with --proxy URL")
        };
        let stream = timeout(self.patience, TcpStream::connect(self.address)).await;
        let stream = stream
            .map_err(|_| unreachable(&"no connection in time"))?
            .map_err(|error| unreachable(&error))?;
        let (mut sender, connection) = http1::Builder::new()
            .max_headers(MAX_FIELDS)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(&error))?;
        let mut driver = JoinSet::new();
        // Its errors show in the request that meets them.
        driver.spawn(async move { drop(connection.with_upgrades().await) });

        let began = Instant::now();
        let response = timeout(self.patience, sender.send_request(request)).await;
        let took = began.elapsed();
        Ok(match response {
            Err(_) => Err(Unanswered::Late),
            Ok(Err(_)) => Err(Unanswered::Closed),
            Ok(Ok(response)) => {
                let answer = ProbeAnswer {
                    status: response.status(),
                    hops: reports(response.headers()),
                    took,
                };
                // An exchange that is left in the midst of its content would be one that failed.
                drop(timeout(self.patience, read(response.into_body())).await);
                Ok(answer)
            }
        })
    }
}

/// Reads and drops a content, but no endless one.
async fn read(mut content: Incoming) {
    let mut left = MAX_CONTENT;
    while let Some(Ok(frame)) = content.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// Bytes of the content of an answer that are read.
#[doc(alias = "bound")]
const MAX_CONTENT: usize = 1024 * 1024;

/// Fields of an answer that are read.
#[doc(alias = "bound")]
const MAX_FIELDS: usize = 256;

fn reports(headers: &http::HeaderMap) -> Vec<ReportedHop> {
    let name = hermes_proto::proxy_status::PROXY_STATUS;
    let lines = headers.get_all(&name).iter();
    let lines = lines.map(|line| (name.clone(), line.clone()));
    hop_report::hops(&Fields::from_iter(lines))
}

fn request(asked: &Inquiry, method: Method) -> Result<Request<Empty<Bytes>>, Failure> {
    let authority = authority(asked, method == Method::CONNECT);
    let target = match method {
        Method::CONNECT => authority.clone(),
        _ => format!("http://{authority}{}", asked.path),
    };
    Request::builder()
        .method(method)
        .uri(&target)
        .header(header::HOST, authority)
        .header(header::CONNECTION, "close")
        .header(hop_report::FIELD, hop_report::ASKS)
        .body(Empty::new())
        .map_err(|error| Failure::invalid(format!("{target}: {error}")))
}

/// The target as a request names it.
fn authority(asked: &Inquiry, with_port: bool) -> String {
    match asked.port {
        80 if !with_port => asked.host.clone(),
        port => format!("{}:{port}", asked.host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_listeners_on_addresses_are_asked() {
        let made = |url: &str| Proxy::new(url.to_owned(), Duration::from_secs(1)).is_ok();
        assert!(made("http://127.0.0.1:8080") && made("http://[::1]:8080"));
        for url in ["https://127.0.0.1:8443", "http://example.org:80", "8080"] {
            assert!(!made(url), "{url}");
        }
    }
}
