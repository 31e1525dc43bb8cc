//! Datagrams that came for one stream and wait to be taken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::h3::datagram_order::DatagramOrder;
use parking_lot::Mutex;

/// Datagrams that wait on one stream: 25 ms at 800 Mbit/s of full ones. The oldest are dropped, and
/// counted.
#[doc(alias = "bound")]
pub(crate) const DATAGRAMS: usize = 2048;

/// Bytes of datagrams that wait on one stream, with [`OVERHEAD`] for each: a little more than so many full ones have.
#[doc(alias = "bound")]
pub(crate) const BYTES: usize = 3 * 1024 * 1024;

/// Bytes of datagrams that wait on all streams of a connection: three full queues, so that streams
/// which no one reads do not take the memory of a thousand.
#[doc(alias = "bound")]
pub(crate) const CONNECTION_BYTES: usize = 3 * BYTES;

/// The overhead of a datagram beside its bytes.
const OVERHEAD: usize = 64;

/// Datagrams that were dropped because no one took them in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub datagrams: u64,
    /// Their payloads.
    pub bytes: u64,
}

/// The bytes that all queues of a connection hold.
pub(crate) type Total = Arc<AtomicUsize>;

/// The queue of one stream; the connection's driver fills it, the exchange empties it.
#[derive(Debug)]
pub(crate) struct Queue {
    held: Mutex<QueuedDatagrams>,
    total: Total,
    /// Groups of its datagrams that are being read.
    pub(crate) groups: AtomicUsize,
    /// Datagrams that came in groups.
    pub(crate) grouped: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct QueuedDatagrams {
    datagrams: VecDeque<Bytes>,
    bytes: usize,
    lost: Lost,
    ended: bool,
    waiting: Option<Waker>,
    /// Of those that come in groups.
    order: DatagramOrder,
}

impl QueuedDatagrams {
    fn pop(&mut self, total: &AtomicUsize) -> Option<Bytes> {
        let datagram = self.datagrams.pop_front()?;
        let cost = datagram.len() + OVERHEAD;
        self.bytes -= cost;
        total.fetch_sub(cost, Ordering::Relaxed);
        Some(datagram)
    }

    fn push(&mut self, datagram: Bytes, total: &AtomicUsize) {
        let cost = datagram.len() + OVERHEAD;
        self.bytes += cost;
        let all = total.fetch_add(cost, Ordering::Relaxed) + cost;
        self.datagrams.push_back(datagram);
        let mut over = all.saturating_sub(CONNECTION_BYTES);

        while self.datagrams.len() > DATAGRAMS || self.bytes > BYTES || over > 0 {
            let Some(oldest) = self.pop(total) else {
                return;
            };
            over = over.saturating_sub(oldest.len() + OVERHEAD);
            self.lost.datagrams += 1;
            self.lost.bytes += oldest.len() as u64;
        }
    }

    /// Queues datagrams of groups whose turn it is.
    fn push_ordered(&mut self, total: &AtomicUsize) {
        while let Some(datagram) = self.order.poll_datagram() {
            self.push(datagram, total);
        }
    }
}

impl Queue {
    pub(crate) fn new(total: Total) -> Self {
        Self {
            held: Mutex::default(),
            total,
            groups: AtomicUsize::new(0),
            grouped: Arc::default(),
        }
    }

    /// Adds datagrams; the oldest are dropped without room for all. Datagrams after the end are
    /// dropped.
    pub(crate) fn extend(&self, datagrams: impl Iterator<Item = Bytes>) {
        let mut held = self.held.lock();
        if held.ended {
            return;
        }

        for datagram in datagrams {
            held.push(datagram, &self.total);
        }
        if let Some(waiting) = held.waiting.take() {
            waiting.wake();
        }
    }

    /// Adds datagrams of a group, the first of which has this number, each when it is its turn.
    pub(crate) fn extend_in_order(&self, first: u64, datagrams: Vec<Bytes>, now: Instant) {
        let mut held = self.held.lock();
        if held.ended {
            return;
        }

        for (number, datagram) in (first..).zip(datagrams) {
            held.order.handle_datagram(number, datagram, now);
        }
        held.push_ordered(&self.total);
        // Also where nothing is there yet: the time at which it is may have changed.
        if let Some(waiting) = held.waiting.take() {
            waiting.wake();
        }
    }

    /// Has datagrams of groups wait for earlier ones from now on, for so long.
    pub(crate) fn order(&self, within: Duration) {
        self.held.lock().order.wait(within);
    }

    /// When [`Self::handle_time`] is to be called.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held.lock().order.due()
    }

    /// Queues datagrams that have waited long enough for earlier ones.
    pub(crate) fn handle_time(&self, now: Instant) {
        let mut held = self.held.lock();
        held.order.handle_time(now);
        held.push_ordered(&self.total);
    }

    /// Ends the input. Queued datagrams can still be taken.
    pub(crate) fn end(&self) {
        let mut held = self.held.lock();
        held.order.end();
        held.push_ordered(&self.total);
        held.ended = true;
        if let Some(waiting) = held.waiting.take() {
            waiting.wake();
        }
    }

    /// Takes at most `most` queued datagrams; false when the queue has ended and is empty.
    pub(crate) fn poll_take(
        &self,
        cx: &mut Context<'_>,
        into: &mut Vec<Bytes>,
        most: usize,
    ) -> Poll<bool> {
        let mut held = self.held.lock();
        let before = into.len();
        while into.len() - before < most
            && let Some(datagram) = held.pop(&self.total)
        {
            into.push(datagram);
        }

        if into.len() > before {
            return Poll::Ready(true);
        }
        if held.ended {
            return Poll::Ready(false);
        }

        held.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn take_lost(&self) -> Lost {
        std::mem::take(&mut self.held.lock().lost)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.total
            .fetch_sub(self.held.get_mut().bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(queue: &Queue, most: usize) -> Option<Vec<Bytes>> {
        let mut taken = Vec::new();
        match queue.poll_take(&mut Context::from_waker(Waker::noop()), &mut taken, most) {
            Poll::Ready(true) => Some(taken),
            Poll::Ready(false) => None,
            Poll::Pending => Some(Vec::new()),
        }
    }

    #[test]
    fn gives_what_came_in_its_order_and_not_more_than_asked() {
        let queue = Queue::new(Total::default());
        queue.extend((0..5_u8).map(|number| Bytes::from(vec![number])));
        assert_eq!(take(&queue, 2).unwrap(), [vec![0], vec![1]]);
        assert_eq!(take(&queue, 9).unwrap(), [vec![2], vec![3], vec![4]]);
        assert_eq!(take(&queue, 9).unwrap(), Vec::<Bytes>::new());
        assert_eq!(queue.take_lost(), Lost::default());
    }

    #[test]
    fn drops_the_oldest_and_counts_them() {
        let queue = Queue::new(Total::default());
        queue.extend((0..DATAGRAMS as u32 + 10).map(|number| number.to_be_bytes().to_vec().into()));
        assert_eq!(
            queue.take_lost(),
            Lost {
                datagrams: 10,
                bytes: 40
            }
        );
        assert_eq!(queue.take_lost(), Lost::default());
        assert_eq!(take(&queue, 1).unwrap()[0][..], 10_u32.to_be_bytes());
    }

    #[test]
    fn holds_no_more_bytes_than_its_bound_nor_all_than_theirs() {
        let total = Total::default();
        let queues: Vec<Queue> = (0..5).map(|_| Queue::new(total.clone())).collect();
        for queue in &queues {
            queue.extend((0..DATAGRAMS).map(|_| Bytes::from_static(&[0; 8_000])));
            assert!(queue.held.lock().bytes <= BYTES);
        }
        assert!(total.load(Ordering::Relaxed) <= CONNECTION_BYTES);
        drop(queues);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_end_comes_after_what_was_there() {
        let queue = Queue::new(Total::default());
        queue.order(Duration::from_secs(1));
        queue.extend_in_order(1, vec![Bytes::from_static(b"behind")], Instant::now());
        assert_eq!(take(&queue, 9).unwrap(), Vec::<Bytes>::new());
        queue.end();
        assert_eq!(take(&queue, 9).unwrap(), ["behind"]);

        let queue = Queue::new(Total::default());
        queue.extend([Bytes::from_static(b"last")].into_iter());
        queue.end();
        queue.extend([Bytes::from_static(b"late")].into_iter());
        assert_eq!(take(&queue, 9).unwrap(), ["last"]);
        assert_eq!(take(&queue, 9), None);
    }
}
