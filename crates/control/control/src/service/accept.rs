//! Connections of agents: accepted at a bounded rate, judged by their certificates, served as gRPC.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hermes_api::Name;
use hermes_net::clock::unix_seconds;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::admission::{Admission, AdmissionBounds, Admitted, tell_later};
use super::calls::{CallRates, Calls, Party, call_rates};
use super::controller::Controller;
use super::grpc;
use super::shares::{Share, Shares, source};
use crate::rates::Rates;

/// Connections at once of strangers of one source: an address, or a /64 of IPv6.
#[doc(alias = "bound")]
const STRANGERS_OF_SOURCE: u32 = 64;

/// Connections at once of one member: the one that ends, the one that replaces it, and renewals.
#[doc(alias = "bound")]
const OF_A_MEMBER: u32 = 4;

/// Connections of one member, one after the other without a pause.
#[doc(alias = "bound")]
const RETURNS: u32 = 32;

/// The time after which such a member may have another one.
#[doc(alias = "bound")]
const NEXT_RETURN: Duration = Duration::from_secs(1);

/// Connections at once.
#[doc(alias = "bound")]
const CONNECTIONS: usize = 20_000;

/// Connections that the kernel keeps until they are accepted; it may keep fewer (`net.core.somaxconn`).
#[doc(alias = "bound")]
const BACKLOG: i32 = 4096;

/// Connections at once of other controllers of the overlay.
#[doc(alias = "bound")]
const CONTROLLERS: usize = 64;

/// Connections at once of those who are no members: they only join, or learn why not.
#[doc(alias = "bound")]
const STRANGERS: usize = 512;

/// How long a handshake may take.
#[doc(alias = "bound")]
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long someone who is no member may stay.
#[doc(alias = "bound")]
const VISIT: Duration = Duration::from_secs(20);

/// Bytes that an agent may send ahead of what the controller has read.
#[doc(alias = "bound")]
const WINDOW: u32 = 64 * 1024;

/// Streams of one agent: its own, and a renewal beside it.
#[doc(alias = "bound")]
const STREAMS: u32 = 8;

/// Bytes of one agent that wait to be sent.
#[doc(alias = "bound")]
const SEND_BUFFER: usize = 64 * 1024;

/// Bytes of one agent's request head.
#[doc(alias = "bound")]
const HEAD: u32 = 8 * 1024;

/// A silent agent is asked after so long.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How long an agent may take to answer a ping.
#[doc(alias = "bound")]
const SILENCE: Duration = Duration::from_secs(20);

/// The rooms that connections take.
#[derive(Debug)]
struct AgentRooms {
    connections: Semaphore,
    strangers: Semaphore,
    controllers: Semaphore,
    admission: Admission,
    strangers_of_source: Shares<IpAddr>,
    members: Shares<Name>,
    /// How often members connect.
    returns: Rates<Name>,
    calls: Arc<CallRates>,
}

/// Who has a connection.
enum Standing<'a> {
    Member {
        node: Name,
        _share: Share<Name>,
    },
    Controller {
        _room: SemaphorePermit<'a>,
    },
    Stranger {
        _room: SemaphorePermit<'a>,
        _share: Share<IpAddr>,
    },
}

impl Standing<'_> {
    fn party(&self, from: SocketAddr) -> Party {
        match self {
            Self::Member { node, .. } => Party::Member(node.clone()),
            Self::Controller { .. } => Party::Controller,
            Self::Stranger { .. } => Party::Stranger(from),
        }
    }

    /// Until the connection ends, or has to.
    async fn stay(&self, connection: impl Future<Output = hyper::Result<()>>) -> hyper::Result<()> {
        match self {
            // A member stays as long as it likes.
            Self::Member { .. } | Self::Controller { .. } => connection.await,
            Self::Stranger { .. } => timeout(VISIT, connection).await.unwrap_or(Ok(())),
        }
    }
}

impl AgentRooms {
    fn new() -> Self {
        Self {
            connections: Semaphore::new(CONNECTIONS),
            strangers: Semaphore::new(STRANGERS),
            controllers: Semaphore::new(CONTROLLERS),
            admission: Admission::new(AdmissionBounds::default()),
            strangers_of_source: Shares::new(STRANGERS_OF_SOURCE),
            members: Shares::new(OF_A_MEMBER),
            returns: Rates::new(RETURNS, NEXT_RETURN),
            calls: Arc::new(call_rates()),
        }
    }
}

/// Accepts connections until the task is dropped.
pub(super) async fn serve(controller: Arc<Controller>, listener: TcpListener) {
    let rooms = Arc::new(AgentRooms::new());
    // Those that the kernel has no place for are lost for a second, and then for longer.
    if let Err(error) = rustix::net::listen(&listener, BACKLOG) {
        tracing::warn!(%error, "few agents can come at once");
    }
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                tokio::spawn(one(controller.clone(), rooms.clone(), stream, from));
            }
            Err(error) => {
                // Out of descriptors, mostly: others close in a while.
                tracing::warn!(%error, "an agent cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn one(
    controller: Arc<Controller>,
    rooms: Arc<AgentRooms>,
    stream: TcpStream,
    from: SocketAddr,
) {
    let Ok(_room) = rooms.connections.try_acquire() else {
        tell_later(&stream);
        return tracing::warn!(peer = %from, "there are {CONNECTIONS} connections, another one is closed");
    };
    // Boxed, as all that does not last.
    let Ok(admitted) = Box::pin(rooms.admission.admit(source(from.ip()))).await else {
        return tell_later(&stream);
    };
    match handshake(&controller, stream).await {
        Ok(stream) => serve_one(&controller, &rooms, stream, from, admitted).await,
        Err(error) => tracing::debug!(peer = %from, %error, "a handshake failed"),
    }
}

/// Boxed: the state of TLS would be in the future of a connection once for each function that it passes through, and there are
/// thousands of connections.
type BoxedStream = Box<TlsStream<TcpStream>>;

async fn handshake(controller: &Controller, stream: TcpStream) -> io::Result<BoxedStream> {
    stream.set_nodelay(true)?;
    // Taken anew for each connection, since the certificate is renewed while the controller runs.
    let acceptor = TlsAcceptor::from(controller.tls());
    let accepted = timeout(HANDSHAKE, Box::pin(acceptor.accept(stream))).await?;
    accepted.map(Box::new)
}

/// Who it is, and the room that this takes; the reason if there is none.
async fn standing<'a>(
    controller: &Arc<Controller>,
    rooms: &'a AgentRooms,
    chain: Option<Arc<[CertificateDer<'static>]>>,
    from: SocketAddr,
    admitted: Admitted<'_>,
) -> Result<Standing<'a>, String> {
    let judged = match chain {
        Some(chain) => judge(controller.clone(), chain).await,
        None => None,
    };
    match judged {
        Some(Judged::Member(node)) => {
            let now = Duration::from_millis(controller.now());
            if !rooms.returns.take(node.clone(), now) {
                return Err(format!("{node} connects all the time"));
            }
            let Some(share) = rooms.members.take(node.clone()) else {
                return Err(format!("{node} has {OF_A_MEMBER} connections already"));
            };
            admitted.was_a_member();
            Ok(Standing::Member {
                node,
                _share: share,
            })
        }
        Some(Judged::Controller) => {
            let room = rooms.controllers.try_acquire();
            let room =
                room.map_err(|_| format!("{CONTROLLERS} of other controllers are there already"))?;
            admitted.was_a_member();
            Ok(Standing::Controller { _room: room })
        }
        None => {
            let room = rooms.strangers.try_acquire();
            let room = room.map_err(|_| format!("{STRANGERS} others join already"))?;
            let share = rooms.strangers_of_source.take(source(from.ip()));
            let share = share.ok_or_else(|| {
                format!("{STRANGERS_OF_SOURCE} others of its address join already")
            })?;
            Ok(Standing::Stranger {
                _room: room,
                _share: share,
            })
        }
    }
}

/// The party of a certificate.
enum Judged {
    Member(Name),
    Controller,
}

/// Whose certificate it is, if it is one's of the overlay. Anyone can make a certificate, and shows nothing by it.
async fn judge(
    controller: Arc<Controller>,
    chain: Arc<[CertificateDer<'static>]>,
) -> Option<Judged> {
    // The store may stand still, and must not stop the run time.
    let judged = tokio::task::spawn_blocking(move || {
        if controller.is_controller(&chain) {
            return Some(Judged::Controller);
        }
        let member = controller.member(&chain, unix_seconds()).ok()?;
        Some(Judged::Member(member.node))
    });
    judged.await.ok()?
}

async fn serve_one(
    controller: &Arc<Controller>,
    rooms: &AgentRooms,
    stream: BoxedStream,
    from: SocketAddr,
    admitted: Admitted<'_>,
) {
    let chain = stream.get_ref().1.peer_certificates();
    let chain: Option<Arc<[CertificateDer<'static>]>> = chain.map(|chain| chain.to_vec().into());
    let standing = match standing(controller, rooms, chain.clone(), from, admitted).await {
        Ok(standing) => standing,
        Err(reason) => return tracing::warn!(peer = %from, "a connection is closed: {reason}"),
    };

    let calls = Calls::new(standing.party(from), rooms.calls.clone());
    let calls = Arc::new(calls);
    let caller = grpc::Caller::new(chain, from, calls.clone());
    let controller = controller.clone();
    let service = service_fn(move |request: http::Request<Incoming>| {
        let controller = controller.clone();
        let caller = caller.clone();
        // It ends with the head of the answer, and its room is free again while the stream goes on.
        Box::pin(
            async move { Ok::<_, Infallible>(grpc::answer(controller, caller, request).await) },
        )
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(HEAD)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(SILENCE)
        .serve_connection(TokioIo::new(stream), service);
    let connection = Box::pin(connection);

    tokio::select! {
        ended = standing.stay(connection) => if let Err(error) = ended {
            tracing::debug!(peer = %from, %error, "a connection ended");
        },
        () = calls.exceeded() => {
            tracing::warn!(peer = %from, "a connection is closed: it calls all the time");
        }
    }
}
