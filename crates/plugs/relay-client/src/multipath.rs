//! One channel by several ways at once: each message comes once, by the way that was first.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use hermes_proto::relay::Position;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::channel::Channel;
use crate::error::ClientError;
use crate::event::{Event, Loss, Received};
use crate::subscription::{Subscription, Wish};

/// How long a message may be missing that another way may yet bring.
const PATIENCE: Duration = Duration::from_secs(1);

/// Events of a way that wait to be taken: beyond them, the relay has to wait.
#[doc(alias = "bound")]
const EVENTS: usize = 4;

/// Bytes of messages that wait for one before them: beyond them, that one is given up.
#[doc(alias = "bound")]
const WAITING: usize = 16 << 20;

/// A subscription by several ways, which come to one relay. It lasts as long as one of them does, and the loss of a way loses nothing.
///
/// A message that no way brings is told as lost, with the reason `other`, once a later one is there. What one way loses is not. A message
/// in pieces comes by the way that began it: if that way breaks off in the midst, the message is lost.
///
/// # Examples
/// ```no_run
/// use hermes_relay_client::{Channel, Multipath, Wish};
///
/// # async fn both() -> Result<(), Box<dyn std::error::Error>> {
/// let channel: Channel = "http://hub/c/chat".parse()?;
/// let by_cable = channel.clone().through("http://127.0.0.1:8080".parse()?);
/// let by_radio = channel.through("http://127.0.0.1:8081".parse()?);
/// let mut subscription = Multipath::new(vec![by_cable, by_radio], &Wish::default());
/// while let Some(event) = subscription.next().await? {
///     println!("{event:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Multipath {
    ways: Vec<Way>,
    order: Order,
    /// The last word, behind the messages that wait.
    ended: Option<Event>,
    /// The way that is looked at first: each has its turn.
    first: usize,
    /// Read the ways until this is dropped.
    _readers: JoinSet<()>,
}

/// An event of a way, or the failure that ends it.
type Heard = Result<Event, ClientError>;

/// One way.
#[derive(Debug)]
struct Way {
    events: mpsc::Receiver<Heard>,
    /// A long message that has begun behind one that is missing: its pieces wait at the relay.
    parked: Option<Received>,
    is_away: bool,
    is_over: bool,
}

/// Puts messages into their order.
#[derive(Debug, Default)]
struct Order {
    /// The last message that was given, or passed over.
    at: Option<Position>,
    /// Whether a way has been open.
    is_open: bool,
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

impl Multipath {
    /// Subscribes to the channel by each of these: begins at once, and has to be called within a runtime of Tokio.
    #[must_use]
    pub fn new(channels: Vec<Channel>, wish: &Wish) -> Self {
        let mut readers = JoinSet::new();
        let ways = channels.into_iter().map(|channel| {
            let (sender, events) = mpsc::channel(EVENTS);
            readers.spawn(read(Subscription::new(channel, wish.clone()), sender));
            Way {
                events,
                parked: None,
                is_away: false,
                is_over: false,
            }
        });
        Self {
            ways: ways.collect(),
            order: Order {
                at: wish.from,
                ..Order::default()
            },
            ended: None,
            first: 0,
            _readers: readers,
        }
    }

    /// The next event; `None` once all ways are over. May be dropped and called anew without a loss. `Opened` comes with the first way
    /// that is open, `Away` when none is.
    ///
    /// # Errors
    /// Each way was refused, or reached no one at its first attempt: the failure of the last one.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.order.ready() {
                return Ok(Some(event));
            }
            if let Some(event) = self.begin_parked() {
                return Ok(Some(event));
            }
            if self.ways.iter().all(|way| way.is_over) {
                return Ok(self.give_up().or_else(|| self.ended.take()));
            }
            let Some((way, heard)) = self.hear().await else {
                if let Some(event) = self.give_up() {
                    return Ok(Some(event));
                }
                continue;
            };
            if let Some(event) = self.take(way, heard)? {
                return Ok(Some(event));
            }
        }
    }

    /// The position of the last message.
    #[must_use]
    pub fn at(&self) -> Option<Position> {
        self.order.at
    }

    /// The next event of any way; `None` when a message is missing for too long.
    async fn hear(&mut self) -> Option<(usize, Option<Heard>)> {
        let patience = self.order.patience();
        let heard = poll_fn(|cx| self.poll_ways(cx));
        let Some(patience) = patience else {
            return Some(heard.await);
        };
        tokio::select! {
            heard = heard => Some(heard),
            () = sleep_until(patience) => None,
        }
    }

    fn poll_ways(&mut self, cx: &mut Context<'_>) -> Poll<(usize, Option<Heard>)> {
        let count = self.ways.len();
        for turn in 0..count {
            let index = (self.first + turn) % count;
            let way = &mut self.ways[index];
            // Another one's pieces are not to be read before their message is wanted.
            if way.is_over || way.parked.is_some() {
                continue;
            }
            if let Poll::Ready(heard) = way.events.poll_recv(cx) {
                // A way that always has something would keep the others waiting.
                self.first = index + 1;
                return Poll::Ready((index, heard));
            }
        }
        Poll::Pending
    }

    /// Begins a long message whose turn has come, or drops one that another way has brought.
    fn begin_parked(&mut self) -> Option<Event> {
        for (index, way) in self.ways.iter_mut().enumerate() {
            let Some(parked) = way.parked.take() else {
                continue;
            };
            match self.order.begin(index, parked) {
                Begun::Now(event) => return Some(event),
                Begun::Later(parked) => way.parked = Some(parked),
                Begun::Never => {}
            }
        }
        None
    }

    /// Passes over the messages that are missing before the first that is there.
    fn give_up(&mut self) -> Option<Event> {
        let parked = self.ways.iter().filter_map(|way| way.parked.as_ref());
        let parked = parked.map(|first| first.at.sequence).min();
        self.order.give_up(parked)
    }

    fn take(&mut self, index: usize, heard: Option<Heard>) -> Result<Option<Event>, ClientError> {
        let way = &mut self.ways[index];
        let event = match heard {
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                // One way that is refused says nothing about the others.
                way.is_over = true;
                return match self.ways.iter().all(|way| way.is_over) {
                    true => Err(error),
                    false => Ok(None),
                };
            }
            None => {
                way.is_over = true;
                return Ok(None);
            }
        };
        match event {
            Event::Opened { at, is_recovered } => {
                way.is_away = false;
                Ok(self.order.open(at, is_recovered))
            }
            Event::Message(message) => {
                self.order.keep(message);
                Ok(None)
            }
            Event::Begun(first) => {
                way.parked = Some(first);
                Ok(None)
            }
            Event::Piece { data, is_last } => Ok(self
                .order
                .goes_on(index, is_last)
                .then_some(Event::Piece { data, is_last })),
            // A message that no way brings leaves a hole in the sequence.
            Event::Lost(loss) if loss.reason == "aborted" => Ok(self.order.broken(index)),
            Event::Lost(_) => Ok(None),
            Event::Away(reason) => {
                way.is_away = true;
                if let Some(lost) = self.order.broken(index) {
                    return Ok(Some(lost));
                }
                let mut others = self.ways.iter();
                let is_alone = others.all(|way| way.is_away || way.is_over);
                Ok(is_alone.then_some(Event::Away(reason)))
            }
            Event::Ended { reason, text } => {
                way.is_over = true;
                self.ended = Some(Event::Ended { reason, text });
                Ok(self.order.broken(index))
            }
        }
    }
}

/// Whether a long message begins.
enum Begun {
    Now(Event),
    /// One before it is missing.
    Later(Received),
    /// It came by another way.
    Never,
}

impl Order {
    /// Until then a message that is missing may come.
    fn patience(&self) -> Option<Instant> {
        // Behind one that is coming, all others wait.
        let since = self.since.filter(|_| self.long.is_none());
        since.map(|since| since + PATIENCE)
    }

    /// A way is open.
    fn open(&mut self, at: Position, is_recovered: bool) -> Option<Event> {
        let was_open = std::mem::replace(&mut self.is_open, true);
        let is_same = self.at.is_some_and(|known| known.epoch == at.epoch);
        if !is_same {
            // Numbers of another life of the channel begin anew.
            *self = Self {
                at: Some(at),
                is_open: true,
                ..Self::default()
            };
        }
        match (was_open, is_same) {
            (false, _) => Some(Event::Opened { at, is_recovered }),
            (true, true) => None,
            (true, false) => Some(Event::Lost(Loss {
                count: 0,
                reason: "restarted",
                details: None,
            })),
        }
    }

    /// Keeps a message until its turn comes, unless it came already.
    fn keep(&mut self, message: Received) {
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

    /// The message whose turn it is.
    fn ready(&mut self) -> Option<Event> {
        if self.long.is_some() {
            return None;
        }
        let at = self.at.as_mut()?;
        let next = self.waiting.remove(&(at.sequence + 1));
        let Some(message) = next else {
            return match self.bytes > WAITING {
                true => self.give_up(None),
                false => None,
            };
        };
        at.sequence += 1;
        self.bytes -= message.data.len();
        // Those behind it have only now become the ones that wait.
        self.since = (!self.waiting.is_empty()).then(Instant::now);
        Some(Event::Message(message))
    }

    /// Passes over the messages that are missing before those that wait, of which a long one may be the first.
    fn give_up(&mut self, parked: Option<u64>) -> Option<Event> {
        let at = self.at.as_mut()?;
        let waiting = self.waiting.keys().next().copied();
        let first = waiting.into_iter().chain(parked).min()?;
        self.since = None;
        let count = first
            .checked_sub(at.sequence + 1)
            .filter(|count| *count > 0)?;
        at.sequence += count;
        Some(Event::Lost(Loss {
            count,
            reason: "other",
            details: None,
        }))
    }

    fn begin(&mut self, way: usize, first: Received) -> Begun {
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
    fn goes_on(&mut self, way: usize, is_last: bool) -> bool {
        let Some(long) = self.long.filter(|long| long.way == way) else {
            return false;
        };
        if is_last {
            self.end_long(long);
        }
        true
    }

    /// A way has broken off, or its message has: the loss of the one that was coming by it.
    fn broken(&mut self, way: usize) -> Option<Event> {
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

/// Reads one way to its end.
async fn read(mut subscription: Subscription, events: mpsc::Sender<Result<Event, ClientError>>) {
    loop {
        let heard = match subscription.next().await {
            Ok(None) => return,
            Ok(Some(event)) => Ok(event),
            Err(error) => Err(error),
        };
        let is_over = heard.is_err();
        // Who asked may be gone.
        if events.send(heard).await.is_err() || is_over {
            return;
        }
    }
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
        assert!(order.open(at(2), true).is_some());
        assert!(order.open(at(3), true).is_none());
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
        order.open(at(0), true);
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
        order.open(at(7), true);
        order.keep(message(9));
        let again = Position {
            epoch: 2,
            sequence: 0,
        };
        assert!(matches!(order.open(again, false), Some(Event::Lost(_))));
        order.keep(message(8));
        assert_eq!(ready(&mut order), []);
    }
}
