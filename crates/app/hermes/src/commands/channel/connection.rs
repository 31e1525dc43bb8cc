//! A connection to a relay, or to the node that leads there.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::seal::{ChannelUrl, Seal};
use crate::failure::Failure;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Bytes of the content of a refusal that are read.
#[doc(alias = "bound")]
const MAX_REASON: usize = 64 * 1024;

/// The channel, and the way to it.
#[derive(Debug, Args)]
pub(super) struct ChannelAddress {
    /// The channel, such as `http://hub/c/chat`; with `#KEY`, messages are sealed by that key, which the relay does not see.
    #[arg(value_name = "URL")]
    url: ChannelUrl,
    /// A listener for programs of a node, which leads to the relay.
    #[arg(long, value_name = "URL", env = "http_proxy")]
    proxy: Option<Uri>,
}

/// A connection.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Whether requests name the whole URL.
    by_proxy: bool,
    url: Uri,
    /// Carries the bytes until this is dropped.
    _driver: JoinSet<()>,
}

/// What a relay could not do.
pub(super) enum Trouble {
    /// The channel is at another relay, at this URL.
    Moved(Uri),
    /// It was not reached, or went away: another attempt may succeed.
    Away(String),
    /// It refused, and would again.
    Refused(Failure),
}

impl ChannelAddress {
    /// The channel.
    pub(super) fn url(&self) -> &Uri {
        &self.url.uri
    }

    /// The key of its messages.
    pub(super) fn seal(&self) -> Option<&Seal> {
        self.url.seal.as_ref()
    }

    /// Connects.
    ///
    /// # Errors
    /// The URL is not one that this command speaks, or no one is there.
    pub(super) async fn connect(&self) -> Result<Connection, Trouble> {
        self.connect_to(&self.url.uri).await
    }

    /// Connects for another channel by the same way.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(super) async fn connect_to(&self, url: &Uri) -> Result<Connection, Trouble> {
        let first = self.proxy.as_ref().unwrap_or(url);
        let place = place(first).map_err(Trouble::Refused)?;
        place_of_channel(url).map_err(Trouble::Refused)?;
        let away = |error: &dyn std::fmt::Display| Trouble::Away(format!("{place}: {error}"));
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
        Ok(Connection {
            sender,
            by_proxy: self.proxy.is_some(),
            url: url.clone(),
            _driver: driver,
        })
    }
}

impl Connection {
    /// Sends a request to this path of the relay, and gives an answer of success.
    ///
    /// # Errors
    /// The relay went away, or refuses.
    pub(super) async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
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
        let answer = self.sender.send_request(request).await;
        let answer = answer.map_err(|error| Trouble::Away(error.to_string()))?;
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
        let failure = Failure::failed(format!("{}: {status}: {reason}", self.url));
        Err(match status.as_u16() {
            429 | 502..=504 => Trouble::Away(failure.reason),
            _ => Trouble::Refused(failure),
        })
    }
}

impl Trouble {
    /// As the end of a command that does not try again.
    pub(super) fn failure(self) -> Failure {
        match self {
            Self::Refused(failure) => failure,
            Self::Moved(there) => Failure::failed(format!("the channel is at {there} now")),
            Self::Away(reason) => {
                let remedy =
                    "is the relay running? through a node beside you: --proxy http://ADDRESS:PORT";
                Failure::unreachable(reason).remedy(remedy)
            }
        }
    }
}

/// A field of an answer, as the codec of the relay reads it.
pub(super) fn fields(headers: &HeaderMap) -> hermes_proto::fields::Fields {
    let lines = headers.iter();
    let lines = lines.map(|(name, value)| (name.clone(), value.clone()));
    hermes_proto::fields::Fields::from_iter(lines)
}

/// The path and query of the channel.
pub(super) fn path(url: &Uri) -> String {
    url.path_and_query()
        .map_or_else(|| "/".to_owned(), ToString::to_string)
}

/// The host and port of a URL that this command speaks.
fn place(url: &Uri) -> Result<String, Failure> {
    let host = place_of_channel(url)?;
    let port = url.port_u16().unwrap_or(80);
    Ok(format!("{host}:{port}"))
}

fn place_of_channel(url: &Uri) -> Result<&str, Failure> {
    let is_http = url.scheme_str() == Some("http");
    url.host().filter(|_| is_http).ok_or_else(|| {
        let remedy = "write http://HOST/PATH; over TLS it goes through a node beside you: --proxy http://ADDRESS:PORT";
        Failure::invalid(format!("{url} is no URL of http://")).remedy(remedy)
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
    crate::output::safe(text.trim()).replace('\n', " ")
}
