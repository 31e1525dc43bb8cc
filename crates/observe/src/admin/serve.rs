//! Connections of the administrator, each for one request.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
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
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::LOG;

/// Administrative connections at once: administrators are few. A further one takes the place of the oldest that has asked for nothing
/// yet; where all have, it waits.
#[doc(alias = "bound")]
const CONNECTIONS: usize = 64;

/// Time until a request's head is complete.
#[doc(alias = "bound")]
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Time for a whole connection, a reload included.
#[doc(alias = "bound")]
const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// How long a connection has at least before it gives way: of a crowd that comes at once, each has something to say.
const GRACE: Duration = Duration::from_millis(200);

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
}

impl Accept for UnixListener {
    type Io = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Accept for TcpListener {
    type Io = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
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

/// A connection that may have to give way.
struct Waiting {
    /// When it was accepted.
    since: Instant,
    /// Its request has come.
    has_asked: AtomicBool,
    gives_way: Notify,
}

impl Waiting {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            has_asked: AtomicBool::new(false),
            gives_way: Notify::new(),
        }
    }

    /// Resolves when another connection is to have its place. A request that has come meanwhile is answered.
    async fn dismissed(&self) {
        loop {
            self.gives_way.notified().await;
            // One that has had its time goes at once: each of a crowd waits for all before it.
            sleep_until(self.since + GRACE).await;
            if !self.has_asked.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Places for connections, and who has one without having asked for anything.
struct Places {
    slots: Arc<Semaphore>,
    waiting: VecDeque<Weak<Waiting>>,
}

impl Places {
    fn new() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(CONNECTIONS)),
            waiting: VecDeque::new(),
        }
    }

    /// A place for a further connection.
    async fn take(&mut self) -> (Option<OwnedSemaphorePermit>, Arc<Waiting>) {
        if self.slots.available_permits() == 0 {
            self.dismiss();
        }

        // The semaphore is never closed.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let waiting = Arc::new(Waiting::new());
        self.waiting.retain(|other| other.strong_count() > 0);
        self.waiting.push_back(Arc::downgrade(&waiting));
        (slot, waiting)
    }

    /// Ends the oldest connection that has asked for nothing.
    fn dismiss(&mut self) {
        while let Some(oldest) = self.waiting.pop_front() {
            let idle = oldest
                .upgrade()
                .filter(|oldest| !oldest.has_asked.load(Ordering::Relaxed));
            if let Some(idle) = idle {
                return idle.gives_way.notify_one();
            }
        }
    }
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
            place = places.take() => place,
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
    let service = service_fn(move |request| {
        asking.has_asked.store(true, Ordering::Relaxed);
        let answer = Arc::clone(&answer);
        async move { Ok::<_, Infallible>(answer.answer(request).await) }
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
