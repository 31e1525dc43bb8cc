//! The UDP socket under QUIC connections.
//!
//! quinn asks the kernel to segment ten packets at most, and asks for more packets until none are
//! left. Here neighbouring sends to one peer are joined up to the kernel's limit, as long as more
//! is certain to come; a reader that got fewer packets than asked for waits at once; and packets
//! that the kernel merged are handed on in pieces.

use std::future::{Future, poll_fn};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use super::merged_packets;
use super::refusals::Refusals;
use super::shared::SharedPackets;
use crate::os;

/// Packets of a send of quinn's that was as large as quinn makes them: most of the time another one follows.
const FULL: usize = 10;

/// Packets that leave in one send: as many as the kernel segments.
#[doc(alias = "bound")]
const MOST: usize = 64;

/// Bytes of those packets: below the 65,535 of an IP packet, with room for its headers.
#[doc(alias = "bound")]
const MOST_BYTES: usize = 65_000;

/// A UDP socket that quinn uses.
#[derive(Debug)]
pub(super) struct CoalescingSocket(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    io: UdpSocket,
    state: UdpSocketState,
    batch: Mutex<GsoBatch>,
    /// The last send found no room, or there was no send yet.
    blocked: AtomicBool,
    /// The task to wake when nothing listens at the other end.
    refusals: Option<Arc<Refusals>>,
    /// The other processes that have the socket.
    packets: Option<Arc<SharedPackets>>,
    /// Forwarded datagrams come before those of the socket, at every other turn.
    is_others_turn: AtomicBool,
    closed: Notify,
}

/// Packets of equal size to one peer that wait for those that follow, until the tasks that are due have run.
#[derive(Debug, Default)]
struct GsoBatch {
    key: Option<BatchKey>,
    bytes: Vec<u8>,
    /// Something was added since the sender looked.
    grown: bool,
    /// No packets are added any more.
    closed: bool,
    sender: Option<Waker>,
}

/// The common properties of a batch's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BatchKey {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    size: usize,
    src_ip: Option<IpAddr>,
}

impl BatchKey {
    /// The key of a send in packets of this `size`.
    fn of(transmit: &Transmit<'_>, size: usize) -> Self {
        let Transmit {
            destination,
            ecn,
            src_ip,
            ..
        } = *transmit;
        Self {
            destination,
            ecn,
            size,
            src_ip,
        }
    }
}

/// The size of the packets of a send that is as large as quinn makes them.
fn full(transmit: &Transmit<'_>) -> Option<usize> {
    transmit
        .segment_size
        .filter(|size| transmit.contents.len() >= size * FULL)
}

impl GsoBatch {
    /// Whether a send goes on where this ends: a single packet does too, if it is not larger than the others.
    fn takes(&self, transmit: &Transmit<'_>) -> bool {
        let Some(key) = self.key else { return false };
        let length = transmit.contents.len();
        let fits = transmit
            .segment_size
            .map_or(length <= key.size, |size| size == key.size);
        let bytes = self.bytes.len() + length;

        fits && BatchKey::of(transmit, key.size) == key
            && bytes <= MOST_BYTES
            && bytes <= key.size * MOST
    }

    fn push(&mut self, transmit: &Transmit<'_>) {
        self.bytes.extend_from_slice(transmit.contents);
        self.grown = true;
    }

    fn wake(&mut self) {
        self.sender.take().into_iter().for_each(Waker::wake);
    }
}

impl CoalescingSocket {
    /// Takes a socket that does not block.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn new(
        socket: std::net::UdpSocket,
        refusals: Option<Arc<Refusals>>,
    ) -> io::Result<Self> {
        Self::with(socket, refusals, None)
    }

    /// As [`Self::new`], of a socket that other processes have too.
    ///
    /// # Panics
    /// As there.
    pub(super) fn shared(
        socket: std::net::UdpSocket,
        packets: Arc<SharedPackets>,
    ) -> io::Result<Self> {
        Self::with(socket, None, Some(packets))
    }

    fn with(
        socket: std::net::UdpSocket,
        refusals: Option<Arc<Refusals>>,
        packets: Option<Arc<SharedPackets>>,
    ) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        let io = UdpSocket::from_std(socket)?;

        // Whether there is room is not known yet.
        let blocked = AtomicBool::new(true);
        let batch = Mutex::default();
        let closed = Notify::new();
        let hears = refusals.is_some();

        let shared = Arc::new(Shared {
            io,
            state,
            batch,
            blocked,
            refusals,
            packets,
            is_others_turn: AtomicBool::new(false),
            closed,
        });

        tokio::spawn(shared.clone().conduct());
        if hears {
            tokio::spawn(shared.clone().hear());
        }

        Ok(Self(shared))
    }
}

impl Drop for CoalescingSocket {
    fn drop(&mut self) {
        let mut batch = self.0.batch.lock();
        batch.closed = true;
        batch.wake();
        drop(batch);
        self.0.closed.notify_one();
    }
}

impl Shared {
    /// Sends batches to which nothing was added while other tasks ran. Ends with the socket.
    async fn conduct(self: Arc<Self>) {
        poll_fn(|cx| {
            let mut batch = self.batch.lock();
            batch.sender = Some(cx.waker().clone());
            loop {
                if batch.key.is_none() {
                    return if batch.closed {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    };
                }

                // Woken at once, which puts this task behind those that are due now: they may add to the batch.
                if std::mem::take(&mut batch.grown) {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }

                // A socket that cannot be waited for is broken, and its packets are lost as on any
                // path.
                if self.leave(&mut batch).is_err() && ready!(self.io.poll_send_ready(cx)).is_err() {
                    return Poll::Ready(());
                }
            }
        })
        .await;
    }

    /// Sends the batch, if there is one.
    ///
    /// # Errors
    /// `WouldBlock`: it still waits.
    fn leave(&self, batch: &mut GsoBatch) -> io::Result<()> {
        let Some(BatchKey {
            destination,
            ecn,
            size,
            src_ip,
        }) = batch.key
        else {
            return Ok(());
        };

        let segment_size = (batch.bytes.len() > size).then_some(size);
        self.send(&Transmit {
            destination,
            ecn,
            contents: &batch.bytes,
            segment_size,
            src_ip,
        })?;

        // An idle socket keeps no buffer.
        (batch.key, batch.bytes, batch.grown) = (None, Vec::new(), false);
        Ok(())
    }

    /// Takes the system's errors about packets that were sent before. Ends with the socket.
    async fn hear(self: Arc<Self>) {
        loop {
            tokio::select! {
                ready = self.io.ready(Interest::ERROR) => if ready.is_err() { return },
                () = self.closed.notified() => return,
            }

            // Until the queue is empty: queued errors take room from received packets.
            while self
                .io
                .try_io(Interest::ERROR, || self.take_error())
                .is_ok()
            {}
        }
    }

    /// Takes one message of the system.
    ///
    /// # Errors
    /// `WouldBlock`: there is no error.
    fn take_error(&self) -> io::Result<()> {
        let socket = SockRef::from(&self.io);
        if let Ok(Some(error)) = socket.take_error() {
            self.note(&error);
        }
        os::take_queued_error(&socket)
    }

    /// Tells the watcher, if no one listens at the other end.
    fn note(&self, error: &io::Error) {
        if let Some(refusals) = self
            .refusals
            .as_ref()
            .filter(|_| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            refusals.note();
        }
    }

    /// Takes received datagrams.
    fn poll_own(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Shared { io, state, .. } = self;
        loop {
            ready!(io.poll_recv_ready(cx))?;
            let mut filled = 0;
            let tried = io.try_io(Interest::READABLE, || {
                let recv =
                    |room: &mut [IoSliceMut<'_>], runs: &mut [_]| state.recv(io.into(), room, runs);
                let (came, pieces) = merged_packets::receive(recv, bufs, meta)?;
                filled = pieces;

                // There are no more: the next call is to wait, and need not ask the kernel first.
                if came < merged_packets::RUNS {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
            });

            if let Err(error) = &tried {
                self.note(error);
            }
            if filled > 0 {
                return Poll::Ready(Ok(filled));
            }
        }
    }

    /// Takes datagrams of the socket that are ours, or those that another process received for this one.
    fn poll_shared(
        &self,
        packets: &SharedPackets,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let is_others_turn = self.is_others_turn.fetch_xor(true, Ordering::Relaxed);
        if is_others_turn && let Poll::Ready(filled) = packets.poll_forwarded(cx, bufs, meta) {
            return Poll::Ready(Ok(filled));
        }

        match self.poll_own(cx, bufs, meta) {
            Poll::Ready(Ok(filled)) => {
                packets.sort(&mut bufs[..filled], &mut meta[..filled]);
                Poll::Ready(Ok(filled))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => packets.poll_forwarded(cx, bufs, meta).map(Ok),
        }
    }

    /// Sends now. Errors other than `WouldBlock` are those of the path, which quinn finds out by itself.
    fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sent = self.io.try_io(Interest::WRITABLE, || {
            if self.refusals.is_none() {
                return self.state.send((&self.io).into(), transmit);
            }
            match self.state.try_send((&self.io).into(), transmit) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    self.note(&error);
                    // The error may have been about an earlier packet.
                    self.state.send((&self.io).into(), transmit)
                }
                sent => sent,
            }
        });

        if sent.is_err() {
            self.blocked.store(true, Ordering::Relaxed);
        }
        sent
    }
}

impl AsyncUdpSocket for CoalescingSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(SocketPoller {
            shared: self.0.clone(),
            waiting: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let shared = &self.0;
        let mut batch = shared.batch.lock();
        if batch.takes(transmit) {
            batch.push(transmit);
            if full(transmit).is_none() && shared.leave(&mut batch).is_err() {
                batch.wake();
            }
            return Ok(());
        }

        shared.leave(&mut batch)?;
        if let Some(size) = full(transmit).filter(|_| shared.state.max_gso_segments() > FULL) {
            batch.key = Some(BatchKey::of(transmit, size));
            batch.bytes.reserve(MOST_BYTES);
            batch.push(transmit);
            batch.wake();
            return Ok(());
        }

        shared.send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        match &self.0.packets {
            None => self.0.poll_own(cx, bufs, meta),
            Some(packets) => self.0.poll_shared(packets, cx, bufs, meta),
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.io.local_addr()
    }

    fn may_fragment(&self) -> bool {
        self.0.state.may_fragment()
    }

    fn max_transmit_segments(&self) -> usize {
        self.0.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.0.state.gro_segments().min(merged_packets::PIECE)
    }
}

/// Waits for room in the socket's buffer, on behalf of one connection.
struct SocketPoller {
    shared: Arc<Shared>,
    waiting: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>>,
}

impl std::fmt::Debug for SocketPoller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketPoller")
            .field("waits", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}

impl UdpPoller for SocketPoller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Room is the rule, so the socket is asked only after a send that found none.
        if self.waiting.is_none() && !self.shared.blocked.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let shared = self.shared.clone();
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(async move { shared.io.writable().await }));
        let ready = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        self.shared.blocked.store(false, Ordering::Relaxed);

        Poll::Ready(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender, and a receiver.
    async fn both() -> (CoalescingSocket, UdpSocket, SocketAddr) {
        let (socket, far) = (
            CoalescingSocket::new(bound(), None).unwrap(),
            UdpSocket::from_std(bound()).unwrap(),
        );
        socket.0.io.writable().await.unwrap();
        let to = far.local_addr().unwrap();
        (socket, far, to)
    }

    fn bound() -> std::net::UdpSocket {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    fn transmit(destination: SocketAddr, contents: &[u8], size: usize) -> Transmit<'_> {
        let segment_size = (contents.len() > size).then_some(size);
        Transmit {
            destination,
            ecn: None,
            contents,
            segment_size,
            src_ip: None,
        }
    }

    async fn received(far: &UdpSocket) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut room = [0; 2000];
        far.readable().await.unwrap();
        while let Ok(length) = far.try_recv(&mut room) {
            lengths.push(length);
        }
        lengths
    }

    #[tokio::test]
    async fn full_sends_wait_for_what_follows_and_everything_leaves_in_order() {
        let (socket, far, to) = both().await;
        let packets = vec![7; 1000 * FULL];
        assert!(
            socket.0.state.max_gso_segments() > FULL,
            "the kernel segments"
        );
        for _ in 0..3 {
            socket.try_send(&transmit(to, &packets, 1000)).unwrap();
        }
        assert_eq!(socket.0.batch.lock().bytes.len(), 3000 * FULL);
        socket
            .try_send(&transmit(to, &packets[..500], 1000))
            .unwrap();
        assert!(
            socket.0.batch.lock().bytes.is_empty(),
            "nothing follows a short packet"
        );
        let mut lengths = received(&far).await;
        assert_eq!(lengths.pop(), Some(500));
        assert_eq!(lengths, [1000; 3 * FULL]);
    }

    #[tokio::test]
    async fn a_train_leaves_when_nothing_follows() {
        let (socket, far, to) = both().await;
        socket
            .try_send(&transmit(to, &vec![7; 1000 * FULL], 1000))
            .unwrap();
        assert_eq!(received(&far).await, [1000; FULL]);
        socket
            .try_send(&transmit(to, &vec![7; 1000 * FULL], 1000))
            .unwrap();
        drop(socket);
        assert_eq!(
            received(&far).await,
            [1000; FULL],
            "what waits when the socket is dropped leaves too"
        );
    }

    #[tokio::test]
    async fn what_differs_is_not_joined() {
        let (socket, far, to) = both().await;
        let packets = vec![7; 1000 * FULL];
        socket.try_send(&transmit(to, &packets, 1000)).unwrap();
        socket
            .try_send(&transmit(to, &packets[..900 * FULL], 900))
            .unwrap();
        assert_eq!(socket.0.batch.lock().key.map(|key| key.size), Some(900));
        socket
            .try_send(&transmit(to, &packets[..1000], 1000))
            .unwrap();
        assert!(
            socket.0.batch.lock().key.is_none(),
            "a packet that is larger leaves alone"
        );
        let mut expected = vec![1000; FULL];
        expected.extend([900; FULL]);
        expected.push(1000);
        assert_eq!(received(&far).await, expected);
    }

    #[tokio::test]
    async fn a_train_is_no_longer_than_the_kernel_takes() {
        let (socket, far, to) = both().await;
        for size in [100, 1452] {
            let packets = vec![7; size * FULL];
            for _ in 0..8 {
                socket.try_send(&transmit(to, &packets, size)).unwrap();
                let bytes = socket.0.batch.lock().bytes.len();
                assert!(bytes <= MOST_BYTES && bytes <= MOST * size);
            }
            let mut lengths = Vec::new();
            while lengths.len() < 8 * FULL {
                lengths.extend(received(&far).await);
            }
            assert_eq!(lengths, [size; 8 * FULL]);
        }
    }

    #[tokio::test]
    async fn hears_that_no_one_listens_any_more_and_sends_on() {
        let (gone, near) = (bound().local_addr().unwrap(), bound());
        let far = UdpSocket::from_std(bound()).unwrap();
        os::report_errors(&near, false).unwrap();
        let refusals = Arc::<Refusals>::default();
        let socket = CoalescingSocket::new(near, Some(refusals.clone())).unwrap();
        socket.0.io.writable().await.unwrap();
        for count in 0..3 {
            socket.try_send(&transmit(gone, &[7; 50], 50)).unwrap();
            refusals.more_than(count).await;
        }
        socket.try_send(&transmit(gone, &[7; 50], 50)).unwrap();
        // The error of the packet before is not this one's.
        socket
            .try_send(&transmit(far.local_addr().unwrap(), &[7; 60], 60))
            .unwrap();
        assert_eq!(received(&far).await, [60]);
    }

    #[tokio::test]
    async fn takes_all_packets_that_came() {
        let (socket, near) = (CoalescingSocket::new(bound(), None).unwrap(), bound());
        let to = socket.local_addr().unwrap();
        let mut taken = 0;
        for count in [1, 3, 40, 2] {
            for _ in 0..count {
                near.send_to(&[1; 50], to).unwrap();
            }
            let before = taken;
            while taken < before + count {
                let mut buffer = vec![0; 32 * 2000];
                let mut bufs: Vec<_> = buffer.chunks_mut(2000).map(IoSliceMut::new).collect();
                let mut meta = [RecvMeta::default(); 32];
                let got = poll_fn(|cx| socket.poll_recv(cx, &mut bufs, &mut meta))
                    .await
                    .unwrap();
                taken += meta[..got]
                    .iter()
                    .map(|meta| meta.len / meta.stride)
                    .sum::<usize>();
            }
            assert_eq!(taken, before + count);
        }
    }
}
