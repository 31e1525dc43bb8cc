//! The frames of a datagram for a neighbour: control first, then questions, then answers as far as there is room.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hermes_noise::TAG;
use hermes_proto::custody::{
    CustodyFrame, MAX_CUSTODY_DATAGRAM, ObjectId, ObjectPart, PACKET_HEADER,
};

use super::Neighbour;
use super::keys::fraction;
use crate::room::Room;
use crate::window::PIECE;

/// Bytes of frames in a datagram.
const ROOM: usize = MAX_CUSTODY_DATAGRAM - PACKET_HEADER - TAG;

/// Room for any frame but DATA, in bytes.
const FRAME: usize = 70;

/// Room for the fields of DATA beside its bytes: a name, four numbers, a length and two bytes.
const FIELDS: usize = 17 + 4 * 8 + 2 + 2;

const _: () = assert!(ROOM >= FIELDS + PIECE as usize);

/// REQs in one datagram: a loss of it should not stop everything.
const ASKS: usize = 8;

impl Neighbour {
    /// The next datagram under the keys in use, if there is anything to say.
    pub(super) fn poll_frames(
        &mut self,
        draw: &mut dyn FnMut() -> u64,
        room: Room,
        now: Instant,
    ) -> Option<Bytes> {
        self.keys.current()?;
        let mut frames = BytesMut::with_capacity(ROOM);
        // Control first: an address is not validated as long as its challenge waits.
        while ROOM - frames.len() >= FRAME {
            let Some(frame) = self.control.pop_front() else {
                break;
            };
            frame.encode(&mut frames);
        }

        self.fill_asks(&mut frames, draw, room, now);
        self.fill_replies(&mut frames);
        if frames.is_empty() {
            return None;
        }
        self.keys.seal(&frames)
    }

    fn fill_asks(
        &mut self,
        frames: &mut BytesMut,
        draw: &mut dyn FnMut() -> u64,
        room: Room,
        now: Instant,
    ) {
        for _ in 0..ASKS {
            // Room for a REQ, and for the OFFER that may stand before it.
            if ROOM - frames.len() < 2 * FRAME {
                return;
            }
            let jitter = fraction(draw());
            let Some(ask) = self.receiver.poll_ask(room, now, jitter) else {
                return;
            };
            if let CustodyFrame::Req { object, .. } = &ask {
                self.fill_offer(frames, *object);
            }
            ask.encode(frames);
        }
    }

    /// The first words about an exchange: that there is a request, and the request itself, if it fits.
    fn fill_offer(&self, frames: &mut BytesMut, response: ObjectId) {
        let known = self.receiver.get(response);
        if response.part != ObjectPart::Response || known.is_none_or(|want| want.acknowledged) {
            return;
        }
        let object = ObjectId {
            part: ObjectPart::Request,
            ..response
        };
        let extent = self.sender.extent(object);
        let terms = self.terms.get(&response.exchange);
        let Some((extent, terms)) = extent.zip(terms) else {
            return;
        };

        // With each REQ until the first answer: all of those before may be lost.
        let offer = CustodyFrame::Offer {
            exchange: response.exchange,
            keep: terms.keep,
            once: terms.once,
            extent,
        };
        offer.encode(frames);
        let left = ROOM.saturating_sub(frames.len() + 2 * FRAME);
        if let Some(inline) = self.sender.inline(object, left) {
            inline.encode(frames);
        }
    }

    fn fill_replies(&mut self, frames: &mut BytesMut) {
        while let Some(size) = self.sender.next_size() {
            let left = ROOM.saturating_sub(frames.len());
            // An answer that does not fit goes into the next datagram, whole.
            if left < FRAME + size && !frames.is_empty() {
                return;
            }
            let left = left.saturating_sub(FIELDS);
            match self.sender.poll_reply(left) {
                Some(frame) => frame.encode(frames),
                None => return,
            }
        }
    }
}
