//! Frames that wait for their reader, the small ones packed together.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Frames below this size are copied to one another, in bytes: a larger one costs little beside its content.
const SMALL: usize = 1024;

/// Largest piece that small frames are packed into, in bytes.
const PIECE: usize = 16 * 1024;

/// Data in its order. Its size is bounded by the window of the stream that it came on.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    /// The first of it, before all else: a reader that keeps up never has more waiting.
    first: Option<Bytes>,
    whole: VecDeque<Bytes>,
    /// The last of it, which a small frame may still join.
    last: BytesMut,
}

impl Packed {
    pub(crate) fn push(&mut self, data: Bytes) {
        // The first one is about to be read.
        if self.is_empty() {
            self.first = Some(data);
            return;
        }

        if data.len() >= SMALL || self.last.len() + data.len() > PIECE {
            self.close();
        }
        if data.len() >= SMALL {
            self.whole.push_back(data);
        } else {
            self.last.extend_from_slice(&data);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.whole.is_empty() {
            self.close();
        }
        self.whole.pop_front()
    }

    /// Puts popped bytes back.
    pub(crate) fn unread(&mut self, data: Bytes) {
        if let Some(second) = self.first.replace(data) {
            self.whole.push_front(second);
        }
    }

    /// Bytes of all of it.
    pub(crate) fn len(&self) -> usize {
        let whole = self.first.iter().chain(&self.whole);
        whole.map(Bytes::len).sum::<usize>() + self.last.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.whole.is_empty() && self.last.is_empty()
    }

    fn close(&mut self) {
        if !self.last.is_empty() {
            self.whole.push_back(self.last.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frames_become_few_and_the_order_stays() {
        let mut packed = Packed::default();
        let mut sent = Vec::new();
        for round in 0..40_u8 {
            for _ in 0..1_000 {
                packed.push(Bytes::from(vec![round]));
            }
            packed.push(Bytes::from(vec![round; 2 * SMALL]));
            sent.extend(vec![round; 1_000 + 2 * SMALL]);
        }
        let pieces: Vec<Bytes> = std::iter::from_fn(|| packed.pop()).collect();
        assert_eq!(pieces.concat(), sent);
        assert_eq!(pieces.len(), 81, "the first one stays alone");
        assert!(packed.is_empty());
    }

    #[test]
    fn pieces_have_a_size() {
        let mut packed = Packed::default();
        (0..100_000).for_each(|_| packed.push(Bytes::from_static(b"x")));
        assert!(std::iter::from_fn(|| packed.pop()).all(|piece| piece.len() <= PIECE));
    }
}
