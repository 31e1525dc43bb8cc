//! The connections that one worker keeps, each place with a slot of its own.

mod h1;
mod link;
mod links;
mod liveness_monitor;
mod probing;
mod single_flight;
mod taken;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::BytesMut;
use hermes_http::StreamError;
use hermes_http::client::{QuicLink, TcpLink};
use hermes_http::h1::Connection;
use hermes_http::h2::Keepalive;
use hermes_net::Stream;
use hermes_net::clock;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::h1::Berth;
use self::h1::Idle;
pub(crate) use self::link::Link;
pub(crate) use self::links::EXCHANGES;
use self::links::Links;
use self::liveness_monitor::LivenessMonitor;
use self::single_flight::{ConnectTurn, SingleFlight};
pub(crate) use self::taken::{Carrier, Dialer, Dialling, Fits, Making, Taken};
use crate::answers::AnswerLimits;
use crate::failure::{ConnectFailure, FailureKind};
use crate::limits::Room;
use crate::reached::{Reached, Transport};
use crate::upstream::Upstream;

/// How often kept connections are looked over, so that one which the peer closed does not hold its descriptor.
const ROUND: Duration = Duration::from_secs(1);

/// Idle HTTP/1.1 connections kept in all, so that exchanges with many origins do not use up the
/// descriptors.
#[doc(alias = "bound")]
const KEPT: usize = 1024;

/// The destination of a kept connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// An endpoint of an upstream, by their numbers.
    Endpoint(u64, usize),
    /// An origin that a request named: whether TLS is spoken, host, port.
    Origin(bool, String, u16),
}

/// All connections of one worker.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
    tasks: TaskTracker,
    /// HTTP/1.1 connections kept; put right by every sweep.
    kept: AtomicUsize,
    sweeping: AtomicBool,
    /// Exchanges that each link serves.
    exchanges: AtomicU64,
    closed: CancellationToken,
    /// Dials again if a link fell silent.
    dialer: Weak<dyn Dialer>,
}

/// The connections to one place.
#[derive(Debug)]
pub(crate) struct Slot {
    idle: Idle,
    links: Links,
    flight: SingleFlight,
    /// Whether the next connection is expected to be a link; learnt from ALPN.
    shares: AtomicBool,
    /// The last connection that came about: when, and whether over QUIC.
    reached: Mutex<Option<(Instant, bool)>>,
    /// Whether HTTP/3 is being tried beside the link in use.
    probing: AtomicBool,
    /// When this is gone, so is the reason to keep connections. `None` for an origin.
    owner: Option<Weak<Upstream>>,
    /// The number of the endpoint, where there is an owner.
    index: usize,
    /// Bounds of its answers.
    pub(crate) answers: AnswerLimits,
}

impl Pool {
    pub(crate) fn new(tasks: TaskTracker, dialer: Weak<dyn Dialer>) -> Arc<Self> {
        let slots = Mutex::default();
        let closed = CancellationToken::new();
        let kept = AtomicUsize::new(0);
        let sweeping = AtomicBool::new(false);
        let exchanges = AtomicU64::new(EXCHANGES);

        Arc::new(Self {
            slots,
            tasks,
            kept,
            sweeping,
            exchanges,
            closed,
            dialer,
        })
    }

    /// Exchanges that each link serves, of places that were not yet asked for.
    pub(crate) fn serve(&self, exchanges: u64) {
        self.exchanges.store(exchanges, Ordering::Relaxed);
    }

    /// The slot of an endpoint; `shares` says whether a new connection is expected to be shared.
    pub(crate) fn slot(
        self: &Arc<Self>,
        key: Key,
        owner: Option<&Arc<Upstream>>,
        shares: bool,
    ) -> Arc<Slot> {
        let answers = || owner.map_or_else(AnswerLimits::default, |owner| owner.limits.answers);
        self.slot_within(key, owner, shares, answers)
    }

    /// The slot of an origin with these bounds on its answers.
    pub(crate) fn slot_of_origin(
        self: &Arc<Self>,
        key: Key,
        shares: bool,
        answers: impl FnOnce() -> AnswerLimits,
    ) -> Arc<Slot> {
        self.slot_within(key, None, shares, answers)
    }

    fn slot_within(
        self: &Arc<Self>,
        key: Key,
        owner: Option<&Arc<Upstream>>,
        shares: bool,
        answers: impl FnOnce() -> AnswerLimits,
    ) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(&key) {
            return slot.clone();
        }

        let index = if let Key::Endpoint(_, index) = key {
            index
        } else {
            0
        };

        let exchanges = self.exchanges.load(Ordering::Relaxed);
        let slot = Arc::new(Slot {
            index,
            answers: answers(),
            ..Slot::new(owner, shares, exchanges)
        });
        // A closed pool hands out slots that it does not know, so that a draining worker's exchanges still get connections.
        if !self.closed.is_cancelled() {
            slots.insert(key, slot.clone());
            drop(slots);
            self.watch();
        }

        slot
    }

    /// As [`Self::own_slot`], for an origin with these bounds on its answers.
    pub(crate) fn own_slot_of_origin(&self, answers: AnswerLimits) -> Arc<Slot> {
        let exchanges = self.exchanges.load(Ordering::Relaxed);
        Arc::new(Slot {
            answers,
            ..Slot::new(None, false, exchanges)
        })
    }

    /// A slot that is no one else's; it has no place in the pool, and its connections close when it is dropped.
    pub(crate) fn own_slot(
        &self,
        owner: Option<&Arc<Upstream>>,
        index: usize,
        shares: bool,
    ) -> Arc<Slot> {
        Arc::new(Slot {
            index,
            ..Slot::new(owner, shares, self.exchanges.load(Ordering::Relaxed))
        })
    }

    /// A connection to the slot's place: a kept one that `fits`, or the one that `dial` makes. While the first link is
    /// being made, everybody else waits for it.
    pub(crate) async fn acquire<'d>(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        fits: Fits<'_>,
        dial: impl FnOnce() -> Dialling<'d>,
    ) -> Result<Taken, ConnectFailure> {
        // Outside the single flight: an exchange that finds a connection waits for no one.
        match self.take(slot, fits) {
            Some(taken) => Ok(taken),
            None => self.making(slot, fits, dial()).await,
        }
    }

    /// Boxed as `dyn`: an exchange that finds a connection carries no room for making one, and crates that await it do not compile it again.
    #[inline(never)]
    fn making<'a>(
        self: &'a Arc<Self>,
        slot: &'a Arc<Slot>,
        fits: Fits<'a>,
        dial: Dialling<'a>,
    ) -> Making<'a> {
        Box::pin(self.make(slot, fits, dial))
    }

    async fn make(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        fits: Fits<'_>,
        dial: Dialling<'_>,
    ) -> Result<Taken, ConnectFailure> {
        if !slot.shares() {
            return self.connect(slot, dial).await;
        }
        let turn = slot.flight.connect_turn().await?;
        // The holder of the turn before may have made a link that has room for this exchange.
        if let Some(taken) = self.take(slot, fits) {
            return Ok(taken);
        }

        // ALPN chose HTTP/1.1 meanwhile: each exchange needs a connection of its own, and those that wait for the turn need not wait
        // longer.
        if !slot.shares() {
            drop(turn);
            return self.connect(slot, dial).await;
        }

        match self.connect(slot, dial).await {
            Ok(taken) => Ok(taken),
            // A further link failed, but an exchange can still wait for room on one that there is.
            Err(failure) => slot.links.any(fits).ok_or_else(|| report(turn, failure)),
        }
    }

    /// Makes a link, unless there are `enough` or someone else is making one.
    pub(crate) async fn warm(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        enough: usize,
        dial: Dialling<'_>,
    ) -> Result<(), ConnectFailure> {
        let turn = slot.flight.connect_turn().await?;
        if !slot.shares() || slot.links.usable() >= enough || self.closed.is_cancelled() {
            return Ok(());
        }

        match self.connect(slot, dial).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(report(turn, failure)),
        }
    }

    /// As [`Self::reach_anew`], within the time that the upstream gives a connection.
    async fn reach_upstream(
        self: &Arc<Self>,
        dialer: &dyn Dialer,
        upstream: &Upstream,
        index: usize,
        slot: &Arc<Slot>,
        since: Instant,
    ) -> Result<bool, ConnectFailure> {
        let until = clock::now() + upstream.timeouts().connect;
        let attempt = self.reach_anew(slot, since, dialer.http(upstream, index, until));
        let done = timeout_at(until, attempt).await;
        done.unwrap_or_else(|_| Err(ConnectFailure::timeout(&*upstream.endpoints[index].text)))
    }

    /// Makes a connection unless one came about since then; says whether over QUIC.
    async fn reach_anew(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        since: Instant,
        dial: Dialling<'_>,
    ) -> Result<bool, ConnectFailure> {
        let turn = slot.flight.connect_turn().await?;
        let reached = *slot.reached.lock();
        // An exchange has reached the place on its own since the link fell silent.
        if let Some((_, quic)) = reached.filter(|(when, _)| *when >= since) {
            return Ok(quic);
        }

        match self.connect(slot, dial).await {
            Ok(Taken {
                carrier: Carrier::H1(connection, _),
                address,
                room,
                ..
            }) => {
                self.keep(slot, *connection, Arc::new(Berth::new(address, room)));
                Ok(false)
            }
            Ok(Taken {
                carrier: Carrier::Shared(link, _),
                ..
            }) => Ok(matches!(link, Link::H3(_))),
            Err(failure) => Err(report(turn, failure)),
        }
    }

    /// Resolves when nothing is kept any more.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    async fn connect(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        dial: Dialling<'_>,
    ) -> Result<Taken, ConnectFailure> {
        let Reached {
            transport,
            address,
            endpoint,
            room,
            keepalive,
            ..
        } = dial.await?;

        // Others that wait for this slot may share a link, but not a connection of HTTP/1.1.
        slot.shares
            .store(!matches!(transport, Transport::H1(_)), Ordering::Relaxed);

        let link = match transport {
            Transport::H1(stream) => {
                let connection = Box::new(Connection::new(stream, BytesMut::new()));
                slot.note_reached(false);
                return Ok(Taken {
                    carrier: Carrier::H1(connection, None),
                    address,
                    reused: false,
                    room,
                });
            }
            Transport::H2(stream) => {
                Link::H2(self.begin_h2(stream, slot, keepalive, endpoint).await?)
            }
            Transport::H3(connection) => {
                let link = QuicLink::connect_within(connection, &self.tasks, &slot.answers.message);
                Link::H3(link.map_err(|error| broken(endpoint, format!("HTTP/3: {error}")))?)
            }
        };

        slot.note_reached(matches!(link, Link::H3(_)));
        Ok(self.share(slot, link, address, room))
    }

    /// Begins HTTP/2 on a connection.
    async fn begin_h2(
        &self,
        stream: Stream,
        slot: &Slot,
        keepalive: Option<Keepalive>,
        endpoint: String,
    ) -> Result<TcpLink, ConnectFailure> {
        let answers = &slot.answers.message;
        let link = match TcpLink::connect_within(stream, keepalive, &self.tasks, answers).await {
            Ok(link) => link,
            Err(error) => return Err(broken(endpoint, format!("HTTP/2: {error}"))),
        };

        // Where peers are watched, one that takes connections and says nothing must not take an exchange along.
        if keepalive.is_some() && !link.settled().await {
            return Err(not_begun(&link, endpoint));
        }

        Ok(link)
    }

    /// Adds a new link to those of its slot, with a claim for the exchange that made it, and watches it.
    fn share(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        link: Link,
        address: Option<SocketAddr>,
        room: Room,
    ) -> Taken {
        // Before others can take it.
        let own = link.claim(0).unwrap_or_else(|| link.clone());
        let counted = slot.links.add(
            link.clone(),
            address,
            room.clone(),
            !self.closed.is_cancelled(),
        );

        if let Link::H3(link) = &link {
            let monitor = LivenessMonitor {
                link: link.watched(),
                uses: counted.uses(),
                pool: Arc::downgrade(self),
                slot: Arc::downgrade(slot),
                address,
            };
            self.tasks.spawn(monitor.watch());
        }

        Taken {
            carrier: Carrier::Shared(own, counted),
            address,
            reused: false,
            room,
        }
    }

    fn take(&self, slot: &Slot, fits: Fits<'_>) -> Option<Taken> {
        let taken = slot
            .links
            .share(fits)
            .or_else(|| slot.idle.take(fits, clock::now()))?;
        if matches!(taken.carrier, Carrier::H1(..)) {
            let _ = self
                .kept
                .try_update(Ordering::Relaxed, Ordering::Relaxed, |kept| {
                    kept.checked_sub(1)
                });
        }

        Some(taken)
    }

    /// Keeps a connection after its exchange, if it can serve another and there is room.
    pub(crate) fn keep(&self, slot: &Slot, connection: Connection, berth: Arc<Berth>) {
        let time = slot.answers.kept_for(connection.kept_for());
        // The count may be a little off: each sweep puts it right, and the bound is one of descriptors, not of correctness.
        let has_room = self.kept.load(Ordering::Relaxed) < KEPT;
        if has_room
            && !self.closed.is_cancelled()
            && slot.is_wanted()
            && slot.idle.keep(connection, berth, clock::now(), time)
        {
            self.kept.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Drops every kept connection and keeps none from now on.
    pub(crate) fn close(&self) {
        self.closed.cancel();
        // Out of the lock first: clearing a slot closes sockets, and new exchanges ask for slots meanwhile.
        let slots: Vec<_> = self.slots.lock().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            slot.clear();
        }
    }

    /// Drops the idle HTTP/1.1 connections; false if there were none.
    pub(crate) fn give_way(&self) -> bool {
        let slots: Vec<_> = self.slots.lock().values().cloned().collect();
        let idle: usize = slots.iter().map(|slot| slot.idle.len()).sum();
        slots.iter().for_each(|slot| slot.idle.clear());
        self.kept.store(0, Ordering::Relaxed);
        idle > 0
    }

    /// Makes sure that someone looks over the connections.
    fn watch(self: &Arc<Self>) {
        // One task for all slots. It ends with the last connection, so that an idle worker has no timer.
        if self.sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let pool = Arc::downgrade(self);
        let closed = self.closed.clone();
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(ROUND) => {}
                    () = closed.cancelled() => return,
                }

                // Weak: the task must not keep the pool of a worker that has ended.
                let Some(pool) = pool.upgrade() else { return };
                if !pool.sweep(Instant::now()) {
                    return;
                }
            }
        });
    }

    /// Drops useless connections and slots; false when nothing is left to look over.
    fn sweep(self: &Arc<Self>, now: Instant) -> bool {
        let all: Vec<_> = self.slots.lock().values().cloned().collect();
        for slot in &all {
            slot.sweep(now);
            self.probe(slot, now);
        }

        self.kept.store(
            all.iter().map(|slot| slot.idle.len()).sum(),
            Ordering::Relaxed,
        );
        drop(all);
        let mut slots = self.slots.lock();

        // A slot with another holder has an exchange; its connection may be returned.
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || !slot.is_empty());
        // Under the lock that adds slots, so that a new one finds either this task or none.
        if slots.is_empty() {
            self.sweeping.store(false, Ordering::Relaxed);
        }

        !slots.is_empty()
    }
}

fn report(turn: ConnectTurn<'_>, failure: ConnectFailure) -> ConnectFailure {
    // Whether an address is prohibited depends on who asks.
    if failure.kind != FailureKind::Prohibited {
        turn.failed(failure.clone());
    }
    failure
}

/// HTTP did not begin on a connection.
fn broken(endpoint: String, reason: String) -> ConnectFailure {
    ConnectFailure::new(FailureKind::Protocol, endpoint, reason)
}

/// Why a peer took a connection and began no HTTP/2 on it.
fn not_begun(link: &TcpLink, endpoint: String) -> ConnectFailure {
    match link.alert() {
        // Under TLS 1.3 a server judges our certificate only now.
        Some((id, text)) => {
            let alert = StreamError::alerted(id, text);
            ConnectFailure::new(FailureKind::TlsAlert(id), endpoint, alert.to_string())
        }
        None => {
            let reason = "the peer does not begin HTTP/2".to_owned();
            broken(endpoint, reason)
        }
    }
}

impl Slot {
    fn new(owner: Option<&Arc<Upstream>>, shares: bool, exchanges: u64) -> Self {
        Self {
            idle: Idle::default(),
            links: Links::new(exchanges),
            flight: SingleFlight::default(),
            shares: AtomicBool::new(shares),
            reached: Mutex::default(),
            probing: AtomicBool::new(false),
            owner: owner.map(Arc::downgrade),
            index: 0,
            answers: owner.map_or_else(AnswerLimits::default, |owner| owner.limits.answers),
        }
    }

    /// The upstream and index of the endpoint that it leads to.
    fn endpoint(&self) -> Option<(Arc<Upstream>, usize)> {
        Some((self.owner.as_ref()?.upgrade()?, self.index))
    }

    /// A connection came about.
    fn note_reached(&self, quic: bool) {
        *self.reached.lock() = Some((Instant::now(), quic));
    }

    fn shares(&self) -> bool {
        self.shares.load(Ordering::Relaxed)
    }

    /// Whether a connection that no one uses may stay: not when its upstream is gone, or someone waits for its place.
    fn is_wanted(&self) -> bool {
        self.owner.as_ref().is_none_or(|owner| {
            owner
                .upgrade()
                .is_some_and(|owner| !owner.limits.wants_connections())
        })
    }

    fn sweep(&self, now: Instant) {
        let owner = self.owner.as_ref().map(Weak::upgrade);
        if matches!(owner, Some(None)) {
            return self.clear();
        }

        if self.is_wanted() {
            self.idle.sweep(now);
        } else {
            self.idle.clear();
        }

        self.links
            .sweep(owner.flatten().map_or(0, |owner| owner.links.warm), now);
    }

    fn clear(&self) {
        self.idle.clear();
        self.links.clear();
    }

    fn is_empty(&self) -> bool {
        self.idle.len() + self.links.len() == 0
    }
}
