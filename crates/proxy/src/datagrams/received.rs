//! What a UDP socket has received and nobody has taken yet.
//!
//! While a tunnel takes datagrams, they are handed on as they come. When it stops, the kernel keeps what comes up to the size of the
//! socket's buffer, and knows no age: so it is emptied from time to time, and the newest are kept within the bounds of a session.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;

use hermes_net::{RecvBatch, UdpError, UdpSocket};
use tokio::time::{Instant, sleep};

use super::{Bounds, Queue};

/// How often, in the time that a datagram may wait, a socket is emptied whose tunnel has stopped.
const LOOKS: u32 = 4;

/// Batches that are taken from a socket in one look: more than its buffer holds.
const BATCHES: usize = 1024;

/// The receiving state of a socket.
pub struct Received {
    batch: RecvBatch,
    /// What is taken now: if it is empty, the batch.
    taken: Queue,
    waiting: Queue,
    /// Datagrams for which there was no room, and those that waited too long.
    lost: (u64, u64),
}

impl Received {
    /// Nothing yet.
    pub(super) fn new(slots: usize, bounds: Bounds) -> Self {
        let (taken, waiting) = (Queue::new(bounds), Queue::new(bounds));
        Self { batch: RecvBatch::with_slots(slots), taken, waiting, lost: (0, 0) }
    }

    /// Waits for datagrams; what was kept comes first.
    pub(super) async fn fill(&mut self, socket: &UdpSocket) -> Result<(), UdpError> {
        self.taken.clear();
        if !self.waiting.is_empty() {
            self.lost.1 += self.waiting.expire(Instant::now()) as u64;
            std::mem::swap(&mut self.taken, &mut self.waiting);
        }
        while self.taken.is_empty() {
            match socket.recv(&mut self.batch).await {
                Ok(_) => break,
                Err(UdpError::Refused | UdpError::Unreachable | UdpError::TooLarge) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What [`Self::fill`] found.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = (Option<SocketAddr>, &[u8])> {
        let kept = self.taken.iter().map(|datagram| (None, datagram));
        let batch = self.taken.is_empty().then(|| self.batch.datagrams());
        kept.chain(batch.into_iter().flatten().map(|(source, datagram)| (Some(source), datagram)))
    }

    /// Waits for `write`, which sends what was found. If that takes long, the socket is emptied meanwhile, and `lost` is told of
    /// datagrams for which there was no room, and of those that waited too long.
    pub(super) async fn during<W: Future>(
        &mut self,
        socket: &UdpSocket,
        write: W,
        mut lost: impl FnMut(u64, u64),
    ) -> W::Output {
        let mut write = pin!(write);
        let (full, expired) = std::mem::take(&mut self.lost);
        lost(full, expired);
        if let Poll::Ready(written) = poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await {
            return written;
        }
        let look = self.waiting.bounds().age / LOOKS;
        loop {
            tokio::select! {
                biased;
                written = &mut write => return written,
                () = sleep(look) => self.empty(socket),
            }
            let (full, expired) = std::mem::take(&mut self.lost);
            lost(full, expired);
        }
    }

    fn empty(&mut self, socket: &UdpSocket) {
        let now = Instant::now();
        for _ in 0..BATCHES {
            match socket.try_recv(&mut self.batch) {
                Ok(None) | Err(UdpError::Io(_)) => break,
                Ok(Some(_)) => {
                    for (_, datagram) in self.batch.datagrams() {
                        self.lost.0 += self.waiting.push(datagram, now) as u64;
                    }
                }
                Err(_) => {}
            }
        }
        self.lost.1 += self.waiting.expire(now) as u64;
    }
}
