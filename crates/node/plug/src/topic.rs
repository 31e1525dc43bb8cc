//! Messages for many subscribers: one queue for all of a worker, which is woken once for each message.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::feed::{FEED_BYTES, FEED_PIECES, Feed, FeedState};

/// A source of messages. A [subscriber](Self::subscribe) gets those that are published from then on.
///
/// Messages are kept once for each worker that has subscribers, until these have taken them. Publishing wakes one subscriber of a worker,
/// from whatever thread, and that one wakes the others of its worker, which costs no system call. A topic that is dropped before its end
/// breaks off its subscriptions.
pub struct Topic {
    shared: Arc<Shared>,
}

/// How a topic treats subscribers that are slow.
#[derive(Debug, Clone, Copy)]
pub struct TopicBounds {
    /// Messages that are kept on each worker.
    pub messages: usize,
    /// Bytes of them; the latest message is kept whatever its size.
    pub bytes: usize,
    /// The policy for subscribers that have fallen further behind.
    pub behind: Behind,
}

/// The policy for a subscriber whose messages were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// It goes on with the oldest message that is there.
    Skips,
    /// Its subscription breaks off.
    Ends,
}

/// Counters of a topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TopicStats {
    /// Subscribers.
    pub subscribers: usize,
    /// Workers that have, or had, some.
    pub workers: usize,
    /// Bytes of messages that are kept, on all workers.
    pub bytes: usize,
    /// Subscribers that publishing has woken, in all.
    pub wakeups: u64,
    /// Messages that subscribers have lost, in all.
    pub lost: u64,
}

struct Shared {
    bounds: TopicBounds,
    /// The queue of each worker. Locked before the queues themselves.
    queues: Mutex<Vec<(ThreadId, Arc<Mutex<WorkerQueue>>)>>,
    /// How it has ended. Changed with the queues locked.
    end: Mutex<Option<FeedState>>,
    subscribers: AtomicUsize,
    lost: AtomicU64,
    wakeups: AtomicU64,
    /// Told when the last subscriber goes.
    deserted: Notify,
}

/// The messages for the subscribers of one worker.
#[derive(Default)]
struct WorkerQueue {
    messages: VecDeque<Message>,
    /// The number of the first of them.
    first: u64,
    bytes: usize,
    subscribers: usize,
    /// Those that have taken all, by their numbers.
    waiting: BTreeMap<u64, Waker>,
    /// One of them was woken, and is to wake the others.
    is_woken: bool,
    end: Option<FeedState>,
    next_subscriber: u64,
}

struct Message {
    data: Bytes,
    /// Subscribers that have not taken it.
    left: usize,
}

impl Topic {
    /// A topic without messages or subscribers.
    pub fn new(bounds: TopicBounds) -> Self {
        Self {
            shared: Arc::new(Shared {
                bounds,
                queues: Mutex::default(),
                end: Mutex::default(),
                subscribers: AtomicUsize::new(0),
                lost: AtomicU64::new(0),
                wakeups: AtomicU64::new(0),
                deserted: Notify::new(),
            }),
        }
    }

    /// Subscribes on this thread, which has to be the worker whose exchange the subscription answers.
    pub fn subscribe(&self) -> Subscription {
        let worker = thread::current().id();
        let mut queues = self.shared.queues.lock();
        let known = queues.iter().find(|(id, _)| *id == worker);
        let queue = match known {
            Some((_, queue)) => queue.clone(),
            None => {
                // The end changes only with the queues locked, so that a new queue does not miss it.
                let queue = Arc::new(Mutex::new(WorkerQueue {
                    end: self.shared.end.lock().clone(),
                    ..WorkerQueue::default()
                }));
                queues.push((worker, queue.clone()));
                queue
            }
        };
        drop(queues);

        self.shared.subscribers.fetch_add(1, Ordering::AcqRel);
        let mut state = queue.lock();
        state.subscribers += 1;
        state.next_subscriber += 1;
        let number = state.next_subscriber;
        // From the next message on: earlier ones were for the subscribers of their time.
        let next = state.end();
        drop(state);
        Subscription {
            shared: self.shared.clone(),
            queue,
            number,
            next,
        }
    }

    /// Sends a message to all subscribers. Where it finds no room, the oldest messages are dropped for it.
    pub fn publish(&self, message: &Bytes) {
        let queues = self.shared.queues.lock();
        for (_, queue) in &*queues {
            let mut queue = queue.lock();
            queue.push(message, &self.shared.bounds);
            let waker = queue.wake_one();
            // The woken subscriber takes this lock first.
            drop(queue);
            self.shared.wake(waker);
        }
    }

    /// Ends all subscriptions: their content is whole.
    pub fn end(&self) {
        self.shared.close(&FeedState::Complete);
    }

    /// Waits until no subscriber is left.
    pub async fn deserted(&self) {
        loop {
            // It hears of events from here on, also before it is polled.
            let deserted = self.shared.deserted.notified();
            if self.is_deserted() {
                return;
            }
            deserted.await;
        }
    }

    /// Whether it has no subscriber.
    pub fn is_deserted(&self) -> bool {
        self.shared.subscribers.load(Ordering::Acquire) == 0
    }

    /// Its counters.
    pub fn stats(&self) -> TopicStats {
        let queues = self.shared.queues.lock();
        TopicStats {
            subscribers: self.shared.subscribers.load(Ordering::Acquire),
            workers: queues.len(),
            bytes: queues.iter().map(|(_, queue)| queue.lock().bytes).sum(),
            wakeups: self.shared.wakeups.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        let reason = "its source broke off".to_owned();
        self.shared.close(&FeedState::Broken(reason));
    }
}

impl Shared {
    /// Ends all subscriptions in this way, unless they have ended.
    fn close(&self, end: &FeedState) {
        let queues = self.queues.lock();
        self.end.lock().get_or_insert_with(|| end.clone());
        for (_, queue) in &*queues {
            let mut queue = queue.lock();
            queue.end.get_or_insert_with(|| end.clone());
            let waker = queue.wake_one();
            drop(queue);
            self.wake(waker);
        }
    }

    fn wake(&self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.wakeups.fetch_add(1, Ordering::Relaxed);
            waker.wake();
        }
    }
}

impl WorkerQueue {
    /// The number of the message that comes next.
    fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    fn push(&mut self, message: &Bytes, bounds: &TopicBounds) {
        if self.subscribers == 0 || self.end.is_some() {
            return;
        }
        self.bytes += message.len();
        self.messages.push_back(Message {
            data: message.clone(),
            left: self.subscribers,
        });

        let exceeds =
            |queue: &Self| queue.messages.len() > bounds.messages || queue.bytes > bounds.bytes;
        while self.messages.len() > 1 && exceeds(self) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= message.data.len();
            self.first += 1;
        }
    }

    /// One subscriber that waits, if none was woken before.
    fn wake_one(&mut self) -> Option<Waker> {
        if self.is_woken {
            return None;
        }
        let (_, waker) = self.waiting.pop_first()?;
        self.is_woken = true;
        Some(waker)
    }

    /// All who wait, if the one that asks is to wake them.
    fn take_others(&mut self) -> BTreeMap<u64, Waker> {
        match std::mem::take(&mut self.is_woken) {
            true => std::mem::take(&mut self.waiting),
            false => BTreeMap::new(),
        }
    }

    /// The subscriber that is to get message `number` has taken it, or will not.
    fn taken(&mut self, number: u64) {
        let at = number.checked_sub(self.first).map(|at| at as usize);
        if let Some(message) = at.and_then(|at| self.messages.get_mut(at)) {
            message.left -= 1;
        }
        while self.messages.front().is_some_and(|front| front.left == 0) {
            self.drop_first();
        }
    }
}

/// A subscription: the feed of one answer.
pub struct Subscription {
    shared: Arc<Shared>,
    queue: Arc<Mutex<WorkerQueue>>,
    number: u64,
    /// The number of the message that it gets next.
    next: u64,
}

impl Subscription {
    /// Takes the messages that are there; returns the state that follows them, if it is known.
    fn take(&mut self, queue: &mut WorkerQueue, pieces: &mut Vec<Bytes>) -> Option<FeedState> {
        let lost = queue.first.saturating_sub(self.next);
        if lost > 0 {
            self.next = queue.first;
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
            if self.shared.bounds.behind == Behind::Ends {
                let reason = format!("the client is {lost} messages too far behind");
                return Some(FeedState::Broken(reason));
            }
        }

        let mut bytes = 0;
        while pieces.len() < FEED_PIECES && bytes < FEED_BYTES {
            let at = (self.next - queue.first) as usize;
            let Some(message) = queue.messages.get(at) else {
                break;
            };
            bytes += message.data.len();
            pieces.push(message.data.clone());
            queue.taken(self.next);
            self.next += 1;
        }

        match &queue.end {
            Some(end) if self.next == queue.end() => Some(end.clone()),
            _ if pieces.is_empty() => None,
            _ => Some(FeedState::Open),
        }
    }
}

impl Feed for Subscription {
    fn poll_pieces(&mut self, cx: &mut Context<'_>, pieces: &mut Vec<Bytes>) -> Poll<FeedState> {
        let queue = self.queue.clone();
        let mut queue = queue.lock();
        let others = queue.take_others();
        let taken = self.take(&mut queue, pieces);
        match taken {
            Some(_) => drop(queue.waiting.remove(&self.number)),
            None => drop(queue.waiting.insert(self.number, cx.waker().clone())),
        }
        drop(queue);

        for waker in others.into_values() {
            waker.wake();
        }
        taken.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut queue = self.queue.lock();
        queue.subscribers -= 1;
        queue.waiting.remove(&self.number);
        for number in self.next.max(queue.first)..queue.end() {
            queue.taken(number);
        }
        // It may have been the one that was to wake the others.
        let others = queue.take_others();
        drop(queue);
        for waker in others.into_values() {
            waker.wake();
        }

        if self.shared.subscribers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.deserted.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn topic(messages: usize, behind: Behind) -> Topic {
        Topic::new(TopicBounds {
            messages,
            bytes: 1000,
            behind,
        })
    }

    /// The state and the pieces of the subscription now.
    fn poll(subscription: &mut Subscription, waker: &Waker) -> (Poll<FeedState>, Vec<Bytes>) {
        let mut pieces = Vec::new();
        let mut cx = Context::from_waker(waker);
        (subscription.poll_pieces(&mut cx, &mut pieces), pieces)
    }

    #[test]
    fn a_message_wakes_one_subscriber_which_wakes_the_others() {
        let topic = topic(10, Behind::Skips);
        let counts: [Arc<Count>; 3] = Default::default();
        let mut subscriptions = [(); 3].map(|()| topic.subscribe());
        for (subscription, count) in subscriptions.iter_mut().zip(&counts) {
            assert!(poll(subscription, &count.clone().into()).0.is_pending());
        }
        let woken = || {
            counts
                .each_ref()
                .map(|count| count.0.load(Ordering::Relaxed))
        };

        let message = Bytes::from_static(b"one");
        topic.publish(&message);
        topic.publish(&message);
        assert_eq!(woken(), [1, 0, 0]);
        assert_eq!(topic.stats().wakeups, 1);
        let (state, pieces) = poll(&mut subscriptions[0], &counts[0].clone().into());
        assert_eq!((state, pieces.len()), (Poll::Ready(FeedState::Open), 2));
        assert_eq!(woken(), [1, 1, 1]);
        // The bytes are the same, and kept until the last has taken them.
        assert_eq!(pieces[0].as_ptr(), message.as_ptr());
        assert_eq!(topic.stats().bytes, 6);
        for subscription in &mut subscriptions[1..] {
            let (_, pieces) = poll(subscription, Waker::noop());
            assert_eq!(pieces.len(), 2);
        }
        assert_eq!(topic.stats().bytes, 0);
    }

    #[test]
    fn one_that_is_dropped_before_it_could_wake_the_others_does_it_then() {
        let topic = topic(10, Behind::Skips);
        let [mut first, mut second] = [(); 2].map(|()| topic.subscribe());
        let count = Arc::<Count>::default();
        assert!(poll(&mut first, Waker::noop()).0.is_pending());
        assert!(poll(&mut second, &count.clone().into()).0.is_pending());
        topic.publish(&Bytes::from_static(b"one"));
        drop(first);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        drop(second);
        assert!(topic.is_deserted());
        assert_eq!(topic.stats().bytes, 0);
    }

    #[test]
    fn who_is_behind_skips_or_ends_and_what_is_kept_has_a_bound() {
        for behind in [Behind::Skips, Behind::Ends] {
            let topic = topic(2, behind);
            let mut slow = topic.subscribe();
            for message in ["one", "two", "three", "four"] {
                topic.publish(&Bytes::from_static(message.as_bytes()));
            }
            assert_eq!(topic.stats().bytes, "threefour".len());
            let (state, pieces) = poll(&mut slow, Waker::noop());
            match behind {
                Behind::Skips => assert_eq!(pieces, ["three", "four"]),
                Behind::Ends => assert!(matches!(state, Poll::Ready(FeedState::Broken(_)))),
            }
            assert_eq!(topic.stats().lost, 2);
        }

        let topic = topic(100, Behind::Skips);
        let _slow = topic.subscribe();
        for _ in 0..10 {
            topic.publish(&Bytes::from_static(&[0; 400]));
        }
        assert_eq!(topic.stats().bytes, 800);
    }

    #[test]
    fn a_topic_that_is_dropped_breaks_off_after_its_last_message() {
        let whole = topic(10, Behind::Ends);
        let mut subscription = whole.subscribe();
        whole.publish(&Bytes::from_static(b"last"));
        whole.end();
        drop(whole);
        let (state, pieces) = poll(&mut subscription, Waker::noop());
        assert_eq!(state, Poll::Ready(FeedState::Complete));
        assert_eq!(pieces, ["last"]);

        let broken = topic(10, Behind::Ends);
        let mut subscription = broken.subscribe();
        drop(broken);
        let (state, _) = poll(&mut subscription, Waker::noop());
        assert!(matches!(state, Poll::Ready(FeedState::Broken(_))));
    }
}
