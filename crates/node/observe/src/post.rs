//! One message to a collecting server, and its outcome.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_config::model::HttpUrl;
use hermes_net::{Stream, connect, tls};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// Time for one message and its answer.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read: it says little.
#[doc(alias = "bound")]
const ANSWER_BYTES: usize = 64 * 1024;

/// A server that is told, and how to speak to it.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Where it is.
    pub server: HttpUrl,
    /// For `https`.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The name that its certificate must hold, where that is not its host.
    pub server_name: Option<String>,
}

/// The content: JSON.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) bytes: Bytes,
    /// Whether it is compressed by gzip.
    pub(super) is_gzip: bool,
}

/// Why a message was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct Refused {
    /// In words.
    pub reason: String,
    /// Whether the same message may be sent again (OTLP/HTTP, "Failures").
    pub again: bool,
}

impl Refused {
    fn again(reason: impl ToString) -> Self {
        Self {
            reason: reason.to_string(),
            again: true,
        }
    }
}

/// Sends a message to this path below that of the server. Each has a connection of its own: they are few.
///
/// # Errors
/// The server cannot be reached, or did not take it.
pub(super) async fn post(to: &Destination, below: &str, content: Content) -> Result<(), Refused> {
    timeout(TIME, send(to, below, content))
        .await
        .unwrap_or_else(|_| Err(Refused::again("no answer in time")))
}

async fn send(to: &Destination, below: &str, content: Content) -> Result<(), Refused> {
    let server = &to.server;
    let path = match (server.path.as_str(), below) {
        ("", "") => "/".to_owned(),
        (path, below) => format!("{path}{below}"),
    };
    let mut request = Request::post(path)
        .header(HOST, server.address.to_string())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("hermes/", env!("CARGO_PKG_VERSION")));
    if content.is_gzip {
        request = request.header(CONTENT_ENCODING, "gzip");
    }
    let request = request
        .body(Full::new(content.bytes))
        .map_err(|error| Refused {
            reason: error.to_string(),
            again: false,
        })?;

    let address = (server.address.host.as_str(), server.address.port);
    let found = lookup_host(address).await.map_err(Refused::again)?;
    let addresses: Vec<SocketAddr> = found.collect();
    let stream = connect::tcp(&addresses, TIME)
        .await
        .map_err(Refused::again)?;
    let peer = stream.peer_addr().map_err(Refused::again)?;
    let mut stream = Stream::tcp(stream, peer);

    if let Some(config) = &to.tls {
        let name = to.server_name.as_deref().unwrap_or(&server.address.host);
        stream = tls::connect(stream, config.clone(), name, TIME)
            .await
            .map_err(Refused::again)?;
    }

    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(Refused::again)?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(Refused::again)?;
        let status = answer.status();
        // The content of the answer does not matter, but reading it keeps the connection usable.
        let _ = Limited::new(answer.into_body(), ANSWER_BYTES)
            .collect()
            .await;
        judge(status)
    };

    tokio::pin!(exchange, connection);
    let mut open = true;
    loop {
        // A connection that ended may leave an answer that is still to be read.
        tokio::select! {
            done = &mut exchange => return done,
            _ = &mut connection, if open => open = false,
        }
    }
}

fn judge(status: StatusCode) -> Result<(), Refused> {
    let again = matches!(status.as_u16(), 429 | 502..=504);
    if status.is_success() {
        Ok(())
    } else {
        Err(Refused {
            reason: format!("it answered {status}"),
            again,
        })
    }
}
