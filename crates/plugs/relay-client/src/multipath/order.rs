//! The order of messages that come by several ways.

use std::collections::BTreeMap;
use std::time::Duration;

use hermes_proto::relay::Position;
use tokio::time::Instant;

use super::shares::Shares;
use crate::event::{Event, Loss, Received};

/// How long a message may be missing that another way may yet bring.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of messages that wait for one before them: beyond them, that one is given up.
#[doc(alias = "bound")]
const WAITING: usize = 16 << 20;

/// Puts messages into their order.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The last message that was given, or passed over.
    pub(super) at: Option<Position>,
    /// Whether a way has been open; all, where each has a share.
    is_open: bool,
    /// Whether the subscriber named the position behind which messages are to come.
    is_from: bool,
    /// Where each way brings other messages.
    shares: Option<Shares>,
    /// Messages behind one that is missing.
    waiting: BTreeMap<u64, Received>,
    /// Bytes of them.
    bytes: usize,
    /// When the first of them came.
    since: Option<Instant>,
    /// The long message that is coming, and its way.
    long: Option<Long>,
}

/// A message that comes in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Long {
    way: usize,
    sequence: u64,
}

/// Whether a long message begins.
pub(super) enum Begun {
    Now(Event),
    /// One before it is missing.
    Later(Received),
    /// It came by another way.
    Never,
}

impl Order {
    /// The order of messages behind this position, which come by each way, or by that which has their share.
    pub(super) fn new(from: Option<Position>, shares: Option<Shares>) -> Self {
        Self {
            at: from,
            is_from: from.is_some(),
            shares,
            ..Self::default()
        }
    }

    /// Until then a message that is missing may come.
    pub(super) fn patience(&self) -> Option<Instant> {
        let missing = self.at.map(|at| at.sequence + 1);
        let shares = self.shares.as_ref().zip(missing);
        let is_held = shares.is_some_and(|(shares, missing)| shares.is_held(missing));
        // Behind one that is coming, all others wait.
        let since = self.since.filter(|_| self.long.is_none() && !is_held);
        since.map(|since| since + PATIENCE)
    }

    /// A way is open.
    pub(super) fn open(&mut self, way: usize, at: Position, is_recovered: bool) -> Option<Event> {
        let shares = self.shares.as_mut();
        let are_all_open = shares.is_none_or(|shares| shares.open(way));
        let is_same = self.at.is_some_and(|known| known.epoch == at.epoch);
        let was_open = self.is_open;
        if !is_same {
            self.restart(at);
        } else if !was_open && !self.is_from {
            self.pass_to(at.sequence);
        }
        self.is_open |= are_all_open;
        match (was_open, is_same) {
            (false, _) => self.opened(is_recovered),
            (true, true) => None,
            (true, false) => Some(Event::Lost(Loss {
                count: 0,
                reason: "restarted",
                details: None,
            })),
        }
    }

    /// A way broke off, and may come again.
    pub(super) fn away(&mut self, way: usize) {
        if let Some(shares) = &mut self.shares {
            shares.away(way);
        }
    }

    /// A way is over: the others may have waited for it.
    pub(super) fn over(&mut self, way: usize) -> Option<Event> {
        let are_all_open = self.shares.as_mut()?.over(way);
        if self.is_open || !are_all_open {
            return None;
        }
        self.is_open = true;
        self.opened(true)
    }

    /// A message came by this way, or began to.
    pub(super) fn heard(&mut self, way: usize, message: Position) {
        let is_ours = self.at.is_some_and(|at| at.epoch == message.epoch);
        if let Some(shares) = &mut self.shares
            && is_ours
        {
            shares.heard(way, message.sequence);
        }
    }

    fn opened(&self, is_recovered: bool) -> Option<Event> {
        let at = self.at.filter(|_| self.is_open)?;
        Some(Event::Opened { at, is_recovered })
    }

    /// Numbers of another life of the channel begin anew.
    fn restart(&mut self, at: Position) {
        let mut shares = self.shares.take();
        if let Some(shares) = &mut shares {
            shares.restart();
        }
        *self = Self {
            at: Some(at),
            is_open: self.is_open,
            is_from: self.is_from,
            shares,
            ..Self::default()
        };
    }

    /// Begins behind the message of this number: the last way that opened brings none before it.
    fn pass_to(&mut self, sequence: u64) {
        let Some(at) = &mut self.at else {
            return;
        };
        at.sequence = sequence.max(at.sequence);
        let behind = self.waiting.split_off(&(at.sequence + 1));
        self.waiting = behind;
        self.bytes = self
            .waiting
            .values()
            .map(|message| message.data.len())
            .sum();
    }

    /// Keeps a message until its turn comes, unless it came already.
    pub(super) fn keep(&mut self, message: Received) {
        let is_new = self
            .at
            .is_some_and(|at| at.epoch == message.at.epoch && message.at.sequence > at.sequence);
        let sequence = message.at.sequence;
        if !is_new || self.waiting.contains_key(&sequence) {
            return;
        }
        // Ways differ in length: an earlier message may still come by a longer one.
        self.bytes += message.data.len();
        self.waiting.insert(sequence, message);
        self.since.get_or_insert_with(Instant::now);
    }

    /// The message whose turn it is, or the loss of those that were before it.
    pub(super) fn ready(&mut self) -> Option<Event> {
        if self.long.is_some() || !self.is_open {
            return None;
        }
        let at = self.at.as_mut()?;
        let next = self.waiting.remove(&(at.sequence + 1));
        let Some(message) = next else {
            return match self.bytes > WAITING {
                true => self.give_up(None),
                false => self.passed(),
            };
        };
        at.sequence += 1;
        self.bytes -= message.data.len();
        // Those behind it have only now become the ones that wait.
        self.since = (!self.waiting.is_empty()).then(Instant::now);
        Some(Event::Message(message))
    }

    /// The loss of messages whose own way has passed over them.
    fn passed(&mut self) -> Option<Event> {
        let shares = self.shares.as_ref()?;
        let at = self.at.as_mut()?;
        let missing = at.sequence + 1..;
        let passed = missing.take_while(|sequence| {
            !self.waiting.contains_key(sequence) && shares.is_passed(*sequence)
        });
        let count = passed.count() as u64;
        at.sequence += count;
        lost(count)
    }

    /// Passes over the messages that are missing before those that wait, of which a long one may be the first; over one, where each may come by
    /// a way of its own.
    pub(super) fn give_up(&mut self, parked: Option<u64>) -> Option<Event> {
        let at = self.at.as_mut()?;
        let waiting = self.waiting.keys().next().copied();
        let first = waiting.into_iter().chain(parked).min()?;
        let missing = first.saturating_sub(at.sequence + 1);
        let (count, since) = match self.shares {
            Some(_) => (missing.min(1), Some(Instant::now())),
            None => (missing, None),
        };
        self.since = since;
        at.sequence += count;
        lost(count)
    }

    pub(super) fn begin(&mut self, way: usize, first: Received) -> Begun {
        let sequence = first.at.sequence;
        let Some(at) = self.at.filter(|at| at.epoch == first.at.epoch) else {
            return Begun::Never;
        };
        let is_under_way = self.long.is_some_and(|long| long.sequence == sequence);
        if sequence <= at.sequence || is_under_way {
            return Begun::Never;
        }
        if sequence > at.sequence + 1 || self.long.is_some() {
            self.since.get_or_insert_with(Instant::now);
            return Begun::Later(first);
        }
        self.long = Some(Long { way, sequence });
        Begun::Now(Event::Begun(first))
    }

    /// Whether a piece of this way is one of the message that is coming.
    pub(super) fn goes_on(&mut self, way: usize, is_last: bool) -> bool {
        let Some(long) = self.long.filter(|long| long.way == way) else {
            return false;
        };
        if is_last {
            self.end_long(long);
        }
        true
    }

    /// A way has broken off, or its message has: the loss of the one that was coming by it.
    pub(super) fn broken(&mut self, way: usize) -> Option<Event> {
        let long = self.long.filter(|long| long.way == way)?;
        self.end_long(long);
        Some(Loss::of_one("aborted", None))
    }

    fn end_long(&mut self, long: Long) {
        self.long = None;
        if let Some(at) = &mut self.at {
            at.sequence = long.sequence;
        }
    }
}

/// The loss of messages that no way brought, if there are any.
fn lost(count: u64) -> Option<Event> {
    (count > 0).then_some(Event::Lost(Loss {
        count,
        reason: "other",
        details: None,
    }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn at(sequence: u64) -> Position {
        Position { epoch: 1, sequence }
    }

    fn message(sequence: u64) -> Received {
        Received {
            at: at(sequence),
            content_type: None,
            topic: None,
            sender: None,
            data: Bytes::from_static(b"x"),
        }
    }

    /// The numbers of the messages that are ready.
    fn ready(order: &mut Order) -> Vec<u64> {
        let events = std::iter::from_fn(|| order.ready());
        let numbers = events.map(|event| match event {
            Event::Message(message) => message.at.sequence,
            other => panic!("{other:?}"),
        });
        numbers.collect()
    }

    #[test]
    fn each_message_comes_once_and_in_order() {
        let mut order = Order::default();
        assert!(order.open(0, at(2), true).is_some());
        assert!(order.open(1, at(3), true).is_none());
        for sequence in [2, 5, 3, 3, 4, 5, 7] {
            order.keep(message(sequence));
        }
        assert_eq!(ready(&mut order), [3, 4, 5]);
        let lost = order.give_up(None);
        assert!(matches!(lost, Some(Event::Lost(Loss { count: 1, .. }))));
        assert_eq!(ready(&mut order), [7]);
        assert!(order.patience().is_none());
        assert_eq!(order.bytes, 0);
    }

    #[test]
    fn pieces_come_by_one_way_and_others_wait_for_their_end() {
        let mut order = Order::default();
        order.open(0, at(0), true);
        assert!(matches!(order.begin(1, message(2)), Begun::Later(_)));
        assert!(matches!(order.begin(0, message(1)), Begun::Now(_)));
        assert!(matches!(order.begin(1, message(1)), Begun::Never));
        order.keep(message(2));
        assert_eq!(ready(&mut order), []);
        assert!(!order.goes_on(1, true));
        assert!(order.goes_on(0, true));
        assert_eq!(ready(&mut order), [2]);

        assert!(matches!(order.begin(0, message(3)), Begun::Now(_)));
        assert!(order.broken(1).is_none());
        assert!(order.broken(0).is_some());
        assert!(matches!(order.begin(1, message(3)), Begun::Never));
    }

    #[test]
    fn another_life_of_the_channel_begins_anew() {
        let mut order = Order::default();
        order.open(0, at(7), true);
        order.keep(message(9));
        let again = Position {
            epoch: 2,
            sequence: 0,
        };
        assert!(matches!(order.open(0, again, false), Some(Event::Lost(_))));
        order.keep(message(8));
        assert_eq!(ready(&mut order), []);
    }

    #[test]
    fn where_each_way_has_a_share_messages_are_lost_only_for_their_own() {
        let stripes = ["1/2", "2/2"].map(|share| share.parse().unwrap());
        let mut order = Order::new(None, Some(Shares::new(&stripes)));
        let take = |order: &mut Order, way, sequence| {
            order.heard(way, at(sequence));
            order.keep(message(sequence));
        };
        // Messages from before all ways are open are dropped: nothing was promised yet.
        assert!(order.open(0, at(2), true).is_none());
        take(&mut order, 0, 3);
        assert_eq!(ready(&mut order), []);
        assert!(
            matches!(order.open(1, at(4), true), Some(Event::Opened { at, .. }) if at.sequence == 4)
        );
        take(&mut order, 0, 5);
        assert_eq!(ready(&mut order), [5]);

        // The sixth waits at the relay while its way is away, however long that is.
        order.away(1);
        take(&mut order, 0, 7);
        take(&mut order, 0, 9);
        assert_eq!(ready(&mut order), []);
        assert!(order.patience().is_none());
        assert!(order.open(1, at(5), true).is_none());
        assert!(order.patience().is_some());
        take(&mut order, 1, 6);
        assert_eq!(ready(&mut order), [6, 7]);

        // The eighth is lost as soon as its way brings the tenth.
        take(&mut order, 1, 10);
        assert!(matches!(
            order.ready(),
            Some(Event::Lost(Loss { count: 1, .. }))
        ));
        assert_eq!(ready(&mut order), [9, 10]);
        assert_eq!(order.bytes, 0);
    }
}
