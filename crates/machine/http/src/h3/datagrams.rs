//! HTTP datagrams of a connection (RFC 9297, 2.1): to which stream each belongs, and sending them.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hermes_net::memory::Charge;
use hermes_net::quic::SentDatagrams;
use hermes_proto::h3::{Fault, datagram};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

use super::group_counts::GroupCounts;
use super::group_sender::GroupSender;
use super::queue::{Lost, Queue, Total};
use super::stream_state::StreamState;

/// Datagrams of all streams that may arrive before their stream: packets are reordered by less than
/// a round trip (RFC 9297, 2.1).
#[doc(alias = "bound")]
const EARLY: usize = 128;

/// Bytes of datagrams that arrived before their stream.
#[doc(alias = "bound")]
const EARLY_BYTES: usize = 128 * 1024;

/// How long a datagram waits for its stream: more than a round trip.
#[doc(alias = "bound")]
const EARLY_TIME: Duration = Duration::from_millis(300);

/// The streams of a connection that take datagrams.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    known: Mutex<DatagramQueues>,
    total: Total,
}

#[derive(Debug, Default)]
struct DatagramQueues {
    queues: HashMap<u64, Arc<Queue>>,
    early: VecDeque<(u64, Bytes, Instant)>,
    early_bytes: usize,
}

impl DatagramQueues {
    /// Keeps a datagram of a stream that no one has heard of yet.
    fn hold(&mut self, stream: u64, payload: Bytes, now: Instant) {
        self.early_bytes += payload.len();
        self.early.push_back((stream, payload, now));
        // Bounded in number, bytes and time: a peer may invent streams that never open.
        while self.early.len() > EARLY
            || self.early_bytes > EARLY_BYTES
            || self
                .early
                .front()
                .is_some_and(|(.., since)| now.duration_since(*since) > EARLY_TIME)
        {
            let Some((_, dropped, _)) = self.early.pop_front() else {
                return;
            };
            self.early_bytes -= dropped.len();
        }
    }

    /// Datagrams that came early for a stream.
    fn held_for(&mut self, stream: u64, now: Instant) -> Vec<Bytes> {
        let mut found = Vec::new();
        self.early.retain(|(of, payload, since)| {
            if *of == stream && now.duration_since(*since) <= EARLY_TIME {
                found.push(payload.clone());
            }
            *of != stream
        });

        self.early_bytes = self.early.iter().map(|(_, payload, _)| payload.len()).sum();
        found
    }
}

impl Registry {
    /// A queue for a stream, with its early datagrams.
    pub(crate) fn open(&self, stream: u64) -> Arc<Queue> {
        let queue = Arc::new(Queue::new(self.total.clone()));
        let mut known = self.known.lock();
        let early = known.held_for(stream, Instant::now());
        queue.extend(early.into_iter());
        // Under the lock that gave out the early ones: none can arrive in between and overtake them.
        known.queues.insert(stream, queue.clone());
        queue
    }

    /// The queue of a stream that takes datagrams.
    pub(crate) fn queue(&self, stream: u64) -> Option<Arc<Queue>> {
        self.known.lock().queues.get(&stream).cloned()
    }

    /// The bytes that wait.
    pub(crate) fn total(&self) -> &Total {
        &self.total
    }

    /// Ends the queue of a stream.
    pub(crate) fn close(&self, stream: u64) {
        if let Some(queue) = self.known.lock().queues.remove(&stream) {
            queue.end();
        }
    }

    /// The connection has ended.
    pub(crate) fn close_all(&self) {
        for (_, queue) in self.known.lock().queues.drain() {
            queue.end();
        }
    }

    /// Gives datagrams to their streams; neighbours of one stream together.
    ///
    /// # Errors
    /// A datagram belongs to a stream that cannot exist.
    pub(crate) fn deliver(&self, batch: &mut Vec<Bytes>) -> Result<(), Fault> {
        let mut datagrams = batch.drain(..).map(datagram::decode).peekable();
        let mut known = self.known.lock();
        while let Some(first) = datagrams.next() {
            let (stream, payload) = first?;
            let Some(queue) = known.queues.get(&stream).cloned() else {
                known.hold(stream, payload, Instant::now());
                continue;
            };

            let more = std::iter::from_fn(|| {
                let same = |next: &Result<(u64, Bytes), Fault>| {
                    next.as_ref().is_ok_and(|(of, _)| *of == stream)
                };
                datagrams
                    .next_if(same)
                    .and_then(Result::ok)
                    .map(|(_, payload)| payload)
            });

            queue.extend(std::iter::once(payload).chain(more));
        }

        Ok(())
    }
}

/// Bytes that wait to be sent in groups, and that came in groups ahead of others, at most.
pub const GROUP_MEMORY: usize = GroupSender::MEMORY;

/// Receives the datagrams of one stream.
#[derive(Debug)]
pub struct DatagramReceiver {
    queue: Arc<Queue>,
    /// Runs while datagrams of groups wait for earlier ones.
    timer: Option<Pin<Box<Sleep>>>,
}

impl DatagramReceiver {
    pub(crate) fn new(queue: Arc<Queue>) -> Self {
        Self { queue, timer: None }
    }

    /// Waits for a datagram, then takes those that are there too, `most` at most, and appends their payloads; for CONNECT-UDP a
    /// payload begins with a context ID. False when the stream or the connection has ended. Dropping the future loses nothing.
    pub async fn recv(&mut self, into: &mut Vec<Bytes>, most: usize) -> bool {
        poll_fn(|cx| self.poll_recv(cx, into, most)).await
    }

    /// As [`Self::recv`].
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut Vec<Bytes>,
        most: usize,
    ) -> Poll<bool> {
        loop {
            if let Poll::Ready(is_open) = self.queue.poll_take(cx, into, most) {
                return Poll::Ready(is_open);
            }
            let Some(due) = self.queue.due() else {
                self.timer = None;
                return Poll::Pending;
            };
            ready!(self.poll_timer(cx, Instant::from_std(due)));
            self.queue.handle_time(due);
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(cx)
    }

    /// Datagrams dropped since the last call because they were not taken in time.
    pub fn take_lost(&mut self) -> Lost {
        self.queue.take_lost()
    }
}

/// Sends datagrams of one stream. Clones are the same.
#[derive(Debug, Clone)]
pub struct DatagramSender(pub(crate) Arc<StreamState>);

impl DatagramSender {
    /// Sends payloads, each behind `prefix`, without waiting. A datagram that is too large for the
    /// path, or finds the connection's buffer full, is dropped and counted (RFC 9297, 3.5: it does
    /// not become a capsule). After the end of our side of the stream, nothing is sent (RFC 9297,
    /// 2.1).
    pub fn send<'a>(
        &self,
        prefix: &[u8],
        payloads: impl IntoIterator<Item = &'a [u8]>,
    ) -> SentDatagrams {
        let mut payloads = payloads.into_iter();
        // RFC 9297, 2.1: no datagrams once the sending side of the stream is closed.
        if !self.0.is_sending() {
            return SentDatagrams {
                dropped: payloads.count(),
                ..SentDatagrams::default()
            };
        }

        let groups = self.0.groups();
        if let Some(groups) = groups
            && let Ok(sent) = groups.send(&self.0, prefix, payloads.by_ref())
        {
            return sent;
        }

        let sent = self.send_alone(prefix, payloads);
        if let Some(groups) = groups {
            groups.counts.alone(sent.sent);
            groups.counts.dropped(sent.dropped);
        }
        sent
    }

    /// Sends payloads as QUIC datagrams.
    fn send_alone<'a>(
        &self,
        prefix: &[u8],
        payloads: impl Iterator<Item = &'a [u8]>,
    ) -> SentDatagrams {
        // One allocation for many datagrams: each is split off and frozen.
        let mut room = BytesMut::new();
        let before = prefix.len() + datagram::prefix_size(self.0.id());
        self.0
            .shared()
            .connection
            .send_datagrams(payloads.map(|payload| {
                let size = before + payload.len();
                if room.capacity() < size {
                    room.reserve(size.max(ROOM));
                }

                datagram::encode_prefix(self.0.id(), &mut room);
                room.put_slice(prefix);
                room.put_slice(payload);

                room.split().freeze()
            }))
    }

    /// Sends them in groups from now on, where the peer takes these: in streams, so that QUIC sends lost ones again. A group that has not
    /// arrived `within` this time is given up, and received ones wait as long for those before them. `charge` is for [`GROUP_MEMORY`] bytes.
    /// Returns the counts of its groups.
    pub fn group(&self, within: Duration, charge: Charge) -> GroupCounts {
        let queue = self.0.datagrams();
        if let Some(queue) = queue {
            queue.order(within);
        }
        let came = queue.map(|queue| queue.grouped.clone());
        let counts = GroupCounts::beside(came.unwrap_or_default());
        self.0
            .group(GroupSender::new(within, counts.clone(), charge));
        counts
    }

    /// Sends payloads that came as datagrams of another stream.
    pub fn forward(&self, payloads: impl IntoIterator<Item = Bytes>) -> SentDatagrams {
        let payloads: Vec<Bytes> = payloads.into_iter().collect();
        self.send(&[], payloads.iter().map(|payload| &payload[..]))
    }

    /// Waits a moment until the connection's buffer takes `bytes`; false when it does not.
    pub async fn room(&self, bytes: usize) -> bool {
        self.0.shared().connection.datagram_room_for(bytes).await
    }

    /// The ends of its tunnel send lost datagrams again: none waits for a silent connection from now on.
    pub fn note_recovered(&self) {
        self.0.note_recovered();
    }

    /// Whether the connection is silent at the moment: datagrams sent now may be lost, unless they leave in groups or are sent again.
    pub fn is_silent(&self) -> bool {
        self.0.loses_for_good() && self.0.shared().holds_back()
    }

    /// Waits while [`Self::is_silent`], at the longest until the connection has ended. Dropping the future loses nothing.
    pub async fn heard(&self) {
        self.0.shared().heard().await;
    }

    /// Whether the connection has not ended.
    pub fn is_open(&self) -> bool {
        self.0.shared().connection.closed_reason().is_none()
    }

    /// The largest payload that can be sent now, its prefix included, in bytes; it changes with the path.
    pub fn max_payload(&self) -> usize {
        let largest = self.0.shared().connection.max_datagram_size().unwrap_or(0);
        largest.saturating_sub(datagram::prefix_size(self.0.id()))
    }
}

/// Bytes that are set aside at once for the datagrams of a batch.
const ROOM: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram_of(stream: u64, payload: &str) -> Bytes {
        let mut output = BytesMut::new();
        datagram::encode_prefix(stream, &mut output);
        output.put_slice(payload.as_bytes());
        output.freeze()
    }

    fn taken(queue: &Arc<Queue>) -> Vec<Bytes> {
        let mut into = Vec::new();
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        let _ = DatagramReceiver::new(queue.clone()).poll_recv(cx, &mut into, 1000);
        into
    }

    #[tokio::test]
    async fn each_datagram_goes_to_its_stream() {
        let registry = Registry::default();
        let (four, eight) = (registry.open(4), registry.open(8));
        let mut batch: Vec<_> = [(4, "a"), (4, "b"), (8, "c"), (4, "d")]
            .map(|(stream, text)| datagram_of(stream, text))
            .into();
        registry.deliver(&mut batch).unwrap();
        assert_eq!(taken(&four), ["a", "b", "d"]);
        assert_eq!(taken(&eight), ["c"]);
        assert!(batch.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_before_its_stream_is_kept_for_a_moment() {
        let registry = Registry::default();
        registry
            .deliver(&mut vec![
                datagram_of(4, "soon"),
                datagram_of(8, "late"),
                datagram_of(12, "never"),
            ])
            .unwrap();
        assert_eq!(taken(&registry.open(4)), ["soon"]);
        tokio::time::advance(EARLY_TIME * 2).await;
        assert!(taken(&registry.open(8)).is_empty());
        for _ in 0..10 * EARLY {
            registry
                .deliver(&mut vec![datagram_of(400, &"x".repeat(2000))])
                .unwrap();
        }
        let known = registry.known.lock();
        assert!(known.early.len() <= EARLY && known.early_bytes <= EARLY_BYTES);
    }

    #[tokio::test]
    async fn nothing_comes_to_a_stream_that_was_closed() {
        let registry = Registry::default();
        let queue = registry.open(4);
        registry.close(4);
        registry.deliver(&mut vec![datagram_of(4, "a")]).unwrap();
        assert!(taken(&queue).is_empty());
    }
}
