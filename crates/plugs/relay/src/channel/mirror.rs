//! A channel of another relay, whose messages come from there: they keep their numbers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use bytes::Bytes;
use hermes_proto::relay::{Adu, Gap, Position};
use tokio::time::timeout_at;

use super::{Channel, Waiting};
use crate::message::{Message, Part, cost};
use crate::queue::Room;
use crate::share::Ending;

/// Bytes that a message is counted as where it waits.
fn adu_cost(adu: &Adu) -> usize {
    cost(adu.data.len() + adu.proof.as_ref().map_or(0, Bytes::len))
}

impl Channel {
    /// The channel of another relay, from this position on.
    pub(crate) fn mirror(at: Position, held: Arc<AtomicUsize>) -> Self {
        let mut channel = Self::new(at, held);
        channel.is_mirror = true;
        channel
    }

    /// The number of the last message that came from there.
    pub(crate) fn sequence(&self) -> u64 {
        self.state.lock().sequence
    }

    /// A message has come from there. One that must not be lost waits until then for receivers without room.
    pub(crate) async fn take_over(&self, adu: Adu, deadline: Instant) {
        let mut room = Room::Unknown;
        if adu.is_reliable && self.wait_for_room(adu_cost(&adu), deadline).await {
            room = Room::Checked;
        }
        let mut state = self.state.lock();
        // A stream that came anew may begin with one that is here already.
        if adu.sequence <= state.sequence {
            return;
        }
        state.sequence = adu.sequence;
        let message = Arc::new(Message {
            sequence: adu.sequence,
            content_type: adu.content_type,
            topic: adu.topic,
            expires: None,
            is_reliable: adu.is_reliable,
            proof: adu.proof.map(|proof| Bytes::copy_from_slice(&proof)),
            came: Instant::now(),
            // The content shares memory with the others of its piece, and a slow reader must not keep those.
            data: Bytes::copy_from_slice(&adu.data),
            part: Part::Whole,
        });
        state.push(&message, room);
    }

    /// Messages were lost on the way from there: all hear of it.
    pub(crate) fn lose(&self, gap: Gap) {
        let state = self.state.lock();
        for known in &state.shares {
            let waker = known.share.lock().lose(gap);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Ends all its subscriptions, behind the messages that wait for them.
    pub(crate) fn end(&self, ending: &Ending) {
        let state = self.state.lock();
        for known in &state.shares {
            let wakers = known.share.lock().end_all(ending);
            for waker in wakers {
                waker.wake();
            }
        }
    }

    /// Whether all have room in time.
    async fn wait_for_room(&self, cost: usize, deadline: Instant) -> bool {
        let _waiting = Waiting::begin(&self.publishers);
        loop {
            // It hears of room from here on, also before it is polled.
            let room = self.room.notified();
            if self.state.lock().check_room(cost).is_ok() {
                return true;
            }
            // A receiver that held it up for so long loses the message, and the clock ends it for that.
            if timeout_at(deadline.into(), room).await.is_err() {
                return false;
            }
        }
    }
}
