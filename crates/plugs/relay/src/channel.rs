//! A channel: messages that are numbered one by one, for the subscriptions of all workers.

mod mirror;
mod passing;
mod phase;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::relay::Position;
use hermes_proto::relay::fields::{Delivered, Publish};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout_at;

use crate::message::{Message, Part, cost};
use crate::queue::{Enqueued, MemberId, Room};
use crate::share::{Joining, Share};
pub(crate) use passing::LongHead;
use phase::Phase;
pub(crate) use phase::{NoRoom, Unpublished};

/// Messages with a publisher's own number that a channel remembers, to know one that is sent again.
#[doc(alias = "bound")]
const REMEMBERED: usize = 64;

/// One channel.
pub(crate) struct Channel {
    /// Its life: a channel that begins anew has another one.
    pub(crate) epoch: u32,
    /// Whether it is the channel of another relay, to which this node subscribes for others.
    pub(crate) is_mirror: bool,
    state: Mutex<State>,
    held: Arc<AtomicUsize>,
    /// Told when there may be room.
    room: Notify,
    /// Told when it takes messages again, or has gone elsewhere.
    changed: Notify,
    /// Publishers that wait for room.
    publishers: AtomicUsize,
    /// Publishers of the reliable mode, one after the other: none overtakes one that waits.
    turn: tokio::sync::Mutex<()>,
}

struct State {
    phase: Phase,
    /// The number of the last message.
    sequence: u64,
    shares: Vec<WorkerShare>,
    remembered: VecDeque<Remembered>,
    /// Whether a long message is under way: no other one comes between its pieces.
    is_passing: bool,
}

struct WorkerShare {
    worker: ThreadId,
    share: Arc<Mutex<Share>>,
}

/// A message that had a number of its publisher.
struct Remembered {
    publisher: Publisher,
    delivered: Delivered,
}

/// A publisher's own number for a message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Publisher {
    /// The user, or the source of a stranger.
    pub(crate) name: Arc<str>,
    pub(crate) sequence: u64,
}

/// A message that is to be published.
pub(crate) struct Draft {
    pub(crate) how: Publish,
    pub(crate) content_type: Option<Bytes>,
    pub(crate) data: Bytes,
    /// The proof of its sender.
    pub(crate) proof: Option<Bytes>,
    /// By whom, where it has a number of its publisher.
    pub(crate) publisher: Option<Publisher>,
}

impl Draft {
    /// Bytes that it is counted as where it waits.
    fn cost(&self) -> usize {
        cost(self.data.len() + self.proof.as_ref().map_or(0, Bytes::len))
    }
}

/// A subscription's place in a channel.
pub(crate) struct Joined {
    pub(crate) share: Arc<Mutex<Share>>,
    pub(crate) member: MemberId,
}

impl Channel {
    /// A channel that goes on behind this position.
    pub(crate) fn new(at: Position, held: Arc<AtomicUsize>) -> Self {
        Self {
            epoch: at.epoch,
            is_mirror: false,
            state: Mutex::new(State {
                phase: Phase::Here,
                sequence: at.sequence,
                shares: Vec::new(),
                remembered: VecDeque::new(),
                is_passing: false,
            }),
            held,
            room: Notify::new(),
            changed: Notify::new(),
            publishers: AtomicUsize::new(0),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    /// A subscription on this worker, from here on; `None` where the channel goes elsewhere.
    pub(crate) fn join(&self, joining: Joining, now: Instant) -> Option<Joined> {
        let worker = thread::current().id();
        let mut state = self.state.lock();
        if state.phase != Phase::Here {
            return None;
        }
        let known = state.shares.iter().find(|known| known.worker == worker);
        let share = match known {
            Some(known) => known.share.clone(),
            None => {
                let share = Arc::new(Mutex::new(Share::new(self.held.clone())));
                state.shares.push(WorkerShare {
                    worker,
                    share: share.clone(),
                });
                share
            }
        };
        // Messages are numbered with the state locked, so that the position is exactly where the subscription begins.
        let member = share.lock().join(joining, state.sequence, now);
        Some(Joined { share, member })
    }

    /// Publishes a message for all subscriptions; in the reliable mode for all or none.
    ///
    /// # Errors
    /// Some have no room, and the mode is the reliable one; or the channel goes elsewhere.
    pub(crate) fn publish(&self, draft: &Draft, now: Instant) -> Result<Delivered, Unpublished> {
        let mut state = self.state.lock();
        if let Some(known) = state.known(draft) {
            return Ok(known);
        }
        state.phase.takes_messages()?;
        if state.is_passing {
            return Err(Unpublished::Passing);
        }
        if draft.how.is_reliable {
            let room = state.check_room(state.sequence + 1, draft.cost());
            room.map_err(Unpublished::NoRoom)?;
        }

        state.sequence += 1;
        let max_age = draft.how.max_age.map(Duration::from_secs);
        let topic = draft.how.topic.clone();
        let message = Arc::new(Message {
            sequence: state.sequence,
            content_type: draft.content_type.clone(),
            topic: topic.map(Bytes::from),
            expires: max_age.and_then(|age| now.checked_add(age)),
            is_reliable: draft.how.is_reliable,
            proof: draft.proof.clone(),
            came: now,
            data: draft.data.clone(),
            part: Part::Whole,
        });
        let mut delivered = Delivered {
            is_exact: true,
            at: Some(Position {
                epoch: self.epoch,
                sequence: state.sequence,
            }),
            ..Delivered::default()
        };
        let room = match draft.how.is_reliable {
            true => Room::Checked,
            false => Room::Unknown,
        };
        let enqueued = state.push(&message, room);
        delivered.receivers = enqueued.receivers;
        delivered.enqueued = enqueued.enqueued;
        // The receivers of another relay may yet lose it there.
        delivered.is_exact = !enqueued.has_relays;
        delivered.dropped = delivered.receivers - delivered.enqueued;
        state.remember(draft, delivered);
        Ok(delivered)
    }

    /// Publishes a message, and waits until then for room where the mode asks for it.
    ///
    /// # Errors
    /// There is no room in time, or the channel has gone elsewhere: no one gets the message.
    pub(crate) async fn publish_by(
        &self,
        draft: &Draft,
        deadline: Instant,
    ) -> Result<Delivered, Unpublished> {
        loop {
            // It hears of the change from here on, also before it is polled.
            let changed = self.changed.notified();
            match self.publish_in_turn(draft, deadline).await {
                Err(Unpublished::Stopped) => changed.await,
                published => return published,
            }
        }
    }

    async fn publish_in_turn(
        &self,
        draft: &Draft,
        deadline: Instant,
    ) -> Result<Delivered, Unpublished> {
        if !draft.how.is_reliable {
            match self.publish(draft, Instant::now()) {
                // Its turn comes behind the long message.
                Err(Unpublished::Passing) => {}
                published => return published,
            }
        }
        let no_room = NoRoom {
            receivers: self.receivers(),
        };
        let turn = timeout_at(deadline.into(), self.turn.lock());
        let _turn = turn.await.map_err(|_| Unpublished::NoRoom(no_room))?;
        let _waiting = Waiting::begin(&self.publishers);
        loop {
            // It hears of room from here on, also before it is polled.
            let room = self.room.notified();
            match self.publish(draft, Instant::now()) {
                Err(Unpublished::NoRoom(no_room)) => timeout_at(deadline.into(), room)
                    .await
                    .map_err(|_| Unpublished::NoRoom(no_room))?,
                published => return published,
            }
        }
    }

    /// Takes no messages and no subscriptions from here on; the position of the last message. `None` if it is on its way already.
    pub(crate) fn stop(&self) -> Option<Position> {
        let mut state = self.state.lock();
        if state.phase != Phase::Here || self.is_mirror || state.is_passing {
            return None;
        }
        state.phase = Phase::Stopped;
        Some(Position {
            epoch: self.epoch,
            sequence: state.sequence,
        })
    }

    /// Whether it takes messages and subscriptions.
    pub(crate) fn is_here(&self) -> bool {
        self.state.lock().phase == Phase::Here
    }

    /// Takes messages again.
    pub(crate) fn go_on(&self) {
        self.enter(Phase::Here);
    }

    /// It is at another relay from now on.
    pub(crate) fn is_gone(&self) {
        self.enter(Phase::Gone);
    }

    fn enter(&self, phase: Phase) {
        self.state.lock().phase = phase;
        self.changed.notify_waiters();
    }

    /// Tells publishers who wait that there may be room.
    pub(crate) fn has_taken(&self) {
        if self.publishers.load(Ordering::Acquire) > 0 {
            self.room.notify_waiters();
        }
    }

    /// Whether a publisher waits for room.
    pub(crate) fn is_awaited(&self) -> bool {
        self.publishers.load(Ordering::Acquire) > 0
    }

    /// The number of its receivers, those of other relays among them.
    pub(crate) fn receivers(&self) -> u64 {
        let state = self.state.lock();
        let shares = state.shares.iter();
        shares
            .map(|known| known.share.lock().receivers().receivers)
            .sum()
    }

    /// Whether no one subscribes to it.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        let mut shares = state.shares.iter();
        shares.all(|known| known.share.lock().members() == 0)
    }
}

impl State {
    /// Adds a message for all, and wakes who waits for it.
    fn push(&self, message: &Arc<Message>, room: Room) -> Enqueued {
        let mut all = Enqueued::default();
        for known in &self.shares {
            let mut share = known.share.lock();
            let pushed = share.push(message, room);
            // The one that is woken takes this lock first.
            drop(share);
            if let Some(waker) = pushed.waker {
                waker.wake();
            }
            all.receivers += pushed.enqueued.receivers;
            all.enqueued += pushed.enqueued.enqueued;
            all.has_relays |= pushed.enqueued.has_relays;
        }
        all
    }

    fn check_room(&self, sequence: u64, cost: usize) -> Result<(), NoRoom> {
        let has_room = |known: &WorkerShare| known.share.lock().has_room(sequence, cost);
        if self.shares.iter().all(has_room) {
            return Ok(());
        }
        let shares = self.shares.iter();
        let receivers = shares.map(|known| known.share.lock().receivers().receivers);
        Err(NoRoom {
            receivers: receivers.sum(),
        })
    }

    /// The counts of a message that its publisher sent before.
    fn known(&self, draft: &Draft) -> Option<Delivered> {
        let publisher = draft.publisher.as_ref()?;
        let known = self
            .remembered
            .iter()
            .find(|known| known.publisher == *publisher);
        known.map(|known| known.delivered)
    }

    fn remember(&mut self, draft: &Draft, delivered: Delivered) {
        let Some(publisher) = draft.publisher.clone() else {
            return;
        };
        if self.remembered.len() >= REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back(Remembered {
            publisher,
            delivered,
        });
    }
}

/// Counts a publisher that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(publishers: &'a AtomicUsize) -> Self {
        publishers.fetch_add(1, Ordering::AcqRel);
        Self(publishers)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Account, OWNER};
    use crate::queue::{MemberBounds, Overflow};

    #[test]
    fn a_reliable_message_is_lost_for_no_member_where_one_owner_has_many() {
        let at = Position {
            epoch: 1,
            sequence: 0,
        };
        let channel = Channel::new(at, Arc::default());
        let owner = Arc::new(Account::new("user".into(), Arc::default()));
        let now = Instant::now();
        for _ in 0..100 {
            let bounds = MemberBounds {
                bytes: OWNER,
                overflow: Overflow::Newest,
            };
            let owner = owner.clone();
            assert!(channel.join(Joining { bounds, owner }, now).is_some());
        }
        let draft = Draft {
            how: Publish {
                is_reliable: true,
                ..Publish::default()
            },
            content_type: None,
            data: Bytes::from_static(&[0; 1000]),
            proof: None,
            publisher: None,
        };
        let mut published = 0;
        while let Ok(delivered) = channel.publish(&draft, now) {
            assert_eq!(delivered.enqueued, 100);
            published += 1;
        }
        // The room of the owner ends it, not one of the queues.
        assert_eq!(published, OWNER / cost(1000) / 100 + 1);
    }
}
