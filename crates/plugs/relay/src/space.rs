//! All channels and subscriptions of a node, and their bounds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_proto::relay::Position;
use parking_lot::Mutex;

use crate::account::Account;
use crate::certified::Certified;
use crate::channel::Channel;
use crate::moves::{Moves, Stopped};
use crate::settings::Rules;
use crate::share::Joining;
use crate::subscription::{Fate, Subscription, Times};

/// Subscriptions of a node: each holds a stream of its own.
#[doc(alias = "bound")]
pub(crate) const SUBSCRIPTIONS: usize = 100_000;

/// The channels of a node. They stay over changes of the configuration.
#[derive(Default)]
pub(crate) struct Space {
    tables: Mutex<Tables>,
    /// Bytes of messages that wait, and of those that are being received.
    pub(crate) held: Arc<AtomicUsize>,
    pub(crate) counts: Counts,
    /// Its way to another relay.
    pub(crate) moves: Moves,
    pub(crate) certified: Certified,
}

/// What a node has done.
#[derive(Default)]
pub(crate) struct Counts {
    /// Messages that were published.
    pub(crate) published: AtomicU64,
    /// Those that were put into queues.
    pub(crate) enqueued: AtomicU64,
    /// Those that were lost for someone.
    pub(crate) dropped: AtomicU64,
}

#[derive(Default)]
struct Tables {
    channels: HashMap<Arc<str>, Arc<Channel>>,
    subscriptions: HashMap<Arc<str>, Arc<Subscription>>,
    /// Owners who have something.
    owners: HashMap<Arc<str>, Weak<Account>>,
}

/// Who subscribes, and to what.
pub(crate) struct Asking<'a> {
    /// The key of the channel.
    pub(crate) key: &'a str,
    /// The account of the user, or of the source of a stranger.
    pub(crate) owner: &'a Arc<Account>,
    /// The user.
    pub(crate) user: Option<&'a str>,
    pub(crate) rules: &'a Arc<Rules>,
    /// The channel, where it is that of another relay.
    pub(crate) mirror: Option<&'a Arc<Channel>>,
    /// The position of another relay at which the channel begins, if it is not there yet.
    pub(crate) begins: Option<Position>,
}

/// No further subscription is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The owner has as many as it may.
    Owner(usize),
    /// The node has.
    Node,
    /// The system gives no random numbers, so that no one can be given a name.
    NoName,
    /// The channel is on its way to another relay.
    Moved,
}

impl Space {
    /// Begins a subscription, and its channel if it is the first.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn subscribe(
        &self,
        asking: &Asking<'_>,
        expires: Instant,
        now: Instant,
    ) -> Result<Arc<Subscription>, Full> {
        let names = (random::<16>(), random());
        let (Some(id), Some(epoch)) = names else {
            return Err(Full::NoName);
        };
        let mut tables = self.tables.lock();
        if tables.subscriptions.len() >= SUBSCRIPTIONS {
            return Err(Full::Node);
        }
        let owned = asking.owner.subscriptions();
        if owned >= asking.rules.subscriptions {
            return Err(Full::Owner(owned));
        }

        let key: Arc<str> = asking.key.into();
        let channel = match asking.mirror {
            Some(mirror) => mirror.clone(),
            None => {
                let channel = tables.channels.entry(key.clone());
                let anew = Position {
                    epoch: u32::from_le_bytes(epoch),
                    sequence: 0,
                };
                let begin = || {
                    let at = asking.begins.unwrap_or(anew);
                    Arc::new(Channel::new(at, self.held.clone()))
                };
                channel.or_insert_with(begin).clone()
            }
        };
        let joining = Joining {
            bounds: asking.rules.queue,
            owner: asking.owner.clone(),
        };
        let joined = channel.join(joining, now).ok_or(Full::Moved)?;
        // Only ever changed with the tables locked.
        asking.owner.subscribes();
        let id: Arc<str> = URL_SAFE_NO_PAD.encode(id).into();
        let subscription = Arc::new(Subscription {
            id: id.clone(),
            owner: asking.owner.clone(),
            user: asking.user.map(str::to_owned),
            key,
            channel,
            share: joined.share,
            member: joined.member,
            rules: asking.rules.clone(),
            times: Mutex::new(Times::until(expires)),
            opener: Mutex::new(None),
            begun: asking.begins,
        });
        tables.subscriptions.insert(id, subscription.clone());
        Ok(subscription)
    }

    /// The channel of this key, if someone has subscribed to it.
    pub(crate) fn channel(&self, key: &str) -> Option<Arc<Channel>> {
        self.tables.lock().channels.get(key).cloned()
    }

    /// The subscription of this name, if it is the user's and of this channel.
    pub(crate) fn subscription(&self, id: &str, asking: &Asking<'_>) -> Option<Arc<Subscription>> {
        let tables = self.tables.lock();
        let found = tables.subscriptions.get(id)?;
        let is_its = found.user.as_deref() == asking.user && *found.key == *asking.key;
        is_its.then(|| found.clone())
    }

    /// A subscription is over.
    pub(crate) fn remove(&self, subscription: &Subscription) {
        let mut tables = self.tables.lock();
        if tables.subscriptions.remove(&subscription.id).is_none() {
            return;
        }
        subscription.owner.leaves();
        subscription.share.lock().leave(subscription.member);
        // Joining is done with the tables locked, so that a channel does not lose a subscription that begins now.
        if subscription.channel.is_empty() && !subscription.channel.is_mirror {
            tables.channels.remove(&subscription.key);
        }
        drop(tables);
        subscription.channel.has_taken();
    }

    /// Looks at the clock.
    pub(crate) fn tick(&self, now: Instant) {
        let mut tables = self.tables.lock();
        tables
            .owners
            .retain(|_, account| account.strong_count() > 0);
        let all: Vec<_> = tables.subscriptions.values().cloned().collect();
        drop(tables);
        for subscription in all {
            if subscription.tick(now) == Fate::Gone {
                self.remove(&subscription);
            }
        }
        self.certified.tick();
        self.moves.tick(now, |most| self.stop_channels(most));
    }

    /// Stops so many channels, which are to go to another relay, with all who subscribe to them.
    fn stop_channels(&self, most: usize) -> Vec<Stopped> {
        let tables = self.tables.lock();
        let mut stopped: HashMap<*const Channel, Stopped> = HashMap::new();
        for (key, channel) in &tables.channels {
            if stopped.len() >= most {
                break;
            }
            let Some(at) = channel.stop() else {
                continue;
            };
            let one = Stopped {
                key: key.clone(),
                channel: channel.clone(),
                at,
                subscriptions: Vec::new(),
            };
            stopped.insert(Arc::as_ptr(channel), one);
        }
        if stopped.is_empty() {
            return Vec::new();
        }
        for subscription in tables.subscriptions.values() {
            let channel = stopped.get_mut(&Arc::as_ptr(&subscription.channel));
            if let Some(channel) = channel {
                channel.subscriptions.push(subscription.clone());
            }
        }
        stopped.into_values().collect()
    }

    /// The account of an owner.
    pub(crate) fn account(&self, name: &str) -> Arc<Account> {
        let mut tables = self.tables.lock();
        let known = tables.owners.get(name).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let name: Arc<str> = name.into();
            let account = Arc::new(Account::new(name.clone(), self.held.clone()));
            tables.owners.insert(name, Arc::downgrade(&account));
            account
        })
    }

    /// Channels and subscriptions.
    pub(crate) fn sizes(&self) -> Sizes {
        let tables = self.tables.lock();
        Sizes {
            channels: tables.channels.len(),
            subscriptions: tables.subscriptions.len(),
        }
    }
}

/// The size of a space.
pub(crate) struct Sizes {
    pub(crate) channels: usize,
    pub(crate) subscriptions: usize,
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}
