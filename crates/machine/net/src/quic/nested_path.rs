//! A way for the packets of a connection that is not a UDP socket: they pass through something else, such as a tunnel.
//!
//! The connection stands on one side, the carrier of its packets on the other. Both directions have
//! a bounded queue. Outgoing packets wait while their queue is full, so that the connection
//! notices; of incoming ones, the oldest is dropped.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// Bytes of packets that wait to leave before the connection has to wait: so few that they do not
/// grow old, and as many as one wake-up of their carrier takes along. 5 ms at 100 Mbit/s.
#[doc(alias = "bound")]
const LEAVING: usize = 64 * 1024;
/// The overhead of each packet beside its bytes: empty ones cost memory as well.
const EACH: usize = 32;

/// Bytes of packets that wait to be taken by the connection: one and a half times those of one
/// wake-up.
#[doc(alias = "bound")]
const COMING: usize = 768 * 1024;
/// Both ends of the way, where quinn asks for addresses: no one has them (RFC 6666).
const FAR: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1)),
    443,
);
const NEAR: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 2)),
    443,
);

/// The side that carries the packets. When it is dropped, the connection ends.
#[derive(Debug)]
pub struct Carrier {
    path: Arc<NestedPath>,
}

/// The side of the connection, in place of a socket.
#[derive(Debug)]
pub struct NestedPath {
    leaving: Mutex<Queue>,
    coming: Mutex<Queue>,
    dropped: AtomicU64,
    /// The connection says now that it ends.
    ending: AtomicBool,
}

impl NestedPath {
    /// The packets from now on say that the connection ends.
    pub(super) fn begin_end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// The connection has said so. quinn keeps it for three more probe timeouts (RFC 9000 section 10.2), for packets that are
    /// under way: here they end with the tunnel, which need not wait for them.
    pub(super) fn end(&self) {
        self.leaving.lock().close();
    }
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Bytes>,
    bytes: usize,
    /// No packet passes any more.
    closed: bool,
    /// Waits for packets.
    taker: Option<Waker>,
    /// Wait for room: one for each connection and for the endpoint.
    givers: Vec<Waker>,
}

impl Queue {
    fn pop(&mut self) -> Option<Bytes> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len() + EACH;
        Some(packet)
    }

    fn push(&mut self, packet: Bytes) {
        self.bytes += packet.len() + EACH;
        self.packets.push_back(packet);
    }

    fn wait_for_packets(&mut self, cx: &Context<'_>) {
        self.taker = Some(cx.waker().clone());
    }

    fn wait_for_room(&mut self, cx: &Context<'_>) {
        // A connection that polls again must not be in the list twice: it would grow with each poll.
        if !self.givers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.givers.push(cx.waker().clone());
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.givers
            .drain(..)
            .chain(self.taker.take())
            .for_each(Waker::wake);
    }
}

impl Carrier {
    /// A new path: the carrier of its packets, and the connection's substitute for a socket.
    #[must_use]
    pub fn new() -> (Self, Socket) {
        let path = Arc::new(NestedPath {
            leaving: Mutex::default(),
            coming: Mutex::default(),
            dropped: AtomicU64::new(0),
            ending: AtomicBool::new(false),
        });
        (Self { path: path.clone() }, Socket(path))
    }

    /// Waits for packets of the connection and takes those that are ready, at most `most`; false
    /// when the connection is gone. One task at a time. Dropping the future loses nothing.
    pub async fn take(&self, into: &mut Vec<Bytes>, most: usize) -> bool {
        poll_fn(|cx| {
            let mut queue = self.path.leaving.lock();
            if queue.packets.is_empty() {
                if queue.closed {
                    return Poll::Ready(false);
                }
                queue.wait_for_packets(cx);
                return Poll::Pending;
            }

            into.extend(std::iter::from_fn(|| queue.pop()).take(most));
            queue.givers.drain(..).for_each(Waker::wake);
            Poll::Ready(true)
        })
        .await
    }

    /// Waits until the connection is gone. Not while another task [takes](Self::take) packets. Dropping the future loses nothing.
    pub async fn gone(&self) {
        poll_fn(|cx| {
            let mut queue = self.path.leaving.lock();
            if queue.closed {
                return Poll::Ready(());
            }
            queue.wait_for_packets(cx);
            Poll::Pending
        })
        .await;
    }

    /// Whether the connection ends: its packets say so to the peer, and are the last.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.path.ending.load(Ordering::Relaxed)
    }

    /// Gives packets to the connection.
    pub fn give(&self, packets: impl IntoIterator<Item = Bytes>) {
        let mut queue = self.path.coming.lock();
        for packet in packets {
            queue.push(packet);
            // The oldest packet goes: the connection has most likely given it up for lost by now.
            while queue.bytes > COMING && queue.pop().is_some() {
                self.path.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }

        queue.taker.take().into_iter().for_each(Waker::wake);
    }

    /// Packets for the connection that were dropped, because it did not take them in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.path.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.path.leaving.lock().close();
        self.path.coming.lock().close();
    }
}

/// The substitute for a socket. After its drop, there is nothing more to carry.
#[derive(Debug)]
pub struct Socket(Arc<NestedPath>);

impl Socket {
    /// Where the other end seems to be.
    pub(super) const FAR: SocketAddr = FAR;

    /// The carrier of its packets.
    pub(super) fn path(&self) -> Arc<NestedPath> {
        self.0.clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.leaving.lock().close();
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(CarrierPoller(self))
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut queue = self.0.leaving.lock();
        if queue.closed {
            return Err(io::ErrorKind::NotConnected.into());
        }

        if queue.bytes >= LEAVING {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        queue.push(Bytes::copy_from_slice(transmit.contents));
        queue.taker.take().into_iter().for_each(Waker::wake);

        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut queue = self.0.coming.lock();
        let mut count = 0;
        for (buffer, meta) in bufs.iter_mut().zip(meta) {
            let Some(packet) = queue.pop() else { break };
            // A packet longer than the connection takes is cut, and fails its integrity check.
            let length = packet.len().min(buffer.len());
            buffer[..length].copy_from_slice(&packet[..length]);
            *meta = RecvMeta::default();
            (meta.addr, meta.len, meta.stride) = (FAR, length, length);
            count += 1;
        }

        match count {
            0 if queue.closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            0 => {
                queue.wait_for_packets(cx);
                Poll::Pending
            }
            count => Poll::Ready(Ok(count)),
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(NEAR)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// Waits for room among the packets that leave.
#[derive(Debug)]
struct CarrierPoller(Arc<Socket>);

impl UdpPoller for CarrierPoller {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut queue = self.0.0.leaving.lock();
        if queue.closed || queue.bytes < LEAVING {
            return Poll::Ready(Ok(()));
        }
        queue.wait_for_room(cx);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transmit(contents: &[u8]) -> Transmit<'_> {
        Transmit {
            destination: FAR,
            ecn: None,
            contents,
            segment_size: None,
            src_ip: None,
        }
    }

    #[tokio::test]
    async fn a_connection_waits_while_its_packets_do_not_leave() {
        let (carrier, socket) = Carrier::new();
        let socket = Arc::new(socket);
        let packet = [7; 1200];
        let fits = (0..)
            .take_while(|_| socket.try_send(&transmit(&packet)).is_ok())
            .count();
        assert_eq!(fits, LEAVING.div_ceil(packet.len() + EACH));
        let mut room = socket.clone().create_io_poller();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(room.as_mut().poll_writable(&mut cx).is_pending());
        let mut taken = Vec::new();
        assert!(carrier.take(&mut taken, 1).await);
        assert_eq!(taken, [&packet[..]]);
        assert!(room.as_mut().poll_writable(&mut cx).is_ready());
        drop((room, socket));
        assert!(
            carrier.take(&mut taken, 1000).await,
            "what was sent still leaves"
        );
        assert!(!carrier.take(&mut taken, 1000).await);
    }

    #[tokio::test]
    async fn of_packets_that_no_one_takes_the_oldest_go() {
        let (carrier, socket) = Carrier::new();
        let packets =
            || (0..COMING / (1000 + EACH) + 10).map(|number| vec![number as u8; 1000].into());
        carrier.give(packets());
        assert_eq!(
            carrier.dropped(),
            packets().count() as u64 - (COMING / (1000 + EACH)) as u64
        );
        let mut room = [0; 2000];
        let mut meta = [RecvMeta::default()];
        let mut receive = || {
            let mut cx = Context::from_waker(Waker::noop());
            let poll = socket.poll_recv(&mut cx, &mut [IoSliceMut::new(&mut room)], &mut meta);
            poll.map(|received| received.map(|_| (room[0], meta[0].len)))
        };
        let first = carrier.dropped() as u8;
        assert!(matches!(receive(), Poll::Ready(Ok((number, 1000))) if number == first));
        drop(carrier);
        while let Poll::Ready(Ok(_)) = receive() {}
        assert!(
            matches!(receive(), Poll::Ready(Err(_))),
            "then the path has ended"
        );
    }
}
