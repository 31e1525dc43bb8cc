//! One channel on its way to the successor.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hermes_proto::relay::{End, Position};
use parking_lot::Mutex;

use super::Successor;
use crate::channel::Channel;
use crate::moved::{HeldSubscription, Moved};
use crate::share::{Ending, Share};
use crate::subscription::Subscription;

/// How long the publishers of a channel may wait for the successor.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// The longest time in which browsers come again, in milliseconds.
const SPREAD: u16 = 1000;

/// A channel that takes no message until its subscriptions are held elsewhere.
pub(crate) struct Moving {
    pub(crate) successor: Arc<Successor>,
    /// Its path and query.
    pub(crate) path: String,
    /// The last message that was numbered here.
    pub(crate) at: Position,
    channel: Arc<Channel>,
    since: Instant,
    /// Whether the node stops, so that it cannot stay.
    is_last: bool,
    subscriptions: Vec<Arc<Subscription>>,
    /// Orders that are not done.
    left: AtomicUsize,
    held: Mutex<HashMap<Arc<str>, HeldSubscription>>,
    refusal: Mutex<Option<String>>,
    is_over: AtomicBool,
}

/// A channel that has stopped, and those who subscribe to it.
pub(crate) struct Stopped {
    pub(crate) key: Arc<str>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) at: Position,
    pub(crate) subscriptions: Vec<Arc<Subscription>>,
}

/// A move that has begun.
pub(super) struct BegunMove {
    pub(super) moving: Arc<Moving>,
    /// The subscriptions that are to be held, by the share of each.
    pub(super) by_share: Vec<Vec<Arc<Subscription>>>,
}

impl Moving {
    /// The move of a channel, whose subscriptions are to be held.
    pub(super) fn begin(
        stopped: Stopped,
        successor: Arc<Successor>,
        is_last: bool,
        now: Instant,
    ) -> BegunMove {
        let mut shares: HashMap<*const Mutex<Share>, Vec<Arc<Subscription>>> = HashMap::new();
        for subscription in &stopped.subscriptions {
            let share = Arc::as_ptr(&subscription.share);
            shares.entry(share).or_default().push(subscription.clone());
        }
        let from = stopped.key.find('/').unwrap_or(0);
        let moving = Arc::new(Self {
            successor,
            path: stopped.key[from..].to_owned(),
            at: stopped.at,
            channel: stopped.channel,
            since: now,
            is_last,
            subscriptions: stopped.subscriptions,
            left: AtomicUsize::new(shares.len()),
            held: Mutex::default(),
            refusal: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        // No one subscribes: there is nothing to wait for.
        if moving.subscriptions.is_empty() {
            moving.finish();
        }
        let by_share = shares.into_values().collect();
        BegunMove { moving, by_share }
    }

    /// The successor holds these.
    pub(super) fn held(&self, held: impl Iterator<Item = (Arc<Subscription>, HeldSubscription)>) {
        let held = held.map(|(subscription, held)| (subscription.id.clone(), held));
        self.held.lock().extend(held);
    }

    /// The successor does not hold some.
    pub(super) fn refused(&self, reason: String) {
        self.refusal.lock().get_or_insert(reason);
    }

    /// An order is done.
    pub(super) fn done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish();
        }
    }

    /// Ends it where it has taken too long; whether it is over.
    pub(super) fn tick(&self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= LONGEST {
            self.refused("it did not answer in time".to_owned());
            self.finish();
        }
        self.is_over.load(Ordering::Acquire)
    }

    /// Why it did not go, or not with all.
    pub(super) fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// Tells all subscribers where they go on; if no one can, the channel goes on here.
    fn finish(&self) {
        if self.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        let held = std::mem::take(&mut *self.held.lock());
        let stays = held.is_empty() && !self.subscriptions.is_empty();
        match stays {
            true => self.channel.go_on(),
            false => self.channel.is_gone(),
        }
        if stays && !self.is_last {
            return;
        }
        for subscription in &self.subscriptions {
            let ending = match stays {
                true => Ending::of(End::Stopping),
                false => self.moved(held.get(&subscription.id)),
            };
            let waker = subscription.share.lock().end(subscription.member, ending);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// The last word to a subscriber.
    fn moved(&self, held: Option<&HeldSubscription>) -> Ending {
        let mut jitter = [0; 2];
        // Without random numbers all come at the same time, which they survive.
        let _ = getrandom::fill(&mut jitter);
        let moved = Moved {
            channel: self.successor.uri(&self.path).into(),
            subscription: held.cloned(),
            retry: u16::from_le_bytes(jitter) % SPREAD,
        };
        Ending {
            moved: Some(Arc::new(moved)),
            ..Ending::of(End::Stopping)
        }
    }
}
