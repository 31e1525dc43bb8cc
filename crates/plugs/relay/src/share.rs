//! The subscriptions of one worker to one channel: their queue, and the words for each of them.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hermes_plug::feed::FEED_BYTES;
use hermes_proto::relay::{End, Gap, Stripe};

use crate::account::Account;
use crate::form::{EventStream, Form, Word};
use crate::message::Message;
use crate::moved::Moved;
use crate::queue::{Enqueued, MemberBounds, MemberId, Queue, Room, Step};

/// What a worker has of a channel. Locked for the time of one call.
pub(crate) struct Share {
    queue: Queue,
    states: HashMap<MemberId, MemberState>,
    /// Streams that have sent all.
    waiting: BTreeSet<MemberId>,
    /// One of them was woken, and is to wake the others: that costs no system call, as they are on its worker.
    is_woken: bool,
    /// The latest block of each form: subscribers who are as far as each other take the same bytes.
    blocks: HashMap<Form, Block>,
    /// Bytes of messages that all channels hold.
    held: Arc<AtomicUsize>,
    /// Work for the worker of this share.
    order: Option<Order>,
}

/// Work that is to be begun on the worker of a share.
pub(crate) type Order = Box<dyn FnOnce() + Send>;

/// The place of one subscription.
struct MemberState {
    /// The number of its stream: an earlier one has lost its place.
    stream: u64,
    waker: Option<Waker>,
    end: Option<Ending>,
    /// Whether a sign of life is due.
    is_beat_due: bool,
    /// When its stream sent something last.
    sent: Instant,
    /// The number of the last message that its stream took.
    position: u64,
}

/// The end of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) reason: End,
    /// What an operator or developer wants to know beside it.
    pub(crate) text: String,
    /// Where it goes on.
    pub(crate) moved: Option<Arc<Moved>>,
}

/// Messages in the bytes of a form.
struct Block {
    range: Range<u64>,
    pieces: Vec<Bytes>,
}

/// How one stream sends.
pub(crate) struct Sending {
    pub(crate) member: MemberId,
    pub(crate) stream: u64,
    pub(crate) form: Form,
    /// For the form that has bytes of its own for each subscriber.
    pub(crate) events: Option<EventStream>,
}

/// What came of asking for pieces.
pub(crate) enum Sent {
    /// There are pieces, and further ones may come.
    Open,
    /// There is nothing yet; the waker is kept.
    Nothing,
    /// The subscription is over, and its last word is said.
    Ended,
    /// Messages are lost, and the form has no word for it.
    Lost(Gap),
    /// Another stream has the place.
    Replaced,
}

impl Share {
    pub(crate) fn new(held: Arc<AtomicUsize>) -> Self {
        Self {
            queue: Queue::default(),
            states: HashMap::new(),
            waiting: BTreeSet::new(),
            is_woken: false,
            blocks: HashMap::new(),
            held,
            order: None,
        }
    }

    /// A new subscription, which gets what comes after the message `position`.
    pub(crate) fn join(&mut self, joining: Joining, position: u64, now: Instant) -> MemberId {
        let member = self.queue.join(joining.bounds, joining.owner);
        let state = MemberState {
            stream: 0,
            waker: None,
            end: None,
            is_beat_due: false,
            sent: now,
            position,
        };
        self.states.insert(member, state);
        member
    }

    /// A subscription is over; nothing more is said to it.
    pub(crate) fn leave(&mut self, member: MemberId) {
        self.states.remove(&member);
        self.waiting.remove(&member);
        self.accounted(|queue| queue.leave(member));
    }

    /// A new stream takes the place; the one before hears of it. Returns its number.
    pub(crate) fn take_place(&mut self, member: MemberId) -> Option<u64> {
        let state = self.states.get_mut(&member)?;
        state.stream += 1;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        Some(state.stream)
    }

    /// The stream of a subscription is gone: no one is to be woken for it any more. Whether it had the place.
    pub(crate) fn gone(&mut self, member: MemberId, stream: u64) -> bool {
        if !self.is_current(member, stream) {
            return false;
        }
        self.waiting.remove(&member);
        if let Some(state) = self.states.get_mut(&member) {
            state.waker = None;
        }
        true
    }

    /// The number of the last message that the streams of a subscription have taken.
    pub(crate) fn position(&self, member: MemberId) -> Option<u64> {
        self.states.get(&member).map(|state| state.position)
    }

    /// Whether this stream has the place.
    pub(crate) fn is_current(&self, member: MemberId, stream: u64) -> bool {
        let state = self.states.get(&member);
        state.is_some_and(|state| state.stream == stream)
    }

    /// Says that messages are lost before those that wait.
    pub(crate) fn tell(&mut self, member: MemberId, gap: Gap) {
        self.queue.tell(member, gap);
    }

    /// Whether all who are to get the message of this number have room for its cost.
    pub(crate) fn has_room(&self, sequence: u64, cost: usize) -> bool {
        self.queue.has_room(sequence, cost)
    }

    /// Adds a message; who has to be woken for it.
    pub(crate) fn push(&mut self, message: &Arc<Message>, room: Room) -> Pushed {
        let enqueued = self.accounted(|queue| queue.push(message, room));
        // Also for those that got nothing: they may have a gap to tell.
        Pushed {
            enqueued,
            waker: self.wake_one(),
        }
    }

    /// Whether all who are to get a piece of a long message have room for it.
    pub(crate) fn has_room_for(&self, piece: &Message) -> bool {
        self.queue.has_room_for(piece)
    }

    /// Adds a piece of a long message; who has to be woken for it.
    pub(crate) fn push_piece(&mut self, piece: &Arc<Message>) -> Pushed {
        let enqueued = self.accounted(|queue| queue.push_piece(piece));
        Pushed {
            enqueued,
            waker: self.wake_one(),
        }
    }

    /// Says whether the stream of a subscription takes long messages, from the next one on.
    pub(crate) fn takes_pieces(&mut self, member: MemberId, takes: bool) {
        self.queue.takes_pieces(member, takes);
    }

    /// Gives a subscription a share of the messages alone, or all.
    pub(crate) fn stripe(&mut self, member: MemberId, stripe: Option<Stripe>) {
        self.queue.stripe(member, stripe);
    }

    /// Ends a subscription behind what waits for it.
    pub(crate) fn end(&mut self, member: MemberId, ending: Ending) -> Option<Waker> {
        let state = self.states.get_mut(&member)?;
        state.end.get_or_insert(ending);
        state.waker.take()
    }

    /// Has a sign of life sent if nothing was sent since `since`.
    pub(crate) fn beat(&mut self, member: MemberId, since: Instant) -> Option<Waker> {
        let state = self.states.get_mut(&member)?;
        if state.sent > since {
            return None;
        }
        state.is_beat_due = true;
        state.waker.take()
    }

    /// When the first message came that waits for the subscription.
    pub(crate) fn waits_since(&self, member: MemberId) -> Option<Instant> {
        self.queue.waits_since(member)
    }

    /// Bytes that wait for the subscription.
    pub(crate) fn waiting_bytes(&self, member: MemberId) -> usize {
        self.queue.waiting(member)
    }

    /// Receivers of a message, those of relays among them.
    pub(crate) fn receivers(&self) -> Enqueued {
        self.queue.receivers()
    }

    /// A relay has said how many receivers it has.
    pub(crate) fn weigh(&mut self, member: MemberId, receivers: u64) {
        self.queue.weigh(member, receivers);
    }

    /// All have lost messages behind those that wait; who has to be woken for it.
    pub(crate) fn lose(&mut self, gap: Gap) -> Option<Waker> {
        self.queue.lose(gap);
        self.wake_one()
    }

    /// Ends all subscriptions.
    pub(crate) fn end_all(&mut self, ending: &Ending) -> Vec<Waker> {
        let states = self.states.values_mut();
        let ended = states.filter_map(|state| {
            state.end.get_or_insert_with(|| ending.clone());
            state.waker.take()
        });
        ended.collect()
    }

    /// Has its worker do this; who is to be woken for it.
    pub(crate) fn order(&mut self, order: Order) -> Vec<Waker> {
        self.order = Some(order);
        let states = self.states.values_mut();
        states.filter_map(|state| state.waker.take()).collect()
    }

    /// The order, for the first stream that comes by.
    pub(crate) fn take_order(&mut self) -> Option<Order> {
        self.order.take()
    }

    /// Subscriptions.
    pub(crate) fn members(&self) -> usize {
        self.queue.members()
    }

    /// The others who wait, if the caller is the one that was woken for them.
    pub(crate) fn take_others(&mut self) -> Vec<Waker> {
        if !std::mem::take(&mut self.is_woken) {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let wakers = waiting.iter().filter_map(|member| {
            let state = self.states.get_mut(member)?;
            state.waker.take()
        });
        wakers.collect()
    }

    /// Gives the pieces that a stream is to send next.
    pub(crate) fn pieces(
        &mut self,
        sending: &Sending,
        cx: &Context<'_>,
        now: Instant,
        pieces: &mut Vec<Bytes>,
    ) -> Sent {
        let member = sending.member;
        if !self.is_current(member, sending.stream) {
            return Sent::Replaced;
        }

        let step = self.accounted(|queue| queue.next(member, FEED_BYTES, now));
        match step {
            Some(Step::Gap(gap)) if !sending.form.tells_gaps() => return Sent::Lost(gap),
            Some(Step::Gap(gap)) => self.say(sending, &Word::Gap(gap), pieces),
            Some(Step::Messages(range)) => self.send(sending, range, pieces),
            None => {}
        }
        let Some(state) = self.states.get_mut(&member) else {
            return Sent::Replaced;
        };
        if !pieces.is_empty() {
            state.sent = now;
            state.is_beat_due = false;
            return Sent::Open;
        }

        if let Some(ending) = state.end.clone() {
            let word = match &ending.moved {
                Some(moved) => Word::Moved(moved),
                None => Word::End(ending.reason, &ending.text),
            };
            self.say(sending, &word, pieces);
            return Sent::Ended;
        }
        if std::mem::take(&mut state.is_beat_due) {
            state.sent = now;
            let position = state.position;
            self.say(sending, &Word::Heartbeat(position), pieces);
            if !pieces.is_empty() {
                return Sent::Open;
            }
        }
        self.wait(member, cx);
        Sent::Nothing
    }

    /// The next message for a subscriber who takes one at a time.
    pub(crate) fn one(&mut self, member: MemberId, now: Instant) -> Option<Arc<Message>> {
        loop {
            match self.accounted(|queue| queue.next(member, 1, now))? {
                Step::Gap(_) => {}
                Step::Messages(range) => {
                    let first = range.start..range.start + 1;
                    let message = self.queue.messages(&first).next().cloned();
                    self.accounted(|queue| queue.taken(member, &first));
                    return message;
                }
            }
        }
    }

    /// Keeps the waker of a stream that has sent all.
    pub(crate) fn wait(&mut self, member: MemberId, cx: &Context<'_>) {
        let Some(state) = self.states.get_mut(&member) else {
            return;
        };
        state.waker = Some(cx.waker().clone());
        self.waiting.insert(member);
    }

    fn send(&mut self, sending: &Sending, range: Range<u64>, pieces: &mut Vec<Bytes>) {
        let last = self.queue.messages(&range).last();
        let position = last.map(|message| message.sequence);
        if let Some(events) = &sending.events {
            events.messages(self.queue.messages(&range), pieces);
        } else {
            let block = self.blocks.get(&sending.form);
            match block.filter(|block| block.range == range) {
                Some(block) => pieces.extend_from_slice(&block.pieces),
                None => {
                    sending.form.messages(self.queue.messages(&range), pieces);
                    // One subscriber shares with no one.
                    if self.queue.members() > 1 {
                        let block = Block {
                            range: range.clone(),
                            pieces: pieces.clone(),
                        };
                        self.blocks.insert(sending.form, block);
                    }
                }
            }
        }

        self.accounted(|queue| queue.taken(sending.member, &range));
        if self.queue.bytes() == 0 {
            self.blocks.clear();
        }
        if let (Some(state), Some(position)) = (self.states.get_mut(&sending.member), position) {
            state.position = position;
        }
    }

    fn say(&self, sending: &Sending, word: &Word<'_>, pieces: &mut Vec<Bytes>) {
        let mut said = BytesMut::new();
        sending.form.word(word, &mut said);
        if !said.is_empty() {
            pieces.push(said.freeze());
        }
    }

    fn wake_one(&mut self) -> Option<Waker> {
        if self.is_woken {
            return None;
        }
        while let Some(member) = self.waiting.pop_first() {
            let state = self.states.get_mut(&member);
            if let Some(waker) = state.and_then(|state| state.waker.take()) {
                self.is_woken = true;
                return Some(waker);
            }
        }
        None
    }

    /// Changes the queue, and counts the bytes by which it grew or shrank.
    fn accounted<T>(&mut self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let before = self.queue.bytes();
        let changed = change(&mut self.queue);
        let after = self.queue.bytes();
        if after >= before {
            self.held.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.held.fetch_sub(before - after, Ordering::Relaxed);
        }
        changed
    }
}

/// A subscription that begins.
pub(crate) struct Joining {
    pub(crate) bounds: MemberBounds,
    pub(crate) owner: Arc<Account>,
}

/// A message was added.
pub(crate) struct Pushed {
    pub(crate) enqueued: Enqueued,
    /// To be woken when the share is free again.
    pub(crate) waker: Option<Waker>,
}

#[cfg(test)]
mod tests {
    use std::task::Wake;
    use std::time::Duration;

    use super::*;
    use crate::queue::Overflow;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stream_that_is_gone_does_not_take_the_call_for_the_others() {
        let mut share = Share::new(Arc::default());
        let now = Instant::now();
        let mut join = || {
            let joining = Joining {
                bounds: MemberBounds {
                    bytes: 1 << 10,
                    overflow: Overflow::Newest,
                },
                owner: Arc::new(Account::new("user".into(), Arc::default())),
            };
            let member = share.join(joining, 0, now);
            let counting = Arc::<CountingWaker>::default();
            let waker = Waker::from(counting.clone());
            share.wait(member, &Context::from_waker(&waker));
            (member, counting)
        };
        let (away, its_waker) = join();
        let (_stays, waker) = join();
        assert!(share.gone(away, 0));

        let message = Message {
            sequence: 1,
            content_type: None,
            topic: None,
            expires: Some(now + Duration::from_secs(60)),
            is_reliable: false,
            proof: None,
            came: now,
            data: Bytes::from_static(b"hi"),
            part: crate::message::Part::Whole,
        };
        let pushed = share.push(&Arc::new(message), Room::Unknown);
        pushed.waker.expect("someone waits").wake();
        assert_eq!(its_waker.0.load(Ordering::Relaxed), 0);
        assert_eq!(waker.0.load(Ordering::Relaxed), 1);
    }
}
