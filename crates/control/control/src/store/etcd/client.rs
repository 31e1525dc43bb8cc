//! Calls to the servers of an etcd: one after the other is tried until one answers or the time is over.

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use parking_lot::Mutex;
use prost::Message;
use rustls::ClientConfig;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use super::messages::{
    LeaseKeepAliveResponse, LeaseRequest, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
    WatchCreateRequest, WatchRequest, WatchResponse, methods,
};
use crate::connection::{Connection, Endpoint};
use crate::store::StoreError;

/// How long one server may take to answer.
#[doc(alias = "bound")]
const ATTEMPT: Duration = Duration::from_secs(2);

/// How long a call may take, all servers together: members of an etcd need seconds to choose another leader.
#[doc(alias = "bound")]
const CALL: Duration = Duration::from_secs(10);

/// The pause before another server is tried.
const PAUSE: Duration = Duration::from_millis(50);

/// Bytes of the longest answer.
#[doc(alias = "bound")]
const ANSWER: usize = 128 * 1024 * 1024;

/// A client of one etcd.
pub(super) struct Client {
    endpoints: Vec<Endpoint>,
    tls: Option<Arc<ClientConfig>>,
    current: Mutex<Current>,
}

/// The server that is spoken to.
#[derive(Default)]
struct Current {
    /// Index of its endpoint.
    server: usize,
    connection: Option<Connection>,
    /// Changes with each connection, so that one failure ends one connection.
    number: u64,
}

/// A connection, and its server.
pub(super) struct Connected {
    connection: Connection,
    number: u64,
    server: String,
}

/// A stream of news about keys. It ends with this.
pub(super) struct Watching {
    messages: Streaming<WatchResponse>,
    _requests: mpsc::Sender<WatchRequest>,
}

impl Client {
    pub(super) fn new(endpoints: Vec<Endpoint>, tls: Option<Arc<ClientConfig>>) -> Self {
        Self {
            endpoints,
            tls,
            current: Mutex::default(),
        }
    }

    /// The servers in words.
    pub(super) fn endpoints(&self) -> String {
        let shown: Vec<_> = self.endpoints.iter().map(Endpoint::to_string).collect();
        shown.join(", ")
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        self.ask(methods::RANGE, request).await
    }

    /// A transaction that may be carried out twice.
    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, StoreError> {
        self.ask(methods::TXN, request).await
    }

    /// Asks, if need be several servers, until one answers. The request may be carried out several times, where a server was lost before
    /// its answer.
    pub(super) async fn ask<Q, A>(&self, method: &'static str, request: Q) -> Result<A, StoreError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let until = Instant::now() + CALL;
        loop {
            let failed = match self.connected().await {
                Err(reason) => reason,
                Ok(connected) => match once(&connected, method, request.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(status) => {
                        let reason = format!("{}: {}", connected.server, status.message());
                        if !is_passing(&status) {
                            return Err(self.refused(&connected, &status));
                        }
                        self.leave(connected.number);
                        reason
                    }
                },
            };
            if Instant::now() >= until {
                return Err(StoreError::Unreachable {
                    endpoints: self.endpoints(),
                    reason: failed,
                });
            }
            sleep(PAUSE).await;
        }
    }

    /// The connection of now, or one to the next server.
    async fn connected(&self) -> Result<Connected, String> {
        let (server, known) = {
            let current = self.current.lock();
            (current.server, current.connection.clone())
        };
        let endpoint = &self.endpoints[server % self.endpoints.len()];
        let connection = match known {
            Some(connection) => connection,
            None => match Connection::open(endpoint, self.tls.clone()).await {
                Ok(connection) => connection,
                Err(error) => {
                    self.pass(server);
                    return Err(format!("{endpoint}: {error}"));
                }
            },
        };
        let mut current = self.current.lock();
        // Where two have connected at once, the later connection serves both.
        if current.connection.is_none() {
            current.number += 1;
            current.connection = Some(connection.clone());
        }
        Ok(Connected {
            connection,
            number: current.number,
            server: endpoint.to_string(),
        })
    }

    /// A server did not take a connection: the next one is tried.
    fn pass(&self, server: usize) {
        let mut current = self.current.lock();
        if current.server == server && current.connection.is_none() {
            current.server = (server + 1) % self.endpoints.len();
        }
    }

    /// A connection has failed: the next server is tried.
    fn leave(&self, number: u64) {
        let mut current = self.current.lock();
        if current.number == number && current.connection.take().is_some() {
            current.server = (current.server + 1) % self.endpoints.len();
        }
    }

    fn refused(&self, connected: &Connected, status: &Status) -> StoreError {
        if status.code() == Code::ResourceExhausted {
            return self.full(&format!("{}: {}", connected.server, status.message()));
        }
        let reason = match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => {
                "the controller may not do this; etcd has to know its client certificate"
            }
            _ => "etcd refuses",
        };
        StoreError::new(format!(
            "{}: {reason}: {}",
            connected.server,
            status.message()
        ))
    }

    /// There is no room in the database.
    pub(super) fn full(&self, reason: &str) -> StoreError {
        StoreError::Full {
            place: format!("etcd at {}", self.endpoints()),
            reason: reason.to_owned(),
            remedy: "raise --quota-backend-bytes of etcd, or make room by `etcdctl defrag`; then `etcdctl alarm disarm`".to_owned(),
        }
    }

    /// Keeps a lease for longer; returns its seconds, 0 if there is none any more.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<i64, String> {
        let connected = self.connected().await?;
        let kept = timeout(ATTEMPT, kept_alive(&connected, lease)).await;
        let failed = |reason: String| {
            self.leave(connected.number);
            format!("{}: {reason}", connected.server)
        };
        match kept {
            Ok(Ok(seconds)) => Ok(seconds),
            Ok(Err(status)) => Err(failed(status.message().to_owned())),
            Err(_) => Err(failed("no answer".to_owned())),
        }
    }

    /// Watches keys from now on.
    pub(super) async fn watch(&self, create: Vec<WatchCreateRequest>) -> Result<Watching, String> {
        let connected = self.connected().await?;
        let failed = |reason: String| {
            self.leave(connected.number);
            format!("{}: {reason}", connected.server)
        };
        let begun = timeout(ATTEMPT, watching(&connected, create)).await;
        begun
            .map_err(|_| failed("no answer".to_owned()))?
            .map_err(|status| failed(status.message().to_owned()))
    }
}

impl Watching {
    /// Waits until a key changes.
    ///
    /// # Errors
    /// The watch has ended: changes may have been missed.
    pub(super) async fn news(&mut self) -> Result<(), String> {
        match self.messages.message().await {
            Ok(Some(news)) if news.canceled => Err(news.cancel_reason),
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("the server ended the watch".to_owned()),
            Err(status) => Err(status.message().to_owned()),
        }
    }
}

async fn once<Q, A>(connected: &Connected, method: &'static str, request: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = connected.connection.clone().grpc(ANSWER);
    let asked = async {
        grpc.ready().await.map_err(lost)?;
        let request = tonic::Request::new(request);
        let codec = ProstCodec::<Q, A>::default();
        grpc.unary(request, PathAndQuery::from_static(method), codec)
            .await
    };
    let answer = timeout(ATTEMPT, asked).await;
    let answer = answer.map_err(|_| Status::unavailable(format!("no answer in {ATTEMPT:?}")))?;
    answer.map(tonic::Response::into_inner)
}

async fn kept_alive(connected: &Connected, lease: i64) -> Result<i64, Status> {
    let mut grpc = connected.connection.clone().grpc(ANSWER);
    grpc.ready().await.map_err(lost)?;
    let codec = ProstCodec::<LeaseRequest, LeaseKeepAliveResponse>::default();
    let requests = tokio_stream::once(LeaseRequest { id: lease });
    let path = PathAndQuery::from_static(methods::LEASE_KEEP_ALIVE);
    let answer = grpc
        .streaming(tonic::Request::new(requests), path, codec)
        .await?;
    let first = answer.into_inner().message().await?;
    let first = first.ok_or_else(|| Status::unavailable("the server ended the stream"))?;
    Ok(first.ttl)
}

async fn watching(
    connected: &Connected,
    create: Vec<WatchCreateRequest>,
) -> Result<Watching, Status> {
    let mut grpc = connected.connection.clone().grpc(ANSWER);
    grpc.ready().await.map_err(lost)?;
    let count = create.len();
    let (requests, waiting) = mpsc::channel(count.max(1));
    for create in create {
        // There is room for all of them.
        let _ = requests.try_send(WatchRequest {
            create: Some(create),
        });
    }
    let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
    let path = PathAndQuery::from_static(methods::WATCH);
    let mut waiting = tonic::Request::new(ReceiverStream::new(waiting));
    // A member that is cut off from the others ends the watch instead of being silent for ever.
    let metadata = waiting.metadata_mut();
    metadata.insert("hasleader", AsciiMetadataValue::from_static("true"));
    let answer = grpc.streaming(waiting, path, codec).await?;
    let mut messages = answer.into_inner();
    for _ in 0..count {
        let first = messages.message().await?;
        if !first.is_some_and(|first| first.created && !first.canceled) {
            return Err(Status::unavailable("the server does not watch"));
        }
    }
    Ok(Watching {
        messages,
        _requests: requests,
    })
}

fn lost(error: hyper::Error) -> Status {
    Status::unavailable(error.to_string())
}

/// Whether another server, or the same one in a while, may answer.
fn is_passing(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Unknown
            | Code::Internal
            | Code::Cancelled
            | Code::Aborted
    ) || status.message().contains("too many requests")
}
