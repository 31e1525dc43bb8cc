//! The keys of one session, for both directions, and how long they may be used (section 6.2).

use std::time::{Duration, Instant};

use snow::StatelessTransportState;

use crate::message::{Data, HEADER, TAG, data_header};
use crate::replay::ReplayWindow;

/// Messages after which new keys are negotiated.
const REKEY_AFTER_MESSAGES: u64 = 1 << 60;

/// Messages after which the keys are not used any more.
const REJECT_AFTER_MESSAGES: u64 = u64::MAX - (1 << 13);

/// Age at which the initiator negotiates new keys when it sends.
const REKEY_AFTER_TIME: Duration = Duration::from_secs(120);

/// Age at which keys are not used any more.
pub(crate) const REJECT_AFTER_TIME: Duration = Duration::from_secs(180);

/// Age at which the initiator negotiates new keys when it receives, so that they are ready in time.
const REKEY_AFTER_RECEIVING: Duration = Duration::from_secs(165);

/// Packets are filled up to a multiple of this, so that their length says less.
const BLOCK: usize = 16;

/// The keys of one session.
pub(crate) struct Transport {
    keys: StatelessTransportState,
    /// The index under which the peer sends.
    pub(crate) local: u32,
    /// The index under which it receives.
    remote: u32,
    made: Instant,
    is_initiator: bool,
    /// The number of the next message.
    next: u64,
    window: ReplayWindow,
    /// The packet to seal, with its padding.
    room: Vec<u8>,
}

/// The indices of a session at both ends, and the role of this one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransportEnds {
    pub(crate) local: u32,
    pub(crate) remote: u32,
    pub(crate) is_initiator: bool,
}

/// Why a message with data does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// Its number was seen, or is too old.
    Replayed,
    /// The message was not sealed with these keys.
    Forged,
    /// The keys are too old, or were used too often.
    Expired,
}

impl Transport {
    pub(crate) fn new(keys: StatelessTransportState, ends: TransportEnds, now: Instant) -> Self {
        Self {
            keys,
            local: ends.local,
            remote: ends.remote,
            made: now,
            is_initiator: ends.is_initiator,
            next: 0,
            window: ReplayWindow::default(),
            room: Vec::new(),
        }
    }

    /// Whether messages may still be sent with the keys.
    pub(crate) fn may_send(&self, now: Instant) -> bool {
        self.next < REJECT_AFTER_MESSAGES && self.is_young(REJECT_AFTER_TIME, now)
    }

    /// Whether to negotiate new keys after sending.
    pub(crate) fn is_used_up(&self, now: Instant) -> bool {
        let is_old = self.is_initiator && !self.is_young(REKEY_AFTER_TIME, now);
        is_old || self.next > REKEY_AFTER_MESSAGES
    }

    /// Whether to negotiate new keys after receiving.
    pub(crate) fn is_nearly_over(&self, now: Instant) -> bool {
        self.is_initiator && !self.is_young(REKEY_AFTER_RECEIVING, now)
    }

    fn is_young(&self, limit: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.made) < limit
    }

    /// Appends the message with a packet, which is filled up to at most `mtu` bytes; false: it could not be sealed.
    pub(crate) fn seal(&mut self, packet: &[u8], mtu: usize, out: &mut Vec<u8>) -> bool {
        // Section 5.4.6: padded to 16 bytes, but never beyond the MTU, where padding would need a fragment.
        let filled = packet.len().next_multiple_of(BLOCK);
        let filled = filled.min(mtu).max(packet.len());
        self.room.clear();
        self.room.extend_from_slice(packet);
        self.room.resize(filled, 0);

        let begin = out.len();
        // The number is the nonce: it is spent even when sealing fails, as no nonce may ever serve twice.
        let number = self.next;
        self.next += 1;
        out.extend_from_slice(&data_header(self.remote, number));
        out.resize(begin + HEADER + filled + TAG, 0);
        let sealed = &mut out[begin + HEADER..];
        let is_sealed = self.keys.write_message(number, &self.room, sealed).is_ok();
        // A batch in `out` must not end in half a message.
        if !is_sealed {
            out.truncate(begin);
        }
        is_sealed
    }

    /// Opens a message into `room`, which takes the length of its content.
    pub(crate) fn open(
        &mut self,
        data: &Data<'_>,
        room: &mut Vec<u8>,
        now: Instant,
    ) -> Result<(), NotOpened> {
        if data.number >= REJECT_AFTER_MESSAGES || !self.is_young(REJECT_AFTER_TIME, now) {
            return Err(NotOpened::Expired);
        }
        // Before the cipher, as this is cheaper; noted only behind it, or forgeries could use numbers up.
        if !self.window.is_new(data.number) {
            return Err(NotOpened::Replayed);
        }

        room.resize(data.sealed.len(), 0);
        let opened = self.keys.read_message(data.number, data.sealed, room);
        let length = opened.map_err(|_| NotOpened::Forged)?;
        room.truncate(length);
        self.window.note(data.number);
        Ok(())
    }
}
