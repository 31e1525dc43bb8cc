//! One channel by several ways at once: each message comes once, by the way that was first.

mod order;
mod shares;

use std::future::poll_fn;
use std::task::{Context, Poll};

use hermes_proto::relay::{MAX_SHARES, Position, Stripe};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::channel::Channel;
use crate::error::ClientError;
use crate::event::{Event, Received};
use crate::subscription::{Subscription, Wish};
use order::{Begun, Order};
use shares::Shares;

/// Events of a way that wait to be taken: beyond them, the relay has to wait.
#[doc(alias = "bound")]
const EVENTS: usize = 4;

/// A subscription by several ways, which come to one relay. It lasts as long as one of them does, and where all bring all, the loss of a way
/// loses nothing.
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

impl Multipath {
    /// Subscribes to the channel by each of these: begins at once, and has to be called within a runtime of Tokio.
    #[must_use]
    pub fn new(channels: Vec<Channel>, wish: &Wish) -> Self {
        let ways = channels.into_iter();
        let ways = ways.map(|channel| Subscription::new(channel, wish.clone()));
        Self::of(ways.collect(), Order::new(wish.from, None))
    }

    /// Subscribes to a share of the channel by each of these: together they bring as much as all ways carry, and each message once. Where a
    /// way breaks off, the next one brings its share, too: messages that wait at the relay come by it, and those under way are told as
    /// lost. Of more than 16 ways, those beyond bring nothing.
    #[must_use]
    pub fn striped(channels: Vec<Channel>, wish: &Wish) -> Self {
        let count = u8::try_from(channels.len()).map_or(MAX_SHARES, |count| count.min(MAX_SHARES));
        let stripes = (1..=count).filter_map(|share| Stripe::new(share, count).ok());
        let stripes: Vec<_> = stripes.collect();
        let ways = stripes.iter().enumerate().map(|(first, stripe)| {
            let mut channels = channels[..stripes.len()].to_vec();
            channels.rotate_left(first);
            Subscription::of_share(channels, wish.clone(), *stripe)
        });
        let ways = ways.collect();
        Self::of(ways, Order::new(wish.from, Some(Shares::new(&stripes))))
    }

    fn of(ways: Vec<Subscription>, order: Order) -> Self {
        let mut readers = JoinSet::new();
        let ways = ways.into_iter().map(|subscription| {
            let (sender, events) = mpsc::channel(EVENTS);
            readers.spawn(read(subscription, sender));
            Way {
                events,
                parked: None,
                is_away: false,
                is_over: false,
            }
        });
        Self {
            ways: ways.collect(),
            order,
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
        match heard {
            Some(Ok(event)) => Ok(self.take_event(index, event)),
            Some(Err(error)) => {
                // One way that is refused says nothing about the others.
                way.is_over = true;
                let opened = self.order.over(index);
                match self.ways.iter().all(|way| way.is_over) {
                    true => Err(error),
                    false => Ok(opened),
                }
            }
            None => {
                way.is_over = true;
                Ok(self.order.over(index))
            }
        }
    }

    fn take_event(&mut self, index: usize, event: Event) -> Option<Event> {
        let way = &mut self.ways[index];
        match event {
            Event::Opened { at, is_recovered } => {
                way.is_away = false;
                self.order.open(index, at, is_recovered)
            }
            Event::Message(message) => {
                self.order.heard(index, message.at);
                self.order.keep(message);
                None
            }
            Event::Begun(first) => {
                self.order.heard(index, first.at);
                way.parked = Some(first);
                None
            }
            Event::Piece { data, is_last } => self
                .order
                .goes_on(index, is_last)
                .then_some(Event::Piece { data, is_last }),
            // A message that no way brings leaves a hole in the sequence.
            Event::Lost(loss) if loss.reason == "aborted" => self.order.broken(index),
            Event::Lost(_) => None,
            Event::Away(reason) => {
                way.is_away = true;
                self.order.away(index);
                if let Some(lost) = self.order.broken(index) {
                    return Some(lost);
                }
                let mut others = self.ways.iter();
                let is_alone = others.all(|way| way.is_away || way.is_over);
                is_alone.then_some(Event::Away(reason))
            }
            Event::Ended { reason, text } => {
                way.is_over = true;
                self.ended = Some(Event::Ended { reason, text });
                self.order.over(index).or_else(|| self.order.broken(index))
            }
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
