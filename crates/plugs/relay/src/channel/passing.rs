//! A long message, which passes piece by piece and is never whole here.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hermes_proto::relay::Position;
use hermes_proto::relay::fields::Delivered;
use tokio::sync::MutexGuard;
use tokio::time::timeout_at;

use super::{Channel, NoRoom, State, Unpublished, Waiting};
use crate::message::{Message, Part};
use crate::queue::Enqueued;

/// The labels of a long message.
pub(crate) struct LongHead {
    pub(crate) content_type: Option<Bytes>,
    pub(crate) topic: Option<Bytes>,
}

/// A long message under way. One that is dropped before its last piece is aborted: its receivers are told.
pub(crate) struct Passing<'a> {
    channel: &'a Channel,
    sequence: u64,
    is_whole: bool,
    delivered: Delivered,
    _turn: MutexGuard<'a, ()>,
    _waiting: Waiting<'a>,
}

impl Channel {
    /// Begins a long message, in turn and once those who take pieces have room for the first.
    ///
    /// # Errors
    /// They have none in time, or the channel goes elsewhere.
    pub(crate) async fn pass(
        &self,
        head: LongHead,
        first: Bytes,
        deadline: Instant,
    ) -> Result<Passing<'_>, Unpublished> {
        let no_room = NoRoom {
            receivers: self.receivers(),
        };
        let turn = timeout_at(deadline.into(), self.turn.lock());
        let turn = turn.await.map_err(|_| Unpublished::NoRoom(no_room))?;
        let waiting = Waiting::begin(&self.publishers);
        let mut message = piece(0, Part::First, first);
        message.content_type = head.content_type;
        message.topic = head.topic;
        loop {
            // It hears of room from here on, also before it is polled.
            let room = self.room.notified();
            if let Some(delivered) = self.begin_passing(&mut message)? {
                return Ok(Passing {
                    channel: self,
                    sequence: message.sequence,
                    is_whole: false,
                    delivered,
                    _turn: turn,
                    _waiting: waiting,
                });
            }
            let in_time = timeout_at(deadline.into(), room).await;
            in_time.map_err(|_| Unpublished::NoRoom(no_room))?;
        }
    }

    /// Numbers it, and adds its first piece; `None` without room.
    fn begin_passing(&self, first: &mut Message) -> Result<Option<Delivered>, Unpublished> {
        let mut state = self.state.lock();
        state.phase.takes_messages()?;
        if !state.has_room_for(first) {
            return Ok(None);
        }
        state.sequence += 1;
        state.is_passing = true;
        first.sequence = state.sequence;
        let enqueued = state.push_piece(&Arc::new(first.clone()));
        Ok(Some(Delivered {
            receivers: enqueued.receivers,
            enqueued: enqueued.enqueued,
            dropped: enqueued.receivers - enqueued.enqueued,
            is_exact: !enqueued.has_relays,
            at: Some(Position {
                epoch: self.epoch,
                sequence: state.sequence,
            }),
        }))
    }
}

impl Passing<'_> {
    /// Passes a further piece on, once those who follow have room for it.
    ///
    /// # Errors
    /// They have none in time.
    pub(crate) async fn further(&self, data: Bytes, deadline: Instant) -> Result<(), NoRoom> {
        self.piece(Part::Further, data, deadline).await
    }

    /// Ends the message.
    ///
    /// # Errors
    /// Someone who follows has no room in time.
    pub(crate) async fn finish(mut self, deadline: Instant) -> Result<Delivered, NoRoom> {
        self.piece(Part::Last, Bytes::new(), deadline).await?;
        self.is_whole = true;
        Ok(self.delivered)
    }

    async fn piece(&self, part: Part, data: Bytes, deadline: Instant) -> Result<(), NoRoom> {
        let message = Arc::new(piece(self.sequence, part, data));
        loop {
            let room = self.channel.room.notified();
            if self.push_with_room(&message) {
                return Ok(());
            }
            let in_time = timeout_at(deadline.into(), room).await;
            in_time.map_err(|_| NoRoom {
                receivers: self.delivered.receivers,
            })?;
        }
    }

    fn push_with_room(&self, message: &Arc<Message>) -> bool {
        let state = self.channel.state.lock();
        let has_room = state.has_room_for(message);
        if has_room {
            state.push_piece(message);
        }
        has_room
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        let mut state = self.channel.state.lock();
        state.is_passing = false;
        if !self.is_whole {
            let abort = piece(self.sequence, Part::Abort, Bytes::new());
            state.push_piece(&Arc::new(abort));
        }
    }
}

impl State {
    pub(super) fn has_room_for(&self, piece: &Message) -> bool {
        let mut shares = self.shares.iter();
        shares.all(|known| known.share.lock().has_room_for(piece))
    }

    /// Adds a piece for those who follow, and wakes them.
    pub(super) fn push_piece(&self, piece: &Arc<Message>) -> Enqueued {
        let mut all = Enqueued::default();
        for known in &self.shares {
            let pushed = known.share.lock().push_piece(piece);
            if let Some(waker) = pushed.waker {
                waker.wake();
            }
            all.receivers += pushed.enqueued.receivers;
            all.enqueued += pushed.enqueued.enqueued;
            all.has_relays |= pushed.enqueued.has_relays;
        }
        all
    }
}

pub(super) fn piece(sequence: u64, part: Part, data: Bytes) -> Message {
    Message {
        sequence,
        content_type: None,
        topic: None,
        expires: None,
        is_reliable: true,
        proof: None,
        came: Instant::now(),
        data,
        part,
    }
}
