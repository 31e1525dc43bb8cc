//! A connection to a relay, or to the node that leads there.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::channel::Channel;
use crate::error::ClientError;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Bytes of the content of a refusal that are read.
#[doc(alias = "bound")]
const MAX_REASON: usize = 64 * 1024;

/// The content of a request.
pub(crate) type Content = BoxBody<Bytes, std::io::Error>;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Content>,
    /// Whether requests name the whole URL.
    by_proxy: bool,
    url: Uri,
    /// Carries the bytes until this is dropped.
    _driver: JoinSet<()>,
}

/// A request that a relay did not fulfil.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The channel is at another relay, at this URL.
    Moved(Uri),
    /// It failed.
    Failed(ClientError),
}

impl Trouble {
    fn away(reason: String) -> Self {
        Self::Failed(ClientError::Away(reason))
    }

    /// As the failure of a request that does not go on elsewhere.
    pub(crate) fn error(self) -> ClientError {
        match self {
            Self::Moved(there) => ClientError::Away(format!("the channel is at {there} now")),
            Self::Failed(error) => error,
        }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        Self::Failed(error)
    }
}

impl Connection {
    /// Connects for this URL, by the way of a channel.
    ///
    /// # Errors
    /// The URL is not one that this client speaks, or no one is there.
    pub(crate) async fn to(channel: &Channel, url: &Uri) -> Result<Self, Trouble> {
        let first = channel.proxy.as_ref().unwrap_or(url);
        let place = place(first)?;
        host(url)?;
        let away = |error: &dyn std::fmt::Display| Trouble::away(format!("{place}: {error}"));
        let stream = timeout(CONNECT, TcpStream::connect(&place)).await;
        let stream = stream
            .map_err(|_| away(&"no connection in time"))?
            .map_err(|error| away(&error))?;
        // A message is small, and someone waits for it.
        drop(stream.set_nodelay(true));
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| away(&error))?;
        let mut driver = JoinSet::new();
        // Its errors show in the request that meets them.
        driver.spawn(async move { drop(connection.await) });
        Ok(Self {
            sender,
            by_proxy: channel.proxy.is_some(),
            url: url.clone(),
            _driver: driver,
        })
    }

    /// Whether it takes another request.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request to its path at the relay, and gives an answer of success.
    ///
    /// # Errors
    /// The relay went away, or refuses.
    pub(crate) async fn send(
        &mut self,
        mut request: Request<Content>,
    ) -> Result<Response<Incoming>, Trouble> {
        let host = self.url.authority().map_or("", |host| host.as_str());
        if let Ok(host) = host.parse() {
            request.headers_mut().insert(header::HOST, host);
        }
        if self.by_proxy {
            let path = request.uri().to_string();
            let whole = format!("http://{host}{path}").parse();
            if let Ok(whole) = whole {
                *request.uri_mut() = whole;
            }
        }
        let ready = self.sender.ready().await;
        ready.map_err(|error| Trouble::away(error.to_string()))?;
        let answer = self.sender.send_request(request).await;
        let answer = answer.map_err(|error| Trouble::away(error.to_string()))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let location = answer.headers().get(header::LOCATION);
        if let Some(there) = location.and_then(|location| Uri::try_from(location.as_bytes()).ok())
            && status == StatusCode::TEMPORARY_REDIRECT
            && there.host().is_some()
        {
            return Err(Trouble::Moved(there));
        }
        let reason = reason(answer.into_body()).await;
        let reason = format!("{}: {status}: {reason}", self.url);
        Err(Trouble::Failed(match status.as_u16() {
            429 | 502..=504 => ClientError::Away(reason),
            _ => ClientError::Refused(reason),
        }))
    }
}

/// A content that is at hand.
pub(crate) fn whole(data: Bytes) -> Content {
    Full::new(data).map_err(|never| match never {}).boxed()
}

/// No content.
pub(crate) fn empty() -> Content {
    whole(Bytes::new())
}

/// The fields of an answer, as the codec of the relay reads them.
pub(crate) fn fields(headers: &HeaderMap) -> hermes_proto::fields::Fields {
    let lines = headers.iter();
    let lines = lines.map(|(name, value)| (name.clone(), value.clone()));
    hermes_proto::fields::Fields::from_iter(lines)
}

/// The host and port of a URL that this client speaks.
fn place(url: &Uri) -> Result<String, ClientError> {
    let host = host(url)?;
    let port = url.port_u16().unwrap_or(80);
    Ok(format!("{host}:{port}"))
}

fn host(url: &Uri) -> Result<&str, ClientError> {
    let is_http = url.scheme_str() == Some("http");
    url.host().filter(|_| is_http).ok_or_else(|| {
        let remedy = "write http://HOST/PATH; over TLS it goes through a node beside you, a proxy";
        ClientError::Invalid(format!("{url} is no URL of http://: {remedy}"))
    })
}

/// The content of a refusal, in one line.
async fn reason(mut content: Incoming) -> String {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = content.frame().await {
        if let Some(data) = frame.data_ref() {
            read.extend_from_slice(data);
        }
        if read.len() > MAX_REASON {
            break;
        }
    }
    let text = String::from_utf8_lossy(&read);
    text.trim().replace(|letter: char| letter.is_control(), " ")
}
