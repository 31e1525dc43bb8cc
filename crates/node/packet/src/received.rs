//! Datagrams that a UDP socket has received and no one has taken yet.
//!
//! While a tunnel takes datagrams, they are handed on as they come. When it stops, the kernel keeps
//! datagrams up to the size of the socket's buffer, regardless of age: so it is emptied from time
//! to time, and the newest are kept within the bounds of a session.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use hermes_net::clock;
use hermes_net::{RecvBatch, UdpError, UdpSocket};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep};

use super::{ChargedBounds, Queue};

/// How often, in the time that a datagram may wait, the socket of a stopped tunnel is emptied.
const LOOKS: u32 = 4;

/// Batches that are taken from a socket in one look: more than its buffer holds.
#[doc(alias = "bound")]
const BATCHES: usize = 1024;

/// Datagrams that one wake-up takes from a socket at most, in slots of the kernel's merging.
#[doc(alias = "bound")]
const SLOTS: usize = 4;

/// Batches of 256 KiB that a worker keeps to receive datagrams, for all its sockets.
#[doc(alias = "bound")]
const KEPT_BATCHES: usize = 4;

thread_local! {
    static KEPT: RefCell<Vec<RecvBatch>> = const { RefCell::new(Vec::new()) };
}

/// The receiving state of a socket.
pub struct Received {
    /// The datagrams received last. A waiting socket has none.
    batch: Option<RecvBatch>,
    /// The datagrams to take now; if it is empty, those of the batch.
    taken: Queue,
    waiting: Queue,
    /// Datagrams for which there was no room, and those that waited too long.
    lost: (u64, u64),
    /// Whether a router has said that a datagram was too long for the link behind it.
    is_narrow: bool,
}

impl Received {
    /// Without datagrams.
    pub fn new(bounds: &ChargedBounds) -> Self {
        let taken = Queue::charged(bounds);
        let waiting = taken.another();
        Self {
            batch: None,
            taken,
            waiting,
            lost: (0, 0),
            is_narrow: false,
        }
    }

    /// The same for a socket of another worker: taken datagrams count as sent.
    pub fn handed_over(mut self) -> Self {
        self.give_back();
        self.taken.clear();
        self
    }

    /// Waits for datagrams, of which kept ones come first, or for a router that has found one of ours too long.
    pub(crate) async fn fill(&mut self, socket: &UdpSocket) -> Result<(), UdpError> {
        self.give_back();
        self.taken.clear();
        self.taken.release();
        if !self.waiting.is_empty() {
            self.lost.1 += self.waiting.expire(Instant::now()) as u64;
            std::mem::swap(&mut self.taken, &mut self.waiting);
        }

        while self.taken.is_empty() {
            socket.readable().await.map_err(UdpError::Io)?;
            // A socket that never runs dry leaves the worker to others too.
            consume_budget().await;
            let batch = self.batch.get_or_insert_with(kept);

            match socket.try_recv(batch) {
                Ok(Some(_)) => break,
                Ok(None) => self.give_back(),
                Err(UdpError::TooLarge) => {
                    self.is_narrow = true;
                    break;
                }
                Err(UdpError::Refused | UdpError::Unreachable | UdpError::Dropped) => {}
                Err(error) => return Err(error),
            }
        }

        Ok(())
    }

    /// Whether a router has found a datagram too long since this was asked last (RFC 1191, section 3; RFC 8201, section 3).
    pub(crate) fn take_narrow(&mut self) -> bool {
        std::mem::take(&mut self.is_narrow)
    }

    /// The datagrams of [`Self::fill`].
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (Option<SocketAddr>, &[u8])> {
        let kept = self.taken.iter().map(|datagram| (None, datagram));
        let batch = self
            .batch
            .as_ref()
            .filter(|_| self.taken.is_empty())
            .map(RecvBatch::datagrams);

        kept.chain(
            batch
                .into_iter()
                .flatten()
                .map(|(source, datagram)| (Some(source), datagram)),
        )
    }

    /// Keeps the datagrams of [`Self::fill`], because they cannot be sent now.
    pub(crate) fn keep(&mut self) {
        let now = clock::now();
        let mut full = 0;
        if self.taken.is_empty() {
            let batch = self.batch.as_ref().map(RecvBatch::datagrams);
            full += batch
                .into_iter()
                .flatten()
                .map(|(_, datagram)| self.waiting.push(datagram, now))
                .sum::<usize>();
        } else {
            std::mem::swap(&mut self.taken, &mut self.waiting);
            full += self
                .taken
                .iter()
                .map(|datagram| self.waiting.push(datagram, now))
                .sum::<usize>();
        }

        self.lost.0 += full as u64;
        self.taken.clear();
        self.give_back();
    }

    /// Datagrams for which there was no room since this was asked last, and those that waited too long.
    pub(crate) fn take_lost(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.lost)
    }

    /// Waits for `write`, which sends the datagrams and has been polled once. If that takes long,
    /// the socket is emptied meanwhile, and `lost` is told of datagrams for which there was no
    /// room, and of those that waited too long.
    pub(crate) async fn during<W: Future>(
        &mut self,
        socket: &UdpSocket,
        mut write: Pin<&mut W>,
        mut lost: impl FnMut(u64, u64),
    ) -> W::Output {
        let look = self.waiting.bounds().age / LOOKS;
        loop {
            tokio::select! {
                biased;
                written = &mut write => return written,
                () = sleep(look) => self.empty(socket),
            }
            let (full, expired) = self.take_lost();
            lost(full, expired);
        }
    }

    /// Keeps the batch for the next socket of this worker.
    fn give_back(&mut self) {
        if let Some(batch) = self.batch.take() {
            give_back(batch);
        }
    }

    fn empty(&mut self, socket: &UdpSocket) {
        let now = clock::now();
        let batch = self.batch.get_or_insert_with(kept);
        for _ in 0..BATCHES {
            match socket.try_recv(batch) {
                Ok(None) | Err(UdpError::Io(_)) => break,
                Ok(Some(_)) => {
                    for (_, datagram) in batch.datagrams() {
                        self.lost.0 += self.waiting.push(datagram, now) as u64;
                    }
                }
                Err(_) => {}
            }
        }

        self.lost.1 += self.waiting.expire(now) as u64;
    }
}

/// Keeps a batch for the next socket of this worker.
pub(crate) fn give_back(batch: RecvBatch) {
    KEPT.with_borrow_mut(|kept| {
        if kept.len() < KEPT_BATCHES {
            kept.push(batch);
        }
    });
}

/// A batch that was kept, or a new one.
pub(crate) fn kept() -> RecvBatch {
    KEPT.with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| RecvBatch::with_slots(SLOTS))
}
