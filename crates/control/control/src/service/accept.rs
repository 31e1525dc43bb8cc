//! Connections of agents: accepted at a bounded rate, judged by their certificates, served as gRPC.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::controller::Controller;
use super::grpc;

/// Handshakes that begin in a second: after a restart all nodes come back, and each handshake costs a signature.
#[doc(alias = "bound")]
const HANDSHAKES_PER_SECOND: u32 = 500;

/// Handshakes at once. Others wait in the kernel's queue.
#[doc(alias = "bound")]
const HANDSHAKES: usize = 64;

/// Connections at once.
#[doc(alias = "bound")]
const CONNECTIONS: usize = 20_000;

/// Connections at once of those who show no certificate: they only join.
#[doc(alias = "bound")]
const STRANGERS: usize = 128;

/// How long a handshake may take.
#[doc(alias = "bound")]
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long someone without a certificate may stay.
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
struct Rooms {
    handshakes: Semaphore,
    connections: Semaphore,
    strangers: Semaphore,
}

impl Rooms {
    fn new() -> Self {
        Self {
            handshakes: Semaphore::new(HANDSHAKES),
            connections: Semaphore::new(CONNECTIONS),
            strangers: Semaphore::new(STRANGERS),
        }
    }
}

/// Accepts connections until the task is dropped.
pub(super) async fn serve(controller: Arc<Controller>, listener: TcpListener) {
    let rooms = Arc::new(Rooms::new());
    let mut pace = interval(Duration::from_secs(1) / HANDSHAKES_PER_SECOND);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        let accepted = listener.accept().await;
        pace_of(&mut pace).await;
        match accepted {
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

/// Waits for a turn. Turns that no one took are lost but for those of the last tenth of a second.
async fn pace_of(pace: &mut tokio::time::Interval) {
    let turn = pace.tick().await;
    let behind = Instant::now().saturating_duration_since(turn);
    if behind > Duration::from_millis(100) {
        pace.reset();
    }
}

async fn one(controller: Arc<Controller>, rooms: Arc<Rooms>, stream: TcpStream, from: SocketAddr) {
    let Ok(_room) = rooms.connections.try_acquire() else {
        return tracing::warn!(%from, "there are {CONNECTIONS} connections, another one is closed");
    };
    match handshake(&controller, &rooms, stream).await {
        Ok(stream) => serve_one(&controller, &rooms, stream, from).await,
        Err(error) => tracing::debug!(%from, %error, "a handshake failed"),
    }
}

async fn handshake(
    controller: &Controller,
    rooms: &Rooms,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    // A handshake costs a signature: those that wait hold only a socket.
    let _turn = rooms.handshakes.acquire().await;
    stream.set_nodelay(true)?;
    // Taken anew for each connection, since the certificate is renewed while the controller runs.
    let acceptor = TlsAcceptor::from(controller.tls());
    timeout(HANDSHAKE, acceptor.accept(stream)).await?
}

async fn serve_one(
    controller: &Arc<Controller>,
    rooms: &Rooms,
    stream: TlsStream<TcpStream>,
    from: SocketAddr,
) {
    let chain = stream.get_ref().1.peer_certificates();
    let chain: Option<Arc<[CertificateDer<'static>]>> = chain.map(|chain| chain.to_vec().into());
    let stranger = match stranger(rooms, chain.is_none()) {
        Ok(stranger) => stranger,
        Err(()) => return tracing::warn!(%from, "{STRANGERS} others join already"),
    };

    let caller = grpc::Caller { chain, from };
    let controller = controller.clone();
    let service = service_fn(move |request: http::Request<Incoming>| {
        let controller = controller.clone();
        let caller = caller.clone();
        async move { Ok::<_, std::convert::Infallible>(grpc::answer(controller, caller, request).await) }
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

    let ended = match stranger {
        // A member stays as long as it likes.
        None => connection.await,
        Some(_room) => timeout(VISIT, connection).await.unwrap_or(Ok(())),
    };
    if let Err(error) = ended {
        tracing::debug!(%from, %error, "a connection ended");
    }
}

/// A room among those without a certificate, for one of them.
fn stranger(rooms: &Rooms, is_one: bool) -> Result<Option<SemaphorePermit<'_>>, ()> {
    if !is_one {
        return Ok(None);
    }
    rooms.strangers.try_acquire().map(Some).map_err(drop)
}
