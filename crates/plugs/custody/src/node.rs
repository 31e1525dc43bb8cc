//! A node's custody: its machine, its socket, and the tasks that wait for bytes and for room.

mod exchange;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_net::shared_socket::{DatagramSocket, NextDatagrams};
use hermes_net::{TimedSocket, Watch};
use hermes_plug::NeighbourView;
use hermes_proto::custody::MAX_CUSTODY_DATAGRAM;
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch as changes};

use crate::company::Company;
use crate::disk::Disk;
use crate::engine::{Came, Engine, Event, ExchangeKey, NeighbourId};
use crate::link_watcher::LinkWatcher;
use crate::settings::{NamedNeighbour, Settings};
use crate::watch::{self, NeighbourLog, NotSent};
pub(crate) use exchange::{Exchange, Over};
use hermes_noise::PublicKey;

/// How long an exchange is kept without an end where nothing is configured.
#[doc(alias("bound", "keep_for"))]
const KEEP_FOR: Duration = Duration::from_secs(3600);

/// Datagrams that are taken before what they ask for is sent, and that are sent before others on the worker have their turn.
#[doc(alias = "bound")]
const BATCH: usize = 64;

/// How long datagrams are taken before what they ask for is sent, or sent before others on the worker have their turn.
#[doc(alias = "bound")]
const TURN: Duration = Duration::from_millis(1);

/// A pause where nothing is due: whatever happens ends it.
const IDLE: Duration = Duration::from_secs(3600);

/// The custody of a node. Its copies are the same.
#[derive(Clone)]
pub struct Custody(Arc<Inner>);

struct Inner {
    engine: Mutex<Engine>,
    settings: Mutex<InForce>,
    disk: Option<Disk>,
    /// Notified when there is something to send.
    due: Notify,
    /// Notified when an exchange has ended.
    ended: Notify,
    /// Exchanges that are not over, and the tasks that wait for each.
    waiting: Mutex<HashMap<ExchangeKey, OpenExchange>>,
    /// A socket is served.
    driven: AtomicBool,
    /// The node drains: another process may take new exchanges.
    is_draining: AtomicBool,
    /// The last datagram that the system refused to send.
    not_sent: Mutex<Option<NotSent>>,
}

/// An exchange that is not over.
struct OpenExchange {
    /// Told of each change.
    changes: changes::Sender<()>,
    /// The exchange that the last process of the node began for it goes on.
    is_continued: bool,
}

/// Settings that a reload may change.
struct InForce {
    neighbours: HashMap<String, NeighbourId>,
    keep_for: Duration,
}

impl OpenExchange {
    fn new() -> Self {
        Self {
            changes: changes::Sender::new(()),
            is_continued: false,
        }
    }
}

impl Custody {
    /// Idle until [`drive`](Self::drive) is polled.
    pub fn new(settings: Settings) -> Self {
        let now = Instant::now();
        let mut seed = [0; 8];
        // Jitter and names of epochs need not be secret.
        let _ = aws_lc_rs::rand::fill(&mut seed);
        let mut engine = Engine::new(settings.key, u64::from_ne_bytes(seed), now);
        let neighbours = known(&mut engine, settings.neighbours, now);
        let keep_for = settings.keep_for.unwrap_or(KEEP_FOR);
        engine.keep_for(keep_for);
        let disk = settings.disk;
        if let Some(disk) = &disk {
            engine.keep_on(disk.clone(), now);
        }

        Self(Arc::new(Inner {
            engine: Mutex::new(engine),
            settings: Mutex::new(InForce {
                neighbours,
                keep_for,
            }),
            disk,
            due: Notify::new(),
            ended: Notify::new(),
            waiting: Mutex::default(),
            driven: AtomicBool::new(false),
            is_draining: AtomicBool::new(false),
            not_sent: Mutex::default(),
        }))
    }

    /// Takes these neighbours in place of those before: exchanges with others end.
    pub fn change(&self, keep_for: Option<Duration>, neighbours: Vec<NamedNeighbour>) {
        let now = Instant::now();
        // The engine's lock before that of the settings, as in `views`.
        let mut engine = self.0.engine.lock();
        let mut settings = self.0.settings.lock();
        let wanted = known(&mut engine, neighbours, now);
        for id in settings.neighbours.values() {
            if !wanted.values().any(|other| other == id) {
                engine.remove_neighbour(*id, now);
            }
        }
        let keep_for = keep_for.unwrap_or(KEEP_FOR);
        engine.keep_for(keep_for);
        *settings = InForce {
            neighbours: wanted,
            keep_for,
        };
        drop(engine);
        self.0.due.notify_one();
    }

    /// The neighbour of this name.
    pub(crate) fn neighbour(&self, name: &str) -> Option<NeighbourId> {
        self.0.settings.lock().neighbours.get(name).copied()
    }

    /// The present name of a neighbour.
    pub(crate) fn name_of(&self, id: NeighbourId) -> Option<Arc<str>> {
        let settings = self.0.settings.lock();
        let mut known = settings.neighbours.iter();
        let (name, _) = known.find(|(_, known)| **known == id)?;
        Some(name.as_str().into())
    }

    /// The status of the neighbours, by name.
    pub(crate) fn views(&self, now: Instant) -> Vec<(NeighbourId, NeighbourView)> {
        let engine = self.0.engine.lock();
        let settings = self.0.settings.lock();
        let not_sent = self.0.not_sent.lock();
        let views = settings.neighbours.iter().filter_map(|(name, id)| {
            let signs = engine.signs(*id, now)?;
            let (state, reason) = watch::state(&signs, not_sent.as_ref(), now);
            let view = NeighbourView {
                name: name.clone(),
                address: signs.address.map(|address| address.to_string()),
                state,
                reason,
                heard_seconds: signs.heard.map(|heard| heard.as_secs()),
                round_trip_ms: signs.round_trip.map(milliseconds),
                asking: signs.asking,
                answering: signs.answering,
            };
            Some((*id, view))
        });
        let mut views: Vec<_> = views.collect();
        views.sort_by(|one, two| one.1.name.cmp(&two.1.name));
        views
    }

    /// The last node with an unknown key that has asked for keys since the last call.
    pub(crate) fn take_unknown(&self) -> Option<(SocketAddr, PublicKey)> {
        self.0.engine.lock().take_unknown()
    }

    /// Resolves when the listener is to end, and nothing goes on.
    pub(crate) async fn quiet(&self, watch: &Watch) {
        watch.graceful().await;
        self.0.is_draining.store(true, Ordering::Relaxed);
        self.0.due.notify_one();
        loop {
            let ended = self.0.ended.notified();
            if self.0.engine.lock().is_idle() {
                // The last FINs are sent before the socket is closed.
                return tokio::task::yield_now().await;
            }
            ended.await;
        }
    }

    /// Serves a socket, until the future is dropped; `asked` gets each request of a neighbour, and the address of that.
    ///
    /// # Errors
    /// The socket cannot be used, or another one is served.
    pub async fn drive(
        &self,
        socket: impl Into<DatagramSocket>,
        mut asked: impl FnMut(ExchangeKey, SocketAddr),
    ) -> io::Result<()> {
        let _driven = Driven::claim(&self.0)?;
        let DatagramSocket { socket, rendezvous } = socket.into();
        let mut company = Company::new(rendezvous, &mut self.0.engine.lock())?;
        let timed = TimedSocket::new(socket)?;
        let socket = timed.socket();
        // A datagram that fills the byte beyond the maximum is too long.
        let mut buffer = vec![0; MAX_CUSTODY_DATAGRAM + 1];
        let mut unsent = None;
        let mut links = LinkWatcher::new();
        let is_v6 = socket.local_addr()?.is_ipv6();
        let mut log = NeighbourLog::new(Instant::now());

        loop {
            company.look(&self.0.engine, &self.0.is_draining);
            // Waiting datagrams come first: a node that was late itself does not mistake its own delay for silence.
            let received = self.receive(&timed, &mut buffer, &mut company);
            self.take_written();
            let sent = self.send(socket, is_v6, &mut unsent);
            self.tell(&mut asked);
            self.log_neighbours(&mut log, Instant::now());
            if received == Batch::Cut || sent == Batch::Cut {
                // There is more, from a sender that is as fast as it can be: the others on this worker have their turn first.
                self.give_way(&mut company).await;
                continue;
            }
            let now = Instant::now();
            let due = self.due(&log, now).min(company.due(now));

            tokio::select! {
                next = company.next_or(socket.readable()) => match next {
                    NextDatagrams::Received(ready) => ready?,
                    NextDatagrams::Forwarded(arrived) => company.hear(&self.0.engine, arrived),
                },
                ready = socket.writable(), if unsent.is_some() => ready?,
                () = tokio::time::sleep_until(due.into()) => {
                    self.0.engine.lock().handle_timeout(Instant::now());
                }
                () = self.0.due.notified() => {}
                () = self.written() => {}
                () = links.due() => self.0.engine.lock().hurry(Instant::now()),
            }
        }
    }

    /// Logs neighbours that have stopped answering, or answer again.
    fn log_neighbours(&self, log: &mut NeighbourLog, now: Instant) {
        if !log.is_due(now) {
            return;
        }
        // The engine keeps one such key until it is taken: it is taken only when it is logged.
        if log.may_say_unknown(now)
            && let Some((from, key)) = self.take_unknown()
        {
            log.say_unknown(from, &key, now);
        }
        log.look(&self.views(now), now);
    }

    /// Goes on with the exchanges of which the disk has written something.
    fn take_written(&self) {
        if self.0.disk.is_some() {
            self.0.engine.lock().handle_written(Instant::now());
        }
    }

    /// Resolves when the disk has written something.
    async fn written(&self) {
        match &self.0.disk {
            Some(disk) => disk.written().await,
            None => std::future::pending().await,
        }
    }

    /// Lets the others on this worker have their turn, and then other processes.
    async fn give_way(&self, company: &mut Company) {
        tokio::task::yield_now().await;
        company.hear_others(&self.0.engine).await;
        self.0.engine.lock().handle_timeout(Instant::now());
    }

    /// When there is something to do at the latest.
    fn due(&self, log: &NeighbourLog, now: Instant) -> Instant {
        let engine = self.0.engine.lock();
        let look = log.due(engine.is_idle());
        let due = engine.poll_timeout(now).into_iter().chain(look).min();
        due.unwrap_or(now + IDLE)
    }

    /// Sends the datagrams that are due. One that the socket does not take is kept.
    fn send(
        &self,
        socket: &UdpSocket,
        is_v6: bool,
        unsent: &mut Option<(SocketAddr, Bytes)>,
    ) -> Batch {
        let until = Instant::now() + TURN;
        for _ in 0..BATCH {
            let now = Instant::now();
            if now >= until {
                return Batch::Cut;
            }
            let next = unsent
                .take()
                .or_else(|| self.0.engine.lock().poll_transmit(now));
            let Some((to, datagram)) = next else {
                return Batch::All;
            };
            match socket.try_send_to(&datagram, at_socket(to, is_v6)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    *unsent = Some((to, datagram));
                    return Batch::All;
                }
                // A link that is down loses datagrams, one way or another.
                Err(error) => {
                    let error = error.to_string();
                    *self.0.not_sent.lock() = Some(NotSent { to, error, at: now });
                }
                Ok(_) => {}
            }
        }
        Batch::Cut
    }

    fn receive(&self, socket: &TimedSocket, buffer: &mut [u8], company: &mut Company) -> Batch {
        let until = Instant::now() + TURN;
        for _ in 0..BATCH {
            match socket.try_recv(buffer) {
                Ok(came) if came.length < buffer.len() => {
                    let datagram = Bytes::copy_from_slice(&buffer[..came.length]);
                    let now = Instant::now();
                    let came = Came {
                        from: canonical(came.from),
                        waited: came.waited,
                        now,
                    };
                    company.take(&mut self.0.engine.lock(), &datagram, came);
                    if now >= until {
                        return Batch::Cut;
                    }
                }
                // It is too long to be one of ours.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Batch::All,
                // An ICMP error of a datagram that was sent: the silence of the neighbour says as much.
                Err(_) => {}
            }
        }
        Batch::Cut
    }

    /// Wakes the tasks that wait for events.
    fn tell(&self, asked: &mut impl FnMut(ExchangeKey, SocketAddr)) {
        loop {
            let mut engine = self.0.engine.lock();
            let Some(event) = engine.poll_event() else {
                return;
            };
            match event {
                Event::Asked(key) => {
                    let from = engine.address(key.neighbour);
                    // Tasks take the locks of `waiting` and of the engine one after the other, never both.
                    drop(engine);
                    self.0.waiting.lock().insert(key, OpenExchange::new());
                    if let Some(from) = from {
                        asked(key, from);
                    }
                }
                Event::Readable(key) | Event::Writable(key) => {
                    drop(engine);
                    if let Some(open) = self.0.waiting.lock().get(&key) {
                        open.changes.send_replace(());
                    }
                }
                Event::Over(key) => {
                    drop(engine);
                    self.0.waiting.lock().remove(&key);
                    self.0.ended.notify_waiters();
                }
            }
        }
    }
}

/// Has an engine know these neighbours; by name.
fn known(
    engine: &mut Engine,
    neighbours: Vec<NamedNeighbour>,
    now: Instant,
) -> HashMap<String, NeighbourId> {
    let known = neighbours.into_iter().map(|neighbour| {
        let id = engine.add_neighbour(neighbour.key, neighbour.address, now);
        (neighbour.name, id)
    });
    known.collect()
}

/// To hundredths.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

/// An address as a socket of this family takes it: one of IPv6 takes IPv4 addresses mapped (RFC 4291, 2.5.5.2).
fn at_socket(address: SocketAddr, is_v6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if is_v6 => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
        _ => address,
    }
}

/// The same address, whichever socket it came to.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// How far a turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Batch {
    /// All of it.
    All,
    /// As much as may be done before others have their turn.
    Cut,
}

/// A socket is served, and no other, as long as this lives.
struct Driven<'a>(&'a Inner);

impl<'a> Driven<'a> {
    /// Serves a socket from now on.
    ///
    /// # Errors
    /// Another one is served.
    fn claim(inner: &'a Inner) -> io::Result<Self> {
        if inner.driven.swap(true, Ordering::AcqRel) {
            return Err(io::Error::other(
                "custody is served on another socket already",
            ));
        }
        inner.engine.lock().freeze(false);
        Ok(Self(inner))
    }
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        // Exchanges that are dropped from now on go on in the next process, so their files stay.
        self.0.engine.lock().freeze(true);
        self.0.driven.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_noise::PrivateKey;

    #[test]
    fn users_of_two_neighbours_are_two_whatever_they_are_called() {
        let keys: Vec<_> = (0..3).map(|_| PrivateKey::generate().unwrap()).collect();
        let neighbours = keys[1..].iter().zip(["one", "other"]);
        let neighbours = neighbours.map(|(key, name)| NamedNeighbour {
            name: name.to_owned(),
            key: key.public(),
            address: None,
        });
        let custody = Custody::new(Settings {
            key: keys[0].clone(),
            keep_for: None,
            neighbours: neighbours.collect(),
            disk: None,
        });

        let one = custody.neighbour("one");
        let other = custody.neighbour("other");
        let engine = custody.0.engine.lock();
        let alice = engine.owner_of(one, Some("alice"));
        assert_eq!(alice, engine.owner_of(one, Some("alice")));
        assert_ne!(
            alice,
            engine.owner_of(other, Some("alice")),
            "who only claims to be alice"
        );
        assert_ne!(
            alice,
            engine.owner_of(None, Some("alice")),
            "this node's own"
        );
        assert_ne!(alice, engine.owner_of(one, None));
    }
}
