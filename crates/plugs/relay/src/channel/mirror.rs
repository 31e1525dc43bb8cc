//! A channel of another relay, whose messages come from there: they keep their numbers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use bytes::Bytes;
use hermes_proto::relay::{Adu, AduPiece, Gap, Position};
use tokio::time::timeout_at;

use super::passing::piece;
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
        if adu.is_reliable && self.wait_for_room(&adu, deadline).await {
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

    /// A long message has begun to come from there: its first piece, for which those who take pieces have room in time. Whether it goes on here.
    pub(crate) async fn begin_long(&self, adu: Adu, deadline: Instant) -> bool {
        if !self.is_next(adu.sequence) {
            return false;
        }
        let data = Bytes::copy_from_slice(&adu.data);
        let first = Message {
            content_type: adu.content_type,
            topic: adu.topic,
            ..piece(adu.sequence, Part::First, data)
        };
        // Those who take none hear of the loss, whether the others have room or not.
        let goes_on = self.wait_for_room_of(&first, deadline).await;
        self.state.lock().push_piece(&Arc::new(first));
        if !goes_on {
            self.abort_long(adu.sequence);
        }
        goes_on
    }

    /// Whether a message is none that is here already; from now on it is.
    fn is_next(&self, sequence: u64) -> bool {
        let mut state = self.state.lock();
        let is_next = sequence > state.sequence;
        state.sequence = state.sequence.max(sequence);
        is_next
    }

    /// A further piece of it has come. Whether it goes on: where someone has no room for it in time, it is lost for all, as at the relay.
    pub(crate) async fn go_on_long(&self, more: &AduPiece, deadline: Instant) -> bool {
        let part = match more.is_last {
            true => Part::Last,
            false => Part::Further,
        };
        let further = piece(more.sequence, part, Bytes::copy_from_slice(&more.data));
        if !self.wait_for_room_of(&further, deadline).await {
            self.abort_long(more.sequence);
            return false;
        }
        self.state.lock().push_piece(&Arc::new(further));
        !more.is_last
    }

    /// Its further pieces do not come.
    pub(crate) fn abort_long(&self, sequence: u64) {
        let abort = piece(sequence, Part::Abort, Bytes::new());
        self.state.lock().push_piece(&Arc::new(abort));
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
    async fn wait_for_room(&self, adu: &Adu, deadline: Instant) -> bool {
        let cost = adu_cost(adu);
        let has_room = || self.state.lock().check_room(adu.sequence, cost).is_ok();
        self.wait_until(deadline, has_room).await
    }

    /// Whether all who are to get this piece have room in time.
    async fn wait_for_room_of(&self, piece: &Message, deadline: Instant) -> bool {
        self.wait_until(deadline, || self.state.lock().has_room_for(piece))
            .await
    }

    async fn wait_until(&self, deadline: Instant, has_room: impl Fn() -> bool) -> bool {
        let _waiting = Waiting::begin(&self.publishers);
        loop {
            // It hears of room from here on, also before it is polled.
            let room = self.room.notified();
            if has_room() {
                return true;
            }
            // A receiver that held it up for so long loses the message, and the clock ends it for that.
            if timeout_at(deadline.into(), room).await.is_err() {
                return false;
            }
        }
    }
}
