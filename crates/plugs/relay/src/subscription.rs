//! A subscription: a resource that outlives its stream for a while, so that its subscriber can come again.

use std::sync::Arc;
use std::time::Instant;

use hermes_plug::Opener;
use hermes_proto::relay::{End, Gap, GapReason, Position, Stripe};
use parking_lot::Mutex;

use crate::account::Account;
use crate::channel::Channel;
use crate::queue::MemberId;
use crate::settings::Rules;
use crate::share::{Ending, Share};

/// One subscription.
pub(crate) struct Subscription {
    /// Its name: who knows it and is its user may change it.
    pub(crate) id: Arc<str>,
    /// The account that it counts for.
    pub(crate) owner: Arc<Account>,
    /// Whose it is; `None` without authentication.
    pub(crate) user: Option<String>,
    /// The key of its channel.
    pub(crate) key: Arc<str>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) share: Arc<Mutex<Share>>,
    pub(crate) member: MemberId,
    /// The rules of the route by which it came.
    pub(crate) rules: Arc<Rules>,
    pub(crate) times: Mutex<Times>,
    /// The way to another relay, where one is to take over.
    pub(crate) opener: Mutex<Option<Opener>>,
    /// The position of another relay at which it began.
    pub(crate) begun: Option<Position>,
}

/// The times by which a subscription ends.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// The end, unless it is asked for anew.
    expires: Instant,
    /// Since when it has no stream.
    away_since: Option<Instant>,
}

/// Whether a subscription goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Stays,
    /// It has no stream, and no one came again in time.
    Gone,
}

impl Times {
    /// Those of a subscription that begins with its stream.
    pub(crate) fn until(expires: Instant) -> Self {
        Self {
            expires,
            away_since: None,
        }
    }
}

impl Subscription {
    /// Lasts until then.
    pub(crate) fn renew(&self, expires: Instant) {
        self.times.lock().expires = expires;
    }

    /// Its subscriber is a relay, which has told how many receivers it has.
    pub(crate) fn weigh(&self, receivers: u64) {
        self.share.lock().weigh(self.member, receivers);
    }

    /// Whether its stream takes long messages, in pieces.
    pub(crate) fn takes_pieces(&self, takes: bool) {
        self.share.lock().takes_pieces(self.member, takes);
    }

    /// Gets a share of the messages alone, or all.
    pub(crate) fn stripe(&self, stripe: Option<Stripe>) {
        self.share.lock().stripe(self.member, stripe);
    }

    /// A stream takes it; its number, unless the subscription is over.
    pub(crate) fn attach(&self) -> Option<u64> {
        self.times.lock().away_since = None;
        self.share.lock().take_place(self.member)
    }

    /// Its stream broke off.
    pub(crate) fn detach(&self, stream: u64, now: Instant) {
        if self.share.lock().is_current(self.member, stream) {
            self.times.lock().away_since = Some(now);
        }
    }

    /// Says to the next stream which messages of its share the subscriber has missed, whose last one was `from`; whether it has missed none.
    pub(crate) fn recover(&self, from: Option<Position>, stripe: Option<Stripe>) -> bool {
        let mut share = self.share.lock();
        let Some(sent) = share.position(self.member) else {
            return false;
        };
        let Some(from) = from else {
            return true;
        };
        // One that comes from another relay may count as that one did, where the channel was here already in a life of its own. In the same life,
        // the numbers of its messages go on.
        let own = self.channel.epoch;
        let begun = self.begun.filter(|begun| begun.epoch != own);
        let gap = match begun.filter(|begun| begun.epoch == from.epoch) {
            Some(begun) => missed(from, begun, stripe),
            None => missed(
                from,
                Position {
                    epoch: own,
                    sequence: sent,
                },
                stripe,
            ),
        };
        if let Some(gap) = gap {
            share.tell(self.member, gap);
        }
        gap.is_none()
    }

    /// Looks at the clock: ends what has lasted long enough, and has signs of life sent.
    pub(crate) fn tick(&self, now: Instant) -> Fate {
        let times = *self.times.lock();
        let Times {
            expires,
            away_since,
        } = times;
        let gone = |since: Instant| now.saturating_duration_since(since) >= self.rules.grace;
        if away_since.is_some_and(gone) {
            return Fate::Gone;
        }

        let mut share = self.share.lock();
        let waker = if now >= expires {
            share.end(self.member, Ending::of(End::Timeout))
        } else if let Some(ending) = self.lagging(&share, now) {
            share.end(self.member, ending)
        } else {
            let since = now.checked_sub(self.rules.heartbeat);
            since.and_then(|since| share.beat(self.member, since))
        };
        drop(share);
        if let Some(waker) = waker {
            waker.wake();
        }
        // Without a stream no one takes the last word.
        match now >= expires && away_since.is_some() {
            true => Fate::Gone,
            false => Fate::Stays,
        }
    }

    /// The end of a subscription that holds up a publisher for too long.
    fn lagging(&self, share: &Share, now: Instant) -> Option<Ending> {
        let since = share.waits_since(self.member)?;
        let waits = now.saturating_duration_since(since);
        if waits < self.rules.lag || !self.channel.is_awaited() {
            return None;
        }
        let bytes = share.waiting_bytes(self.member);
        Some(Ending {
            reason: End::Lagging,
            text: format!("{bytes} bytes wait, the first for {} s", waits.as_secs()),
            moved: None,
        })
    }
}

impl Ending {
    pub(crate) fn of(reason: End) -> Self {
        Self {
            reason,
            text: String::new(),
            moved: None,
        }
    }
}

/// The messages that a subscriber misses whose last one was `from`, if the channel goes on at this position: all, or those of a share.
pub(crate) fn missed(from: Position, at: Position, stripe: Option<Stripe>) -> Option<Gap> {
    if from.epoch != at.epoch || from.sequence > at.sequence {
        return Some(Gap {
            count: 0,
            reason: GapReason::Restarted,
        });
    }
    let count = match stripe {
        Some(stripe) => stripe.count(from.sequence, at.sequence),
        None => at.sequence - from.sequence,
    };
    (count > 0).then_some(Gap {
        count,
        reason: GapReason::Away,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_hears_of_the_messages_that_it_missed() {
        let from = |epoch, sequence| Position { epoch, sequence };
        assert_eq!(missed(from(1, 5), from(1, 5), None), None);
        let gap = missed(from(1, 5), from(1, 8), None).unwrap();
        assert_eq!((gap.count, gap.reason), (3, GapReason::Away));
        let gap = missed(from(2, 5), from(1, 8), None).unwrap();
        assert_eq!((gap.count, gap.reason), (0, GapReason::Restarted));
        assert!(missed(from(1, 9), from(1, 8), None).is_some());
        let odd = "1/2".parse().ok();
        let gap = missed(from(1, 5), from(1, 8), odd).unwrap();
        assert_eq!(gap.count, 1);
        assert_eq!(missed(from(1, 7), from(1, 8), odd), None);
    }
}
