//! How large UDP payloads may be that go on from here, heard from one side and told to the other.
//!
//! A node that finds a datagram too large for the next side drops it, counts it, and tells the side
//! it came from. That node then drops such datagrams itself, and tells the one before it; at last
//! the node at the entry knows the limit. Senders of smaller datagrams are told nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_http::h3::DatagramSender;
use hermes_net::UdpSocket;
use hermes_proto::datagram_limit::NONE;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{PacketEnd, Session, Sink};
use crate::broken::Side;

/// Shortest time between two messages on one limit: a measured path changes in steps, and a capsule
/// for each is of no use.
#[doc(alias = "bound")]
const INTERVAL: Duration = Duration::from_secs(1);

/// The limits of a tunnel.
pub struct Limits {
    client: Limit,
    target: Limit,
    /// Bytes of UDP payloads that go as capsules where QUIC datagrams are too small for them, because the client asked for that:
    /// no limit is lower.
    floor: usize,
}

/// The limit towards one side.
struct Limit {
    /// Where QUIC datagrams go, and how many bytes of them are no packet.
    quic: Option<(DatagramSender, usize)>,
    /// The largest packet that the end of this node takes which is there.
    largest: usize,
    /// The end of this node which is there.
    end: LimitedEnd,
    /// Whether that side understands messages about the other's limit.
    listens: bool,
    /// That side's own limit.
    heard: AtomicUsize,
    told: Mutex<SentLimit>,
    changed: Notify,
}

/// An end of this node, as far as limits go.
enum LimitedEnd {
    /// None, or one that says all by `largest`.
    None,
    /// A client, which is told how large its payloads may be.
    Client(Arc<Session>),
    /// A socket, whose route may carry less than it was sent.
    Socket {
        socket: Arc<UdpSocket>,
        /// Whether it has refused a datagram for its length: only then its route is asked.
        is_narrow: AtomicBool,
    },
}

/// The limits that the other side was told.
struct SentLimit {
    limit: usize,
    when: Option<Instant>,
    /// The largest payload that did not fit, until it fits again; 0: all do.
    largest: usize,
}

impl Limits {
    /// For a tunnel with this `floor` of its client.
    pub fn new(floor: usize) -> Self {
        Self {
            client: Limit::none(),
            target: Limit::none(),
            floor,
        }
    }

    /// The floor.
    pub fn floor(&self) -> usize {
        self.floor
    }

    /// A side has this sink from now on, and the peer behind it `listens` or does not. No limits
    /// were exchanged yet.
    pub fn lead(&mut self, side: Side, sink: &Sink, listens: bool) {
        let limit = match side {
            Side::Client => &mut self.client,
            Side::Target => &mut self.target,
        };

        limit.quic = sink.quic().map(|(quic, size)| (quic.clone(), size));
        limit.largest = sink.largest().unwrap_or(NONE);
        limit.end = LimitedEnd::of(sink);
        limit.listens = listens;
        *limit.heard.get_mut() = NONE;
        let other = self.of(side.other());
        let mut told = other.told.lock();
        (told.limit, told.when) = (NONE, None);
    }

    /// The largest payload that goes to this side by its own word.
    pub(crate) fn heard(&self, side: Side) -> usize {
        self.of(side).heard.load(Ordering::Relaxed).max(self.floor)
    }

    /// The largest payload that goes to this side at all: by its own limit, and by the path or the
    /// capsules.
    pub fn carries(&self, side: Side) -> usize {
        self.of(side).own().max(self.floor).min(self.heard(side))
    }

    /// The largest payload that goes to this side as a QUIC datagram, by its own limit and by the
    /// path.
    pub(crate) fn fits(&self, side: Side) -> usize {
        self.of(side).own().min(self.heard(side))
    }

    /// This side said how large payloads may be.
    pub(crate) fn hear(&self, side: Side, limit: usize) {
        let of = self.of(side);
        if of.heard.swap(limit, Ordering::Relaxed) != limit {
            // Something larger was sent there: its sender may have to know.
            self.exceeded(side, if limit < NONE { limit + 1 } else { 0 });
            of.changed.notify_one();
        }
    }

    /// A payload of this many bytes did not fit this side.
    pub(crate) fn exceeded(&self, side: Side, size: usize) {
        let of = self.of(side);
        let mut told = of.told.lock();
        if told.largest == 0 && size > 0 {
            of.changed.notify_one();
        }
        told.largest = told.largest.max(size);
        drop(told);

        if size > 0
            && let LimitedEnd::Client(session) = &self.of(side.other()).end
        {
            session.refuse_larger(self.carries(side));
        }
    }

    /// The socket of this side refused a datagram for its length, or heard of a router that did.
    pub(crate) fn narrowed(&self, side: Side) {
        let of = self.of(side);
        if let LimitedEnd::Socket { is_narrow, .. } = &of.end {
            is_narrow.store(true, Ordering::Relaxed);
            let limit = of.own();
            if limit < NONE {
                self.exceeded(side, limit + 1);
            }
        }
    }

    /// Whether this side is a socket whose route may turn out to carry less, and the other one understands that.
    pub(crate) fn may_narrow(&self, side: Side) -> bool {
        let is_socket = matches!(self.of(side).end, LimitedEnd::Socket { .. });
        is_socket && self.of(side.other()).listens
    }

    /// Waits until a limit has to be sent to this side. Dropping the future loses nothing.
    pub(crate) async fn due(&self, side: Side) -> usize {
        let of = self.of(side.other());
        if !self.of(side).listens {
            return std::future::pending().await;
        }

        loop {
            let changed = of.changed.notified();
            let (word, waits) = self.word(side.other());
            if let Some(limit) = word {
                return limit;
            }

            tokio::select! {
                () = changed => {}
                () = sleep(INTERVAL), if waits => {}
            }
        }
    }

    /// The limit to send to this side now, and whether to look again even if nothing happens.
    fn word(&self, side: Side) -> (Option<usize>, bool) {
        let of = self.of(side);
        let mut told = of.told.lock();
        if told.largest == 0 && told.limit == NONE {
            return (None, false);
        }

        if told.when.is_some_and(|when| when.elapsed() < INTERVAL) {
            return (None, true);
        }
        let mut limit = of.own().max(self.floor).min(self.heard(side));
        if limit >= told.largest {
            (limit, told.largest) = (NONE, 0);
        }

        if limit == told.limit {
            return (None, told.largest > 0);
        }
        (told.limit, told.when) = (limit, Some(Instant::now()));
        (Some(limit), false)
    }

    fn of(&self, side: Side) -> &Limit {
        match side {
            Side::Client => &self.client,
            Side::Target => &self.target,
        }
    }
}

impl Limit {
    fn none() -> Self {
        let told = SentLimit {
            limit: NONE,
            when: None,
            largest: 0,
        };

        let heard = AtomicUsize::new(NONE);
        Self {
            quic: None,
            largest: NONE,
            end: LimitedEnd::None,
            listens: false,
            heard,
            told: Mutex::new(told),
            changed: Notify::new(),
        }
    }

    /// The largest payload of its QUIC datagrams, of its device, or of the route of its socket, once that is known to be too little.
    /// Capsules take any size.
    fn own(&self) -> usize {
        if let Some((quic, context)) = &self.quic {
            return quic.max_payload().saturating_sub(*context);
        }
        match &self.end {
            LimitedEnd::Socket { socket, is_narrow } if is_narrow.load(Ordering::Relaxed) => {
                socket.path_payload().unwrap_or(NONE).min(NONE)
            }
            _ => self.largest,
        }
    }
}

impl LimitedEnd {
    fn of(sink: &Sink) -> Self {
        match sink {
            Sink::End(PacketEnd::Session(session)) => Self::Client(session.clone()),
            Sink::End(PacketEnd::Socket(socket, _)) => Self::Socket {
                socket: socket.clone(),
                is_narrow: AtomicBool::new(false),
            },
            Sink::End(PacketEnd::Device(..)) | Sink::Stream(_) => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits of a tunnel both sides of which listen.
    fn limits() -> Limits {
        let mut limits = Limits::new(0);
        (limits.client.listens, limits.target.listens) = (true, true);
        limits
    }

    async fn told(limits: &Limits, side: Side) -> Option<usize> {
        tokio::time::timeout(INTERVAL * 3, limits.due(side))
            .await
            .ok()
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_side_says_the_other_is_told_once() {
        let limits = limits();
        assert_eq!(told(&limits, Side::Client).await, None);
        limits.hear(Side::Target, 1132);
        limits.hear(Side::Target, 1132);
        assert_eq!(limits.heard(Side::Target), 1132);
        assert_eq!(told(&limits, Side::Client).await, Some(1132));
        assert_eq!(told(&limits, Side::Client).await, None);
        assert_eq!(told(&limits, Side::Target).await, None);
        limits.hear(Side::Target, NONE);
        assert_eq!(told(&limits, Side::Client).await, Some(NONE));
        assert_eq!(told(&limits, Side::Client).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_changes_often_is_told_rarely() {
        let (limits, began, mut words) = (limits(), Instant::now(), 0);
        for change in 0..100 {
            limits.hear(Side::Client, 1000 + change);
            let wait = tokio::time::timeout(INTERVAL / 10, limits.due(Side::Target)).await;
            words += usize::from(wait.is_ok());
        }
        let most = began.elapsed().as_secs() as usize + 1;
        assert!((2..=most).contains(&words), "{words} words");
    }

    #[tokio::test]
    async fn a_side_is_told_how_much_the_route_of_a_socket_carries_once_that_was_too_little() {
        let mut limits = limits();
        let remote = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
        let socket = Arc::new(UdpSocket::connected(remote).await.unwrap());
        let carried = socket.path_payload().unwrap();
        limits.target.end = LimitedEnd::Socket {
            socket,
            is_narrow: AtomicBool::new(false),
        };
        assert!(limits.may_narrow(Side::Target) && !limits.may_narrow(Side::Client));
        assert_eq!(limits.carries(Side::Target), NONE);

        limits.narrowed(Side::Target);
        // Loopback carries more than any datagram has, unless its MTU was set lower.
        assert_eq!(limits.carries(Side::Target), carried.min(NONE));
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_listen_is_not_told() {
        let limits = Limits::new(0);
        limits.hear(Side::Target, 1132);
        assert_eq!(told(&limits, Side::Client).await, None);
        assert_eq!(limits.heard(Side::Target), 1132);
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_is_below_the_floor_and_what_fits_again_has_none() {
        let mut limits = limits();
        limits.floor = 1200;
        limits.hear(Side::Target, 600);
        assert_eq!(limits.heard(Side::Target), 1200);
        // Only datagrams up to the floor were sent.
        assert_eq!(told(&limits, Side::Client).await, None);
        limits.exceeded(Side::Target, 1300);
        assert_eq!(told(&limits, Side::Client).await, Some(1200));
    }
}
