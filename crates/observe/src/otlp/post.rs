//! One message to the collector, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_config::model::HttpUrl;
use hermes_net::{Stream, tls};
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time for one message and its answer.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read: it says little.
#[doc(alias = "bound")]
const ANSWER_BYTES: usize = 64 * 1024;

/// A collector, and how to speak to it.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Where it is.
    pub collector: HttpUrl,
    /// For `https`.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The name that its certificate must hold, where that is not its host.
    pub server_name: Option<String>,
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

/// Sends `message` to `/v1/SIGNAL` of the collector. Each has a connection of its own: they are few.
///
/// # Errors
/// The collector cannot be reached, or did not take it.
pub(super) async fn post(to: &Destination, signal: &str, message: &Value) -> Result<(), Refused> {
    timeout(TIME, send(to, signal, message))
        .await
        .unwrap_or_else(|_| Err(Refused::again("no answer in time")))
}

async fn send(to: &Destination, signal: &str, message: &Value) -> Result<(), Refused> {
    let collector = &to.collector;
    let request = Request::post(format!("{}/v1/{signal}", collector.path))
        .header(HOST, collector.address.to_string())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("hermes/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(message.to_string())))
        .map_err(|error| Refused {
            reason: error.to_string(),
            again: false,
        })?;

    let address = (collector.address.host.as_str(), collector.address.port);
    let stream = TcpStream::connect(address).await.map_err(Refused::again)?;
    let peer = stream.peer_addr().map_err(Refused::again)?;
    let mut stream = Stream::tcp(stream, peer);

    if let Some(config) = &to.tls {
        let name = to.server_name.as_deref().unwrap_or(&collector.address.host);
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
        // What it says decides nothing, but a connection is not cut in the middle of it.
        let _ = Limited::new(answer.into_body(), ANSWER_BYTES)
            .collect()
            .await;
        judge(status)
    };

    tokio::pin!(exchange, connection);
    let mut open = true;
    loop {
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
