//! One UDP client of a `udp` listener.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use hermes_http::RefusalReason;
use hermes_net::clock;
use hermes_net::{UdpError, UdpSocket};
use hermes_observe::{DropReason, Exchange};
use hermes_proto::datagram;
use hermes_proto::ip::IcmpError;
use hermes_rules::session::{Class, Turn};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::hold::HeldSession;
use super::room::in_room;
use super::{Bounds, CapturedFlow, ChargedBounds, Hold, Queue};

/// Bytes of one client that may wait once its tunnel is open: two of the batches that its listener takes at once, so that a
/// burst is not lost between one task and the next.
#[doc(alias = "bound")]
const OPEN_BYTES: usize = 1024 * 1024;

/// Bytes of datagrams that leave with the request for the tunnel: less than the 64 KiB that every
/// stream of HTTP/2 may carry at once, as some of it may be taken.
#[doc(alias = "bound")]
const EARLY_BYTES: usize = 16 * 1024;

/// How long an open tunnel may take to end when others need its room: time to tell the next hop.
#[doc(alias = "bound")]
const EVICTION: Duration = Duration::from_secs(2);

/// Datagrams that left before the answer to the tunnel's request (RFC 9298, section 5). They stay queued until it comes, for another try.
pub struct Early {
    /// As capsules.
    pub capsules: Bytes,
    /// How many.
    pub count: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// The number of the datagram behind them.
    end: u64,
}

/// Silence after which a session gives back the memory of a burst.
#[doc(alias = "bound")]
const QUIET: Duration = Duration::from_secs(1);

/// The receiver of a session's answers.
enum SessionClient {
    /// An address behind a socket.
    Address {
        address: SocketAddr,
        /// The address of ours that the client asked, which its answers come from.
        local: Option<IpAddr>,
        socket: Arc<UdpSocket>,
        /// The bytes before each answer.
        header: Bytes,
        /// The flow of which it is told errors, where it was captured.
        captured: Option<Box<CapturedFlow>>,
    },
    /// A pair of ports behind a tunnel of IP.
    Flow(Box<dyn SessionFlow>),
}

/// A pair of UDP ports whose datagrams do not pass a socket. It is released with this.
pub trait SessionFlow: Send + Sync {
    /// Keeps the ports through a silence of this length.
    fn outlast(&self, silence: Duration);

    /// Tells the sender at the ports that there is no tunnel, and why.
    fn refuse(&self, reason: &RefusalReason);

    /// Tells the sender at the ports that payloads of more than this many bytes do not go on.
    fn refuse_larger(&self, payload: usize);

    /// Sends datagrams of `segment` bytes, or one. A datagram that is too long, or finds no room, is lost.
    fn send(&self, data: &[u8], segment: Option<usize>);
}

/// How far a session is.
#[derive(Default)]
struct SessionPhase {
    is_open: AtomicBool,
    /// The session is in the listener's hold, where it may lose its datagrams.
    is_held: AtomicBool,
    /// Why there is no tunnel.
    refusal: OnceLock<Box<RefusalReason>>,
    /// The session takes no datagrams any more: the next one begins another session.
    is_retired: AtomicBool,
}

/// A client address and its datagrams that have not left yet. The listener fills it, the tunnel
/// empties it.
pub struct Session {
    client: SessionClient,
    began: Instant,
    queue: Mutex<Queue>,
    /// The listener's share of memory for datagrams that wait.
    hold: Option<Arc<Hold>>,
    ready: Notify,
    lost: Lost,
    /// Counts datagrams in both directions, to notice silence.
    activity: AtomicU64,
    phase: SessionPhase,
    /// The session began with the leftover of another one.
    is_second: bool,
    evicted: CancellationToken,
    /// The ICMP error about its flow.
    error: OnceLock<IcmpError>,
    exchange: OnceLock<Arc<Exchange>>,
}

impl Session {
    /// A session without datagrams. Queued ones are charged to its listener.
    pub fn new(
        client: SocketAddr,
        local: Option<IpAddr>,
        socket: Arc<UdpSocket>,
        bounds: Bounds,
        hold: &Arc<Hold>,
    ) -> Self {
        let client = SessionClient::Address {
            address: client,
            local,
            socket,
            header: Bytes::new(),
            captured: None,
        };
        let queue = Queue::charged(&ChargedBounds {
            bounds,
            account: hold.account().clone(),
        });
        Self {
            hold: Some(hold.clone()),
            ..Self::with(client, queue)
        }
    }

    /// The same, with these bytes before each answer to the client, such as the header of SOCKS
    /// (RFC 1928, 7).
    #[must_use]
    pub fn answered_with(mut self, answer_header: Bytes) -> Self {
        if let SessionClient::Address { header, .. } = &mut self.client {
            *header = answer_header;
        }
        self
    }

    /// The same, of a flow that was captured: its client is told errors of ICMP.
    #[must_use]
    pub fn of_captured(mut self, flow: CapturedFlow) -> Self {
        if let SessionClient::Address { captured, .. } = &mut self.client {
            *captured = Some(Box::new(flow));
        }
        self
    }

    /// A session of a pair of ports in a stack, whose datagrams wait in this queue.
    pub fn of_flow(flow: impl SessionFlow + 'static, queue: Queue) -> Self {
        Self::with(SessionClient::Flow(Box::new(flow)), queue)
    }

    fn with(client: SessionClient, queue: Queue) -> Self {
        Self {
            client,
            began: Instant::now(),
            queue: Mutex::new(queue),
            hold: None,
            ready: Notify::new(),
            lost: Lost::default(),
            activity: AtomicU64::new(0),
            phase: SessionPhase::default(),
            is_second: false,
            evicted: CancellationToken::new(),
            error: OnceLock::new(),
            exchange: OnceLock::new(),
        }
    }

    /// Takes datagrams from the client, for one lock and one wake-up.
    pub fn push<'a>(self: &Arc<Self>, mut datagrams: impl Iterator<Item = &'a [u8]>, now: Instant) {
        self.activity.fetch_add(1, Ordering::Relaxed);
        if self.is_refused() {
            self.lost.full(datagrams.count());
            return;
        }
        // Before the queue is locked: room may be made by clearing queues, and this one may be among them.
        self.be_held();

        {
            let mut queue = self.queue.lock();
            self.lost.expired(queue.expire(now));
            let full: usize = datagrams
                .by_ref()
                .map(|datagram| queue.push(datagram, now))
                .sum();
            self.lost.full(full);
        }

        self.ready.notify_one();
    }

    /// Makes room for a datagram, and enters the session among those that lose theirs if there is
    /// no room for others.
    fn be_held(self: &Arc<Self>) {
        let Some(hold) = &self.hold else { return };
        let is_open = self.phase.is_open.load(Ordering::Relaxed);
        if !is_open && !self.phase.is_held.swap(true, Ordering::Relaxed) {
            hold.enter(Arc::<Self>::downgrade(self));
        }
        hold.make_room();
    }

    fn forget_all(&self) {
        let mut queue = self.queue.lock();
        let count = queue.clear();
        queue.release();
        drop(queue);

        // Counted at once where that is possible: the tunnel reports the rest, and may never open.
        match self.exchange.get() {
            Some(exchange) => exchange.dropped(DropReason::QueueFull, count as u64),
            None => self.lost.full(count),
        }
    }

    /// The tunnel is open: from now on `OPEN_BYTES` bounds the queue, if that is more.
    pub fn opened(&self) {
        self.phase.is_open.store(true, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        let Bounds { bytes, age } = queue.bounds();
        queue.set_bounds(Bounds {
            bytes: bytes.max(OPEN_BYTES),
            age,
        });
    }

    /// The datagrams that may leave before the tunnel is answered.
    pub fn early(&self) -> Option<Early> {
        let mut queue = self.queue.lock();
        self.lost.expired(queue.expire(Instant::now()));
        let mut count = 0;
        let mut bytes = 0;

        let capsules = in_room(|room| {
            for datagram in queue.iter() {
                if bytes + datagram.len() > EARLY_BYTES
                    || datagram::encode_udp_capsule(datagram, room).is_err()
                {
                    break;
                }
                (count, bytes) = (count + 1, bytes + datagram.len());
            }
        });

        let early = Early {
            capsules,
            count,
            bytes: bytes as u64,
            end: queue.first() + count,
        };

        (count > 0).then_some(early)
    }

    /// Removes early datagrams from the queue: the tunnel that carried them is open.
    pub fn arrived(&self, early: &Early) {
        self.queue.lock().forget(early.end);
    }

    /// Waits for datagrams and swaps them into `taken`, dropping its old content.
    ///
    /// # Errors
    /// Its flow is broken (RFC 9298, section 3.1: an unusable socket ends its tunnel).
    pub async fn take(&self, taken: &mut Queue) -> Result<(), UdpError> {
        loop {
            if let Some(error) = self.error.get() {
                let error = io::Error::new(io::ErrorKind::HostUnreachable, error.to_string());
                return Err(UdpError::Io(error));
            }
            {
                let mut queue = self.queue.lock();
                self.lost.expired(queue.expire(Instant::now()));
                if !queue.is_empty() {
                    taken.clear();
                    // A swap, not a copy: the listener waits for this lock.
                    std::mem::swap(&mut *queue, taken);
                    return Ok(());
                }
            }
            self.wait(taken).await;
        }
    }

    /// Waits for datagrams. Memory that a burst took is given back when it is quiet for a moment.
    async fn wait(&self, taken: &mut Queue) {
        taken.clear();
        let retains = taken.retains() || self.queue.lock().retains();
        if !retains {
            return self.ready.notified().await;
        }

        // Boxed, as most sessions have seen no burst: the room for it would be in all.
        let quiet = Box::pin(timeout(QUIET, self.ready.notified()));
        if quiet.await.is_err() {
            taken.release();
            self.queue.lock().release();
        }
    }

    /// Fails the session: its flow reaches no host.
    pub(crate) fn fail(&self, error: IcmpError) {
        // The first one counts.
        let _ = self.error.set(error);
        self.ready.notify_one();
    }

    /// Tells a client whose flow was captured that payloads of more than this many bytes do not go on. Others know of a tunnel, or are
    /// of a `udp` listener, whose clients expect no errors about its target.
    pub(crate) fn refuse_larger(&self, payload: usize) {
        match &self.client {
            SessionClient::Address { captured, .. } => {
                if let Some(flow) = captured {
                    flow.refuse_larger(payload);
                }
            }
            SessionClient::Flow(flow) => flow.refuse_larger(payload),
        }
    }

    /// Takes datagrams back that cannot leave now; they come first again, and grow older.
    pub fn give_back(&self, taken: &mut Queue) {
        let mut queue = self.queue.lock();
        let now = clock::now();
        std::mem::swap(&mut *queue, taken);
        // As a rule `taken` is empty: it was swapped out a moment ago.
        let full: usize = taken.iter().map(|datagram| queue.push(datagram, now)).sum();
        self.lost.full(full);
        taken.clear();
    }

    /// Sets other bounds, once the route is known; datagrams outside them are dropped.
    pub fn set_bounds(&self, bounds: Bounds) {
        self.lost.full(self.queue.lock().set_bounds(bounds));
    }

    /// A queue for [`Session::take`].
    pub fn empty_queue(&self) -> Queue {
        self.queue.lock().another()
    }

    /// Sends datagrams of `segment` bytes to the client.
    ///
    /// # Errors
    /// The socket's error.
    pub async fn send(&self, data: &[u8], segment: Option<usize>) -> Result<(), UdpError> {
        self.activity.fetch_add(1, Ordering::Relaxed);
        match &self.client {
            SessionClient::Address {
                address,
                local,
                socket,
                header,
                ..
            } => {
                let to = Some(*address);
                if header.is_empty() {
                    return socket.send_from(*local, to, data, segment).await;
                }
                // Boxed, as few sessions have it.
                let headed = Box::pin(async {
                    let whole = with_headers(header, data, segment.unwrap_or(data.len()));
                    let segment = segment.map(|segment| segment + header.len());
                    socket.send_from(*local, to, &whole, segment).await
                });
                headed.await
            }
            SessionClient::Flow(flow) => {
                flow.send(data, segment);
                Ok(())
            }
        }
    }

    /// Resolves when nothing came or went for `time`.
    pub async fn quiet(&self, time: Duration) {
        let mut last = None;
        loop {
            let now = self.activity.load(Ordering::Relaxed);
            if last.replace(now) == Some(now) {
                return;
            }
            tokio::time::sleep(time).await;
        }
    }

    /// When the session began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Ties the session to its exchange.
    pub fn is_exchange(&self, exchange: &Arc<Exchange>) {
        let _ = self.exchange.set(exchange.clone());
    }

    /// The class of the session when others need room.
    pub fn worth(&self) -> Class {
        self.exchange.get().map_or(Class::Unanswered, |exchange| {
            exchange.counters().traffic().worth()
        })
    }

    /// Whether the target has sent nothing so far, however much the client has.
    pub(crate) fn is_one_way(&self) -> bool {
        self.exchange
            .get()
            .is_none_or(|exchange| exchange.counters().traffic().turn == Turn::Asked)
    }

    /// How often one of both sides has spoken.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    /// Takes no more datagrams, so that the next one begins another session; false if one has come
    /// and was not taken yet.
    pub fn retire(&self) -> bool {
        let is_empty = self.queue.lock().is_empty();
        if is_empty {
            self.phase.is_retired.store(true, Ordering::Relaxed);
        }
        is_empty
    }

    /// Takes no more datagrams: the tunnel ends.
    pub fn leave(&self) {
        self.phase.is_retired.store(true, Ordering::Relaxed);
    }

    /// The datagrams that the ended tunnel did not take, for the client's next session. A session
    /// that began with such a leftover leaves none itself: otherwise a tunnel that always ends at
    /// once would be opened for ever.
    pub fn leftover(&self) -> Option<Queue> {
        let mut queue = self.queue.lock();
        self.lost.expired(queue.expire(Instant::now()));
        let is_left =
            self.is_retired() && !self.is_refused() && !self.is_second && !queue.is_empty();
        let next = queue.another();
        is_left.then(|| std::mem::replace(&mut *queue, next))
    }

    /// The same, of a client that has left something over.
    #[must_use]
    pub fn second(mut self) -> Self {
        self.is_second = true;
        self
    }

    /// Whether the session takes no more datagrams.
    pub fn is_retired(&self) -> bool {
        self.phase.is_retired.load(Ordering::Relaxed)
    }

    /// Keeps the ports in a stack for longer than the silence after which the tunnel ends.
    pub fn outlast(&self, silence: Duration) {
        if let SessionClient::Flow(flow) = &self.client {
            // Twice as long: the tunnel checks its silence now and then, and ends a little late.
            flow.outlast(silence.saturating_mul(2));
        }
    }

    /// Ends the session, because others need the room.
    pub fn evict(&self) {
        self.phase.is_retired.store(true, Ordering::Relaxed);
        self.forget_all();
        if let Some(exchange) = self.exchange.get() {
            exchange.evict();
        }
        self.evicted.cancel();
    }

    /// Whether the session had to make room for others.
    pub fn is_evicted(&self) -> bool {
        self.evicted.is_cancelled()
    }

    /// Resolves when others need the room and its tunnel, if it is open, has had time to end.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
        if self
            .exchange
            .get()
            .is_some_and(|exchange| exchange.can_be_evicted())
        {
            tokio::time::sleep(EVICTION).await;
        }
    }

    /// The tunnel was refused: queued datagrams are of no use.
    pub fn refuse(&self, reason: RefusalReason) {
        if let SessionClient::Flow(flow) = &self.client {
            flow.refuse(&reason);
        }
        // An exchange is answered once.
        let _ = self.phase.refusal.set(Box::new(reason));
        self.forget_all();
    }

    /// Whether the tunnel was refused.
    pub fn is_refused(&self) -> bool {
        self.phase.refusal.get().is_some()
    }

    /// Why the tunnel was refused, if it was.
    pub fn refusal(&self) -> Option<&RefusalReason> {
        self.phase.refusal.get().map(|reason| &**reason)
    }

    /// Datagrams that were dropped since this was last asked: those without room, and those that waited too long.
    pub fn take_lost(&self) -> (u64, u64) {
        (
            self.lost.full.swap(0, Ordering::Relaxed),
            self.lost.expired.swap(0, Ordering::Relaxed),
        )
    }
}

impl HeldSession for Session {
    fn is_held(&self) -> bool {
        self.phase.is_held.load(Ordering::Relaxed) && !self.phase.is_open.load(Ordering::Relaxed)
    }

    fn lose(&self) {
        if self.is_held() {
            self.phase.is_held.store(false, Ordering::Relaxed);
            let is_charged = self.queue.lock().retains();
            if is_charged {
                self.forget_all();
            }
        }
    }
}

/// Datagrams of `segment` bytes, with a header before each.
fn with_headers(header: &[u8], data: &[u8], segment: usize) -> Vec<u8> {
    let datagrams = data.chunks(segment.max(1));
    let mut whole = Vec::with_capacity(data.len() + header.len() * datagrams.len());
    for datagram in datagrams {
        whole.extend_from_slice(header);
        whole.extend_from_slice(datagram);
    }
    // An empty datagram has its header all the same.
    if data.is_empty() {
        whole.extend_from_slice(header);
    }
    whole
}

/// Datagrams that were dropped.
#[derive(Default)]
struct Lost {
    full: AtomicU64,
    expired: AtomicU64,
}

impl Lost {
    fn full(&self, count: usize) {
        self.full.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn expired(&self, count: usize) {
        self.expired.fetch_add(count as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use hermes_net::memory::{Memory, Owner};

    use super::*;

    async fn session() -> Session {
        session_of(&Hold::new(Memory::node().owner(Owner::Local)), 1000)
    }

    fn session_of(hold: &Arc<Hold>, bytes: usize) -> Session {
        let socket = UdpSocket::bound(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let bounds = Bounds {
            bytes,
            age: Duration::from_secs(1),
        };
        Session::new(
            SocketAddr::from(([127, 0, 0, 1], 1)),
            None,
            Arc::new(socket),
            bounds,
            hold,
        )
    }

    #[tokio::test]
    async fn where_a_listener_has_no_room_the_oldest_go_whose_tunnel_is_not_open() {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(1 << 20, 0)));
        let hold = Hold::new(memory.owner(Owner::Listener("voice".into())));
        let sessions: Vec<_> = (0..20)
            .map(|_| Arc::new(session_of(&hold, 1 << 20)))
            .collect();
        let waits = |number: usize| !sessions[number].queue.lock().is_empty();

        sessions[0].opened();
        push(&sessions[1]);
        for session in &sessions {
            session.push((0..20).map(|_| &[7; 1000][..]), Instant::now());
            assert!(memory.charged() <= 1 << 18, "{}", memory.charged());
        }
        assert!(waits(0), "its tunnel is open");
        assert!(!waits(2) && waits(19));

        sessions.iter().for_each(|session| session.evict());
        assert_eq!(memory.charged(), 0);
    }

    fn push(session: &Arc<Session>) {
        session.push(std::iter::once(&b"a"[..]), Instant::now());
    }

    #[tokio::test]
    async fn what_came_while_a_tunnel_was_ending_is_left_over_once() {
        let first = Arc::new(session().await);
        push(&first);
        assert!(first.leftover().is_none(), "its tunnel is there");
        first.leave();
        assert_eq!(first.leftover().unwrap().iter().collect::<Vec<_>>(), [b"a"]);
        assert!(first.leftover().is_none());
        let second = Arc::new(session().await.second());
        push(&second);
        second.leave();
        assert!(second.leftover().is_none(), "not for ever");
    }

    #[tokio::test]
    async fn nothing_is_left_over_of_what_was_refused_or_had_to_make_room() {
        let refused = Arc::new(session().await);
        let evicted = Arc::new(session().await);
        for session in [&refused, &evicted] {
            push(session);
        }
        refused.refuse(RefusalReason {
            status: http::StatusCode::FORBIDDEN,
            error: hermes_proto::proxy_status::ProxyError::HttpRequestDenied,
            details: "a rule denies it".to_owned(),
        });
        refused.leave();
        evicted.evict();
        assert!(refused.leftover().is_none() && evicted.leftover().is_none());
    }
}
