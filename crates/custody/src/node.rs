//! A node's custody: its machine, its socket, and the tasks that wait for what comes.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_net::Watch;
use hermes_proto::custody::{ErrCode, MAX_CUSTODY_DATAGRAM};
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, watch};

use crate::engine::{Engine, Event, ExchangeKey, NeighbourId, Reading};
use crate::hurry::Hurry;
use crate::noise::{NodeKey, PublicKey};

/// How long an exchange is kept without an end where nothing is configured.
#[doc(alias("bound", "keep_for"))]
const KEEP_FOR: Duration = Duration::from_secs(3600);

/// Datagrams that are taken before what they ask for is sent.
#[doc(alias = "bound")]
const BATCH: usize = 64;

/// Bytes that are read of an exchange at once.
#[doc(alias = "bound")]
const READ: usize = 64 * 1024;

/// A pause where nothing is due: whatever happens ends it.
const IDLE: Duration = Duration::from_secs(3600);

/// A neighbour, as the configuration names it.
#[derive(Debug, Clone)]
pub struct NamedNeighbour {
    /// Its name: that of the upstream whose requests it takes into custody.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// Where it is; `None` if it always begins.
    pub address: Option<SocketAddr>,
}

/// What belongs to a node.
#[derive(Debug)]
pub struct Settings {
    /// The node's key.
    pub key: NodeKey,
    /// How long an exchange is kept without an end.
    pub keep_for: Option<Duration>,
    /// Whom it knows.
    pub neighbours: Vec<NamedNeighbour>,
}

/// The custody of a node. Its copies are the same.
#[derive(Clone)]
pub struct Custody(Arc<Inner>);

struct Inner {
    engine: Mutex<Engine>,
    neighbours: HashMap<String, NeighbourId>,
    keep_for: Duration,
    /// There is something to send.
    due: Notify,
    /// An exchange has ended.
    ended: Notify,
    /// Who waits for an exchange.
    waiting: Mutex<HashMap<ExchangeKey, watch::Sender<()>>>,
    /// A socket is served.
    driven: AtomicBool,
}

impl Custody {
    /// It does nothing before it is [driven](Self::drive).
    pub fn new(settings: Settings) -> Self {
        let now = Instant::now();
        let mut seed = [0; 8];
        // What is drawn from it need not be secret.
        let _ = aws_lc_rs::rand::fill(&mut seed);
        let mut engine = Engine::new(settings.key, u64::from_ne_bytes(seed), now);
        let known = settings.neighbours.into_iter().map(|neighbour| {
            let id = engine.add_neighbour(neighbour.key, neighbour.address, now);
            (neighbour.name, id)
        });
        let neighbours = known.collect();

        Self(Arc::new(Inner {
            engine: Mutex::new(engine),
            neighbours,
            keep_for: settings.keep_for.unwrap_or(KEEP_FOR),
            due: Notify::new(),
            ended: Notify::new(),
            waiting: Mutex::default(),
            driven: AtomicBool::new(false),
        }))
    }

    /// The neighbour of this name.
    pub(crate) fn neighbour(&self, name: &str) -> Option<NeighbourId> {
        self.0.neighbours.get(name).copied()
    }

    /// Resolves when the listener is to end, and nothing goes on.
    pub(crate) async fn quiet(&self, watch: &Watch) {
        watch.graceful().await;
        loop {
            let ended = self.0.ended.notified();
            if self.0.engine.lock().is_idle() {
                // The last word is sent before the socket is closed.
                return tokio::task::yield_now().await;
            }
            ended.await;
        }
    }

    /// Serves a socket, until it is dropped; `asked` is told what neighbours ask for, and where they are.
    ///
    /// # Errors
    /// The socket cannot be used, or another one is served.
    pub async fn drive(
        &self,
        socket: std::net::UdpSocket,
        mut asked: impl FnMut(ExchangeKey, SocketAddr),
    ) -> io::Result<()> {
        if self.0.driven.swap(true, Ordering::AcqRel) {
            return Err(io::Error::other(
                "custody is served on another socket already",
            ));
        }
        let _driven = Driven(&self.0.driven);
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        let mut buffer = vec![0; MAX_CUSTODY_DATAGRAM + 1];
        let mut unsent = None;
        let mut hurry = Hurry::new();
        let is_v6 = socket.local_addr()?.is_ipv6();

        loop {
            self.send(&socket, is_v6, &mut unsent);
            self.tell(&mut asked);
            let now = Instant::now();
            let due = self.0.engine.lock().poll_timeout(now);
            let due = due.unwrap_or(now + IDLE);

            tokio::select! {
                ready = socket.readable() => {
                    ready?;
                    self.receive(&socket, &mut buffer);
                }
                ready = socket.writable(), if unsent.is_some() => ready?,
                () = tokio::time::sleep_until(due.into()) => {
                    self.0.engine.lock().handle_timeout(Instant::now());
                }
                () = self.0.due.notified() => {}
                () = hurry.due() => self.0.engine.lock().hurry(Instant::now()),
            }
        }
    }

    /// Sends what is due. What the socket does not take is kept.
    fn send(&self, socket: &UdpSocket, is_v6: bool, unsent: &mut Option<(SocketAddr, Bytes)>) {
        loop {
            let next = unsent
                .take()
                .or_else(|| self.0.engine.lock().poll_transmit(Instant::now()));
            let Some((to, datagram)) = next else { return };
            match socket.try_send_to(&datagram, at_socket(to, is_v6)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    *unsent = Some((to, datagram));
                    return;
                }
                // A link that is down loses datagrams, one way or another.
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn receive(&self, socket: &UdpSocket, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            match socket.try_recv_from(buffer) {
                Ok((length, from)) if length < buffer.len() => {
                    let datagram = Bytes::copy_from_slice(&buffer[..length]);
                    let mut engine = self.0.engine.lock();
                    engine.handle_datagram(&datagram, canonical(from), Instant::now());
                }
                // It is too long to be one of ours.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // What was sent did not arrive; that is known soon enough.
                Err(_) => {}
            }
        }
    }

    /// Wakes those who wait for what has happened.
    fn tell(&self, asked: &mut impl FnMut(ExchangeKey, SocketAddr)) {
        loop {
            let mut engine = self.0.engine.lock();
            let Some(event) = engine.poll_event() else {
                return;
            };
            match event {
                Event::Asked(key) => {
                    let from = engine.address(key.neighbour);
                    drop(engine);
                    self.0.waiting.lock().insert(key, watch::Sender::new(()));
                    if let Some(from) = from {
                        asked(key, from);
                    }
                }
                Event::Readable(key) | Event::Writable(key) => {
                    drop(engine);
                    if let Some(waiting) = self.0.waiting.lock().get(&key) {
                        waiting.send_replace(());
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

    /// Begins an exchange; `None` if there are too many.
    pub(crate) fn open(&self, neighbour: NeighbourId, repeatable: bool) -> Option<Exchange> {
        let mut exchange = [0; 16];
        aws_lc_rs::rand::fill(&mut exchange).ok()?;
        let key = ExchangeKey {
            neighbour,
            exchange,
        };
        let keep = self.0.keep_for;
        let mut engine = self.0.engine.lock();
        if !engine.open(key, keep, repeatable, Instant::now()) {
            return None;
        }
        self.0.waiting.lock().insert(key, watch::Sender::new(()));
        Some(Exchange {
            custody: self.clone(),
            key,
            asking: true,
        })
    }

    /// An exchange that a neighbour has asked for.
    pub(crate) fn answer(&self, key: ExchangeKey) -> Exchange {
        Exchange {
            custody: self.clone(),
            key,
            asking: false,
        }
    }
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

/// Another socket may be served.
struct Driven<'a>(&'a AtomicBool);

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// One side of an exchange. If this node began it, dropping it ends it.
pub(crate) struct Exchange {
    custody: Custody,
    key: ExchangeKey,
    asking: bool,
}

/// The exchange is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over;

impl Exchange {
    /// Waits for what changes, from now on; `None` if the exchange is over.
    pub(crate) fn changes(&self) -> Option<watch::Receiver<()>> {
        let waiting = self.custody.0.waiting.lock();
        waiting.get(&self.key).map(watch::Sender::subscribe)
    }

    /// Resolves when the exchange is over.
    pub(crate) async fn over(&self) {
        if let Some(mut changes) = self.changes() {
            while changes.changed().await.is_ok() {}
        }
    }

    /// What comes next of what the neighbour gives.
    ///
    /// # Errors
    /// It will not be whole.
    pub(crate) async fn read(&self) -> Result<Option<Bytes>, ErrCode> {
        loop {
            // From before the look on, so that nothing is missed.
            let changes = self.changes();
            let reading = self.custody.0.engine.lock().read(self.key, READ);
            match (reading, changes) {
                (Reading::Bytes(bytes), _) => {
                    // There may be room to ask for more.
                    self.custody.0.due.notify_one();
                    return Ok(Some(bytes));
                }
                (Reading::End, _) => return Ok(None),
                (Reading::Broken(code), _) => return Err(code),
                (Reading::Waiting, Some(mut changes)) => {
                    // An end is seen by the next look.
                    let _ = changes.changed().await;
                }
                (Reading::Waiting, None) => return Err(ErrCode::Expired),
            }
        }
    }

    /// Gives bytes, as soon as there is room.
    ///
    /// # Errors
    /// The exchange is over.
    pub(crate) async fn write(&self, mut bytes: Bytes) -> Result<(), Over> {
        while !bytes.is_empty() {
            let mut changes = self.changes().ok_or(Over)?;
            let room = {
                let mut engine = self.custody.0.engine.lock();
                let room = engine.room(self.key).min(bytes.len());
                engine.write(self.key, bytes.split_to(room));
                room
            };
            if room == 0 {
                changes.changed().await.map_err(|_| Over)?;
            } else {
                self.custody.0.due.notify_one();
            }
        }
        Ok(())
    }

    /// That was all.
    pub(crate) fn finish(&self) {
        self.custody.0.engine.lock().finish(self.key);
        self.custody.0.due.notify_one();
    }

    /// It will not be whole.
    pub(crate) fn break_off(&self, code: ErrCode) {
        self.custody.0.engine.lock().break_off(self.key, code);
        self.custody.0.due.notify_one();
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.asking {
            let mut engine = self.custody.0.engine.lock();
            engine.close(self.key, Instant::now());
            drop(engine);
            self.custody.0.waiting.lock().remove(&self.key);
            self.custody.0.due.notify_one();
            self.custody.0.ended.notify_waiters();
        }
    }
}
