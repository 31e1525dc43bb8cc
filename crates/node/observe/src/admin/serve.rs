//! Connections of the administrator, each for one request.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_net::Watch;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

use super::places::{Places, Source, Waiting};
use crate::LOG;

/// Time until a request's head is complete.
#[doc(alias = "bound")]
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Time for a whole connection, a reload included.
#[doc(alias = "bound")]
const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Bytes of a request's head.
#[doc(alias = "bound")]
const HEAD_BYTES: usize = 16 * 1024;

/// Pause after a failure to accept, such as no free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Something that accepts connections.
pub(super) trait Accept: Sync {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next connection.
    fn next(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;

    /// The source of a connection.
    fn source(io: &Self::Io) -> Source;
}

impl Accept for UnixListener {
    type Io = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }

    fn source(io: &UnixStream) -> Source {
        let of_user = io.peer_cred().map(|peer| Source::User(peer.uid()));
        of_user.unwrap_or(Source::Unknown)
    }
}

impl Accept for TcpListener {
    type Io = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }

    fn source(io: &TcpStream) -> Source {
        let of_address = io.peer_addr().map(|peer| Source::of_address(peer.ip()));
        of_address.unwrap_or(Source::Unknown)
    }
}

/// Something that answers requests.
pub(super) trait Answer: Send + Sync + 'static {
    /// The answer; failures are answers too.
    fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// Serves until `watch` drains. Connections are tasks of `watch`.
pub(super) async fn serve<L: Accept, A: Answer>(listener: &L, answer: Arc<A>, watch: &Watch) {
    let mut places = Places::new();
    loop {
        let accepted = tokio::select! {
            () = watch.graceful() => return,
            accepted = listener.next() => accepted,
        };
        let io = match accepted {
            Ok(io) => io,
            Err(error) => {
                tracing::warn!(target: LOG, "the administrator's connection was not accepted: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };

        let (slot, waiting) = tokio::select! {
            () = watch.graceful() => return,
            place = places.take(L::source(&io)) => place,
        };
        let task = connection(io, Arc::clone(&answer), waiting, watch.clone());
        watch.spawn(async move {
            task.await;
            drop(slot);
        });
    }
}

/// One connection, one request.
async fn connection<A: Answer>(
    io: impl AsyncRead + AsyncWrite + Unpin,
    answer: Arc<A>,
    waiting: Arc<Waiting>,
    watch: Watch,
) {
    let asking = Arc::clone(&waiting);
    let service = service_fn(move |mut request: Request<Incoming>| {
        asking.asked();
        request.extensions_mut().insert(Arc::clone(&asking));
        let answer = Arc::clone(&answer);
        let asking = Arc::clone(&asking);
        async move {
            let answered = answer.answer(request).await;
            asking.answered();
            Ok::<_, Infallible>(answered)
        }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES);
    let served = timeout(
        CONNECTION_TIME,
        http.serve_connection(TokioIo::new(io), service),
    );

    tokio::select! {
        // Bytes that have come are looked at before a connection is ended for its silence.
        biased;
        () = watch.forced() => {}
        // A client that left or broke the protocol is no concern of ours.
        _ = served => {}
        () = waiting.dismissed() => {}
    }
}
