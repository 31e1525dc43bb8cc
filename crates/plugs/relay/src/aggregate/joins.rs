//! The subscriptions at relays that subscribers of this node share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::upstream::UpstreamRefusal;
use crate::channel::Channel;

/// All of a node.
#[derive(Default)]
pub(crate) struct Joins {
    slots: Mutex<HashMap<Arc<str>, Arc<Slot>>>,
}

/// The place of one of them. While it is locked, one subscriber asks the relay, and the others wait for what it hears.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) join: tokio::sync::Mutex<Option<Arc<Join>>>,
}

/// A subscription at a relay.
pub(super) struct Join {
    /// The relay's channel, as it is here.
    pub(super) channel: Arc<Channel>,
    /// Subscribers that are coming.
    coming: AtomicUsize,
    commands: mpsc::Sender<Command>,
    expires: Mutex<Instant>,
}

/// A wish of a subscriber about the subscription at the relay.
pub(super) struct Command {
    /// How long it is to last.
    pub(super) lasts: Duration,
    pub(super) answer: oneshot::Sender<Result<Duration, UpstreamRefusal>>,
}

/// A subscriber that is coming, until this is dropped.
pub(super) struct Coming(Arc<Join>);

impl Joins {
    /// The place of a channel and class.
    pub(super) fn slot(&self, key: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(key) {
            return slot.clone();
        }
        let slot = Arc::<Slot>::default();
        slots.insert(key.into(), slot.clone());
        slot
    }

    /// Drops places that no one has.
    pub(crate) fn tick(&self) {
        self.slots.lock().retain(|_, slot| {
            let is_empty = || {
                let join = slot.join.try_lock();
                join.is_ok_and(|join| join.as_ref().is_none_or(|join| join.is_over()))
            };
            Arc::strong_count(slot) > 1 || !is_empty()
        });
    }

    /// Subscriptions at relays.
    pub(crate) fn len(&self) -> usize {
        let slots = self.slots.lock();
        let alive = slots.values().filter(|slot| {
            let join = slot.join.try_lock();
            join.is_ok_and(|join| join.as_ref().is_some_and(|join| !join.is_over()))
        });
        alive.count()
    }
}

impl Join {
    pub(super) fn new(
        channel: Arc<Channel>,
        commands: mpsc::Sender<Command>,
        expires: Instant,
    ) -> Self {
        Self {
            channel,
            coming: AtomicUsize::new(0),
            commands,
            expires: Mutex::new(expires),
        }
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        self.commands.is_closed()
    }

    /// A subscriber is coming. Called with the slot locked, as [`Self::is_idle`].
    pub(super) fn comes(self: &Arc<Self>) -> Coming {
        self.coming.fetch_add(1, Ordering::AcqRel);
        Coming(self.clone())
    }

    /// Whether no one has it, and no one is coming.
    pub(super) fn is_idle(&self) -> bool {
        self.coming.load(Ordering::Acquire) == 0 && self.channel.is_empty()
    }

    /// Has it last so long from now on. `is_asked`: the subscriber wants it so, rather than the settings of this node.
    ///
    /// # Errors
    /// The relay refuses a time that was asked for.
    pub(super) async fn lengthen(
        &self,
        lasts: Duration,
        is_asked: bool,
    ) -> Result<(), UpstreamRefusal> {
        let expires = Instant::now() + lasts;
        // Seconds are told, so that one less is the same.
        if *self.expires.lock() + Duration::from_secs(1) >= expires {
            return Ok(());
        }
        let (answer, answered) = oneshot::channel();
        let asked = self.commands.send(Command { lasts, answer }).await;
        match (asked, answered.await) {
            (Ok(()), Ok(Ok(lasts))) => {
                let mut known = self.expires.lock();
                *known = (*known).max(Instant::now() + lasts);
                Ok(())
            }
            (Ok(()), Ok(Err(refused))) if is_asked => Err(refused),
            // It lasts as long as it does: what is over is said to its subscribers.
            _ => Ok(()),
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.coming.fetch_sub(1, Ordering::AcqRel);
    }
}
