//! One connection.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use quinn::crypto::rustls::HandshakeData;
use quinn::{VarInt, ZeroRttAccepted};
use rustls::pki_types::CertificateDer;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::datagrams::{self, Counters, DatagramCounts, SentDatagrams};
use super::error::ConnectionError;
use super::flows::Flows;
use super::handshakes::Handshake;
use super::nested_path::NestedPath;
use super::path_stats::PathStats;
use super::recv::RecvStream;
use super::refusals::Refusals;
use super::send::{SendStream, code_of};
use crate::memory::{Flow, Pressure};
use crate::peer::{PeerAddress, StreamInfo, TlsPeer, canonical};
use crate::shown_chain::ShownChain;
use crate::tls::certificate_names;

/// How long datagrams may wait for room in the send buffer: older ones are better dropped.
#[doc(alias = "bound")]
const WAIT_FOR_ROOM: Duration = Duration::from_millis(10);
/// How often the driver is let in first, and then how often to look again.
const YIELDS: usize = 32;
const ROUND: Duration = Duration::from_millis(1);

/// A connection. Clones are the same one; it is closed with code 0 when the last is dropped and its streams are.
#[derive(Debug, Clone)]
pub struct Connection {
    state: Arc<State>,
}

/// A connection that is not kept open by this.
#[derive(Debug, Clone)]
pub struct WeakConnection(Weak<State>);

#[derive(Debug)]
struct State {
    quinn: quinn::Connection,
    info: Arc<StreamInfo>,
    counters: Counters,
    flows: Arc<Flows>,
    confirmation: Confirmation,
    /// ICMP errors of the peer's machine to our socket.
    refusals: OnceLock<Arc<Refusals>>,
    /// The carrier of its packets, within a tunnel.
    nested: OnceLock<Arc<NestedPath>>,
}

/// Whether the handshake has ended.
struct Confirmation {
    done: AtomicBool,
    /// The server rejected the early data.
    lost: AtomicBool,
    /// Until then; locked by the one who waits.
    pending: Mutex<Option<Unfinished>>,
}

/// A handshake that has not ended, while the connection can be used already.
pub(super) struct Unfinished {
    /// Resolves with the end of the handshake; to a server this proves the client's address.
    pub(super) accepted: ZeroRttAccepted,
    /// On a server, counts it as unfinished until dropped.
    pub(super) _counted: Option<Handshake>,
}

impl Connection {
    /// A connection whose handshake has ended, or will end when `pending` resolves. `local` is the address of the socket.
    pub(super) fn new(
        quinn: quinn::Connection,
        local: Option<SocketAddr>,
        pending: Option<Unfinished>,
    ) -> Self {
        let info = Arc::new(info_of(&quinn, local));
        let done = AtomicBool::new(pending.is_none());
        let confirmation = Confirmation {
            done,
            lost: AtomicBool::new(false),
            pending: Mutex::new(pending),
        };

        let counters = Counters::default();
        let flows = Arc::default();
        let refusals = OnceLock::new();

        Self {
            state: Arc::new(State {
                quinn,
                info,
                counters,
                flows,
                confirmation,
                refusals,
                nested: OnceLock::new(),
            }),
        }
    }

    /// Adds the ICMP errors of the peer's machine.
    pub(super) fn told(self, refusals: &Arc<Refusals>) -> Self {
        let _ = self.state.refusals.set(refusals.clone());
        self
    }

    /// Adds the tunnel that carries the packets.
    pub(super) fn nested(self, path: Arc<NestedPath>) -> Self {
        let _ = self.state.nested.set(path);
        self
    }

    /// How often the peer's machine has said that nothing listens on the peer's port (ICMP): a hint, that can be forged.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.state
            .refusals
            .get()
            .map_or(0, |refusals| refusals.count())
    }

    /// Resolves when it has said so more than `count` times; never where it is not heard.
    pub async fn refused(&self, count: u64) {
        match self.state.refusals.get() {
            Some(refusals) => refusals.more_than(count).await,
            None => std::future::pending().await,
        }
    }

    /// A handle that does not keep the connection open.
    #[must_use]
    pub fn downgrade(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(&self.state))
    }

    /// The properties of the peer from the beginning, as of a stream over TCP.
    #[must_use]
    pub fn info(&self) -> &Arc<StreamInfo> {
        &self.state.info
    }

    /// Where the peer is now: a client may move (RFC 9000 section 9).
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        canonical(self.state.quinn.remote_address())
    }

    /// The measured time to the peer and back.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.state.quinn.rtt()
    }

    /// Figures that show whether the path still works.
    #[must_use]
    pub fn path_stats(&self) -> PathStats {
        PathStats::of(&self.state.quinn.stats())
    }

    /// Asks the peer for an acknowledgement. It costs a packet of either side; the peer's HTTP/3
    /// neither sees nor counts it.
    pub fn ping(&self) {
        self.state.flows.ping(&self.state.quinn);
    }

    /// Opens a stream of both directions. Waits while the peer allows no more. Dropping the future
    /// opens no stream.
    ///
    /// # Errors
    /// When the connection ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (send, recv) = self.state.quinn.open_bi().await?;
        Ok((
            SendStream::new(send, &self.state.flows),
            RecvStream::new(recv, &self.state.flows.readers),
        ))
    }

    /// Opens a stream of both directions, if the peer allows one now.
    #[must_use]
    pub fn try_open_bi(&self) -> Option<(SendStream, RecvStream)> {
        // quinn has no call for it. A future that is polled once and dropped opens nothing, and leaves no waker behind.
        match pin!(self.open_bi()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(opened) => opened.ok(),
            Poll::Pending => None,
        }
    }

    /// Opens a stream towards the peer. Waits while the peer allows no more. Dropping the future
    /// opens no stream.
    ///
    /// # Errors
    /// When the connection ended.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        Ok(SendStream::new(
            self.state.quinn.open_uni().await?,
            &self.state.flows,
        ))
    }

    /// Opens a stream towards the peer, if that allows one now.
    #[must_use]
    pub fn try_open_uni(&self) -> Option<SendStream> {
        // As above.
        match pin!(self.open_uni()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(opened) => opened.ok(),
            Poll::Pending => None,
        }
    }

    /// The next stream of both directions that the peer opens.
    ///
    /// # Errors
    /// When the connection ended.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (send, recv) = self.state.quinn.accept_bi().await?;
        Ok((
            SendStream::new(send, &self.state.flows),
            RecvStream::new(recv, &self.state.flows.readers),
        ))
    }

    /// The next stream towards us that the peer opens.
    ///
    /// # Errors
    /// When the connection ended.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        Ok(RecvStream::new(
            self.state.quinn.accept_uni().await?,
            &self.state.flows.readers,
        ))
    }

    /// The largest datagram that can be sent now, in bytes; it changes with the path. `None` if the
    /// peer takes no datagrams.
    #[must_use]
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.state.quinn.max_datagram_size()
    }

    /// Hands over datagrams without waiting. A datagram that is too large, or does not fit the send
    /// buffer, is dropped and counted.
    pub fn send_datagrams(&self, datagrams: impl IntoIterator<Item = Bytes>) -> SentDatagrams {
        datagrams::send(&self.state.quinn, &self.state.counters, datagrams)
    }

    /// Bytes that the send buffer takes now, 32 of them for each datagram.
    #[must_use]
    pub fn datagram_room(&self) -> usize {
        self.state.quinn.datagram_send_buffer_space()
    }

    /// Waits until the send buffer takes `bytes`, but no longer than `WAIT_FOR_ROOM`: an older
    /// datagram is better dropped. False if it does not.
    pub async fn datagram_room_for(&self, bytes: usize) -> bool {
        // The connection's driver is a task of the same thread: it only has to be let in. Only a full path takes longer.
        for _ in 0..YIELDS {
            if self.datagram_room() >= bytes {
                return true;
            }
            tokio::task::yield_now().await;
        }

        let until = Instant::now() + WAIT_FOR_ROOM;
        while self.datagram_room() < bytes {
            if Instant::now() >= until || self.state.quinn.close_reason().is_some() {
                return false;
            }
            tokio::time::sleep(ROUND).await;
        }

        true
    }

    /// Sends one datagram as soon as the send buffer has room; false when it is too large. Dropping
    /// the future sends nothing.
    ///
    /// # Errors
    /// When the connection ended.
    pub async fn send_datagram_wait(&self, datagram: Bytes) -> Result<bool, ConnectionError> {
        match self.state.quinn.send_datagram_wait(datagram).await {
            Ok(()) => {
                self.state.counters.count_sent(SentDatagrams {
                    sent: 1,
                    ..SentDatagrams::default()
                });
                Ok(true)
            }
            Err(quinn::SendDatagramError::ConnectionLost(error)) => Err(error.into()),
            Err(_) => {
                self.state.counters.count_sent(SentDatagrams {
                    too_large: 1,
                    ..SentDatagrams::default()
                });
                Ok(false)
            }
        }
    }

    /// Waits for a datagram, then appends it and others that are ready, at most `most`. One task at
    /// a time. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the connection ended.
    pub async fn recv_datagrams(
        &self,
        into: &mut Vec<Bytes>,
        most: usize,
    ) -> Result<(), ConnectionError> {
        datagrams::receive(&self.state.quinn, &self.state.counters, into, most).await
    }

    /// Counts of this connection's datagrams.
    #[must_use]
    pub fn datagram_counts(&self) -> DatagramCounts {
        self.state.counters.read(&self.state.quinn)
    }

    /// Closes at once, with a code of HTTP/3 and words for the peer, unless it has ended.
    pub fn close(&self, code: u64, reason: &[u8]) {
        // quinn would put this in place of the reason for which the peer closed it.
        if self.state.quinn.close_reason().is_none() {
            self.state.quinn.close(code_of(code), reason);
        }
    }

    /// As [`Self::close`], and lets the connection's driver, a task of this thread, send that: a process that ends just then would
    /// leave the peer to find out by silence. The tunnel around a connection ends then, too.
    pub async fn close_and_tell(&self, code: u64, reason: &[u8]) {
        let nested = self.state.nested.get();
        if let Some(path) = nested {
            path.begin_end();
        }

        self.close(code, reason);
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
        if let Some(path) = nested {
            path.end();
        }
    }

    /// UDP packets received from the peer so far. The peer is silent while this does not change.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.state.quinn.stats().udp_rx.datagrams
    }

    /// Resolves when the connection has ended.
    pub async fn closed(&self) -> ConnectionError {
        self.state.quinn.closed().await.into()
    }

    /// Why the connection has ended, if it has.
    #[must_use]
    pub fn closed_reason(&self) -> Option<ConnectionError> {
        self.state.quinn.close_reason().map(ConnectionError::from)
    }

    /// Resolves when the handshake has ended, or the connection. At once unless there is early data.
    pub async fn confirmed(&self) {
        let confirmation = &self.state.confirmation;
        if confirmation.done.load(Ordering::Acquire) {
            return;
        }

        let mut pending = confirmation.pending.lock().await;
        if let Some(unfinished) = pending.as_mut() {
            let accepted = (&mut unfinished.accepted).await;
            confirmation.lost.store(!accepted, Ordering::Relaxed);
            *pending = None;
        }

        confirmation.done.store(true, Ordering::Release);
    }

    /// Waits for the end of the handshake; whether the server, which is there, did not take early data: streams that were opened
    /// before are lost then (RFC 9001 section 4.6.2).
    pub async fn early_data_was_lost(&self) -> bool {
        self.confirmed().await;
        self.state.confirmation.lost.load(Ordering::Relaxed) && self.closed_reason().is_none()
    }

    /// True when the handshake has ended.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        let confirmation = &self.state.confirmation;
        if confirmation.done.load(Ordering::Acquire) {
            return true;
        }

        // The holder of the lock waits for it, and will say so.
        let Ok(mut pending) = confirmation.pending.try_lock() else {
            return false;
        };
        let mut cx = Context::from_waker(Waker::noop());
        let ended = match pending
            .as_mut()
            .map(|unfinished| Pin::new(&mut unfinished.accepted).poll(&mut cx))
        {
            Some(Poll::Pending) => false,
            Some(Poll::Ready(accepted)) => {
                confirmation.lost.store(!accepted, Ordering::Relaxed);
                true
            }
            None => true,
        };

        if ended {
            *pending = None;
            confirmation.done.store(true, Ordering::Release);
        }

        ended
    }

    /// To be called once a second: returns an upper bound on the memory of its streams, and follows
    /// the pressure. A `link` carries exchanges of many users, which must not block each other: if
    /// no room is left, stalled streams are ended.
    #[must_use]
    pub fn look(&self, link: bool, pressure: Pressure) -> Flow {
        self.state.flows.look(&self.state.quinn, link, pressure)
    }

    /// Sets how many streams of both directions the peer may have open at once.
    pub fn set_max_bi_streams(&self, count: u64) {
        self.state
            .quinn
            .set_max_concurrent_bi_streams(VarInt::from_u64(count).unwrap_or(VarInt::MAX));
    }
}

impl WeakConnection {
    /// The connection, if it is still open.
    #[must_use]
    pub fn upgrade(&self) -> Option<Connection> {
        let connection = Connection {
            state: self.0.upgrade()?,
        };
        connection.closed_reason().is_none().then_some(connection)
    }
}

impl std::fmt::Debug for Confirmation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.done.fmt(f)
    }
}

/// The results of the handshake so far. A client's certificate comes with the end of the handshake.
fn info_of(quinn: &quinn::Connection, local: Option<SocketAddr>) -> StreamInfo {
    let handshake = quinn
        .handshake_data()
        .and_then(|data| data.downcast::<HandshakeData>().ok());
    let (alpn, server_name) = handshake
        .map(|data| (data.protocol, data.server_name))
        .unwrap_or_default();
    let chain = quinn
        .peer_identity()
        .and_then(|peer| peer.downcast::<Vec<CertificateDer<'static>>>().ok());
    let certificate = chain
        .as_ref()
        .and_then(|chain| chain.first().map(|own| certificate_names(own)));
    let chain = chain.map(|chain| Arc::new(ShownChain::new(*chain)));
    let local = local.map(|local| match quinn.local_ip() {
        Some(ip) => canonical(SocketAddr::new(ip, local.port())),
        None => canonical(local),
    });

    StreamInfo {
        peer: PeerAddress::Ip(canonical(quinn.remote_address())),
        local,
        tls: Some(Box::new(TlsPeer {
            alpn,
            server_name,
            certificate,
            chain,
        })),
        origin: None,
    }
}
