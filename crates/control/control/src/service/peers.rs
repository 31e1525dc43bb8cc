//! Other controllers: requests of operators that only the leader answers are passed on to it.
//!
//! Controllers speak to each other at the address of agents, over mutual TLS; both show a certificate that only a controller has.

use std::sync::Arc;
use std::time::Duration;

use hermes_api::{Operation, OperationAnswer, methods};
use hermes_net::clock::unix_seconds;
use http::uri::PathAndQuery;
use http::{StatusCode, Uri};
use parking_lot::Mutex;
use rustls::ClientConfig;
use serde_json::json;
use tokio::time::{Instant, timeout};
use tonic_prost::ProstCodec;

use super::admin::{Answered, REQUEST};
use super::controller::Controller;
use crate::connection::{Connection, Endpoint};
use crate::store::Role;

/// How long a request waits for a leader.
#[doc(alias = "bound")]
const PATIENCE: Duration = Duration::from_secs(15);

/// How often a leader that did not answer is looked for again.
const AGAIN: Duration = Duration::from_millis(300);

/// The way to other controllers.
pub(super) struct Peers {
    tls: Mutex<Arc<ClientConfig>>,
    /// To the leader that was asked last.
    connection: Mutex<Option<ToPeer>>,
}

/// A connection to another controller.
#[derive(Clone)]
struct ToPeer {
    url: String,
    connection: Connection,
}

/// Why the leader has not answered.
enum NotAnswered {
    /// It has not got the request.
    Unsent(String),
    /// It may have carried it out.
    Lost(String),
}

impl Peers {
    pub(super) fn new(tls: Arc<ClientConfig>) -> Self {
        Self {
            tls: Mutex::new(tls),
            connection: Mutex::new(None),
        }
    }

    /// This controller has other certificates from now on.
    pub(super) fn renewed(&self, tls: Arc<ClientConfig>) {
        *self.tls.lock() = tls;
        *self.connection.lock() = None;
    }
}

impl Controller {
    /// The leader's answer to a request; `None` if this is the leader.
    pub(super) async fn passed_on(self: &Arc<Self>, operation: &Operation) -> Option<Answered> {
        let mut part = self.election.part.subscribe();
        let until = Instant::now() + PATIENCE;
        let mut reason = "there is none".to_owned();
        while Instant::now() < until {
            let current = part.borrow_and_update().clone();
            match current {
                Role::Leads => return None,
                Role::Follows(None) => {}
                Role::Follows(Some(leader)) => match self.ask(&leader.url, operation).await {
                    Ok(answer) if answer.status != StatusCode::MISDIRECTED_REQUEST => {
                        return Some(answer);
                    }
                    Ok(_) => reason = format!("{} does not lead any more", leader.url),
                    Err(NotAnswered::Lost(lost)) if operation.changes => {
                        let said = format!(
                            "the leader at {} was lost before it answered ({lost}); `hermes history` says whether the change was made",
                            leader.url
                        );
                        return Some(unavailable(&said));
                    }
                    Err(NotAnswered::Lost(lost) | NotAnswered::Unsent(lost)) => {
                        reason = format!("{}: {lost}", leader.url);
                    }
                },
            }
            // Another leader may be there by then; if not, this one is asked again.
            let _ = timeout(AGAIN, part.changed()).await;
        }
        Some(unavailable(&format!(
            "the leader of the controllers does not answer: {reason}"
        )))
    }

    async fn ask(
        self: &Arc<Self>,
        url: &str,
        operation: &Operation,
    ) -> Result<Answered, NotAnswered> {
        let connection = self.to_peer(url).await.map_err(NotAnswered::Unsent)?;
        let mut grpc = connection.grpc(REQUEST);
        if let Err(error) = grpc.ready().await {
            *self.peers.connection.lock() = None;
            return Err(NotAnswered::Unsent(error.to_string()));
        }
        let codec = ProstCodec::<Operation, OperationAnswer>::default();
        let request = tonic::Request::new(operation.clone());
        // Without a bound: a change may take long to spread, and a leader that is gone does not answer pings.
        let answer = grpc
            .unary(request, PathAndQuery::from_static(methods::OPERATE), codec)
            .await;
        let answer = answer.map_err(|status| {
            *self.peers.connection.lock() = None;
            NotAnswered::Lost(status.message().to_owned())
        })?;
        let answer = answer.into_inner();
        let status = u16::try_from(answer.status).unwrap_or_default();
        Ok(Answered {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY),
            value: serde_json::from_slice(&answer.body).unwrap_or_default(),
        })
    }

    async fn to_peer(self: &Arc<Self>, url: &str) -> Result<Connection, String> {
        let known = self.peers.connection.lock().clone();
        if let Some(known) = known.filter(|known| known.url == url) {
            return Ok(known.connection);
        }
        let tls = self.peers.tls.lock().clone();
        let opened = Connection::secured(&endpoint(url)?, tls).await;
        let stream = opened.map_err(|error| error.to_string())?;
        let chain = stream.chain();
        let controller = self.clone();
        let judge = move || controller.authority.controller(&chain, unix_seconds());
        let judged = tokio::task::spawn_blocking(judge).await;
        judged
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;

        let connection = stream.begin().await.map_err(|error| error.to_string())?;
        *self.peers.connection.lock() = Some(ToPeer {
            url: url.to_owned(),
            connection: connection.clone(),
        });
        Ok(connection)
    }
}

/// The server of an URL as controllers say theirs.
fn endpoint(url: &str) -> Result<Endpoint, String> {
    let bad = || format!("{url:?} is no address of a controller");
    let uri: Uri = url.parse().map_err(|_| bad())?;
    let host = uri.host().ok_or_else(bad)?;
    let host = host.strip_prefix('[').unwrap_or(host);
    Ok(Endpoint {
        host: host.strip_suffix(']').unwrap_or(host).to_owned(),
        port: uri.port_u16().ok_or_else(bad)?,
    })
}

fn unavailable(reason: &str) -> Answered {
    Answered {
        status: StatusCode::SERVICE_UNAVAILABLE,
        value: json!({ "error": reason, "problems": [] }),
    }
}
