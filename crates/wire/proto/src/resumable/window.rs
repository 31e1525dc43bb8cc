//! The bytes that one end has to send, or may have to send again.

use std::collections::VecDeque;

use bytes::Bytes;

use super::capsules::{self, ResumableError};
use crate::connect_tcp::encode;

/// The overhead of a piece beside its bytes: a window full of pieces of one byte must not hold a
/// hundred times as much.
pub(super) const OVERHEAD: usize = 128;

/// Bytes of one retransmitted capsule: it fits a frame of every HTTP version.
const MOST_AGAIN: usize = 16 * 1024;

/// The kept bytes of one direction. A place is a count of bytes from its beginning; the end has a
/// place of its own.
#[derive(Debug, Default)]
pub(super) struct Window {
    pieces: VecDeque<Kept>,
    /// The place of the first piece.
    first: u64,
    /// The place that the next path would begin at.
    acknowledged: u64,
    /// The place up to which it was sent, on any path.
    sent: u64,
    /// The place that is sent next on this path.
    cursor: u64,
    /// The piece with that place, and where it begins.
    at: usize,
    at_place: u64,
    /// The cost of the pieces.
    held: usize,
}

/// A piece, as the capsule that carries it.
#[derive(Debug)]
struct Kept {
    capsule: Bytes,
    header: usize,
    last: bool,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.capsule.len() - self.header
    }

    fn places(&self) -> u64 {
        self.bytes() as u64 + u64::from(self.last)
    }

    fn cost(&self) -> usize {
        self.capsule.len() + OVERHEAD
    }
}

impl Window {
    /// The cost of the kept bytes.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Whether the peer has received everything.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds bytes, and with `last` the end. They are copied: bytes that are kept for long must not
    /// hold the buffer they were read into.
    pub(super) fn push(&mut self, bytes: &[u8], last: bool) {
        let (capsule, header) = capsules::data(bytes, last);
        let piece = Kept {
            capsule,
            header,
            last,
        };

        self.held += piece.cost();
        self.pieces.push_back(piece);
    }

    /// The next capsule to be sent.
    pub(super) fn send(&mut self) -> Option<Bytes> {
        let piece = self.pieces.get(self.at)?;
        let done = usize::try_from(self.cursor - self.at_place).unwrap_or(usize::MAX);

        let capsule = if done == 0 {
            self.cursor += piece.places();
            piece.capsule.clone()
        } else {
            // The path begins within this piece: its rest is framed again, in parts that fit a frame.
            let rest = &piece.capsule[piece.header..][done.min(piece.bytes())..];
            let some = rest.len().min(MOST_AGAIN);
            let last = piece.last && some == rest.len();
            self.cursor += some as u64 + u64::from(last);
            encode(&rest[..some], last)
        };

        if self.cursor == self.at_place + piece.places() {
            self.at += 1;
            self.at_place = self.cursor;
        }
        self.sent = self.sent.max(self.cursor);
        Some(capsule)
    }

    /// The peer has received everything before this place.
    pub(super) fn acknowledge(&mut self, received: u64) -> Result<(), ResumableError> {
        // Bytes are freed only once: a count that was never reached, or goes back, is no count.
        if received > self.sent || received < self.acknowledged {
            return Err(ResumableError::Unsent);
        }

        self.acknowledged = received;
        while let Some(piece) = self.pieces.front()
            && self.first + piece.places() <= received
        {
            self.first += piece.places();
            self.held -= piece.cost();
            self.pieces.pop_front();
            // Retransmitted bytes can be acknowledged while the cursor is still before them, if the
            // old path delivered them late.
            match self.at.checked_sub(1) {
                Some(at) => self.at = at,
                None => {
                    self.at_place = self.first;
                    self.cursor = self.cursor.max(self.first);
                }
            }
        }

        Ok(())
    }

    /// A new path begins; the peer lacks the bytes from this place on.
    pub(super) fn resume(&mut self, received: u64) -> Result<(), ResumableError> {
        if received < self.acknowledged {
            return Err(ResumableError::Forgotten);
        }

        self.acknowledge(received)?;
        self.at = 0;
        self.at_place = self.first;
        self.cursor = received;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(pieces: &[&[u8]]) -> Window {
        let mut window = Window::default();
        for piece in pieces {
            window.push(piece, false);
        }
        window
    }

    fn sent(window: &mut Window) -> Vec<u8> {
        let all: Vec<Bytes> = std::iter::from_fn(|| window.send()).collect();
        let (bytes, pieces, error) = capsules::decode_all(&all.concat(), 3);
        assert_eq!(error, None);
        let mut bytes = bytes;
        if !pieces.is_empty() {
            bytes.push(b'.');
        }
        bytes
    }

    #[test]
    fn what_is_acknowledged_is_forgotten_piece_by_piece() {
        let mut window = window(&[b"abc", b"def"]);
        assert_eq!(sent(&mut window), b"abcdef");
        window.acknowledge(2).unwrap();
        assert_eq!(window.pieces.len(), 2);
        window.acknowledge(3).unwrap();
        assert_eq!(window.pieces.len(), 1);
        window.acknowledge(6).unwrap();
        assert!(window.is_empty() && window.held() == 0);

        window.push(b"ghi", true);
        assert_eq!(sent(&mut window), b"ghi.");
        window.acknowledge(9).unwrap();
        assert!(!window.is_empty(), "the end has a place of its own");
        window.acknowledge(10).unwrap();
        assert!(window.is_empty());
    }

    #[test]
    fn a_path_begins_with_the_byte_that_the_peer_lacks() {
        for received in 0..=7 {
            let mut window = window(&[b"abc", b"", b"def"]);
            window.push(b"", true);
            assert_eq!(sent(&mut window), b"abcdef.");
            window.resume(received).unwrap();
            assert_eq!(
                sent(&mut window),
                b"abcdef."[received as usize..],
                "{received} received"
            );
        }
    }

    #[test]
    fn what_was_not_sent_cannot_have_arrived() {
        let mut window = window(&[b"abc"]);
        assert_eq!(window.acknowledge(1), Err(ResumableError::Unsent));
        sent(&mut window);
        assert_eq!(window.acknowledge(4), Err(ResumableError::Unsent));
        window.acknowledge(2).unwrap();
        assert_eq!(window.acknowledge(1), Err(ResumableError::Unsent));
        assert_eq!(window.resume(1), Err(ResumableError::Forgotten));
        assert_eq!(window.resume(4), Err(ResumableError::Unsent));
        window.resume(2).unwrap();
        assert_eq!(sent(&mut window), b"c");
    }

    #[test]
    fn small_pieces_cost_what_they_hold() {
        let mut window = Window::default();
        window.push(b"a", false);
        assert!(window.held() > OVERHEAD);
    }
}
