//! The output of one vectored write.

use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of room for heads that a connection keeps between two messages: most heads fit.
#[doc(alias = "bound")]
const KEPT_ROOM: usize = 1024;

/// A head, chunk lines, and content that is not copied.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Comes first.
    pub(crate) head: BytesMut,
    /// Comes after the head.
    pub(crate) list: Vec<Bytes>,
    /// Bytes of the head that are written.
    sent: usize,
    /// Pieces of the list that are written.
    at: usize,
}

impl Pieces {
    /// Adds bytes of a tunnel, which leave before more of them come: the list of one that waits has room for no others.
    pub(crate) fn push_alone(&mut self, data: Bytes) {
        if self.list.capacity() == 0 {
            self.list.reserve_exact(1);
        }
        self.list.push(data);
    }

    /// Forgets written pieces; `again`: there are further heads, for which some room is kept.
    pub(crate) fn clear(&mut self, again: bool) {
        if !again || self.head.capacity() > KEPT_ROOM {
            self.head = BytesMut::new();
        }
        self.head.clear();
        self.list.clear();
        (self.sent, self.at) = (0, 0);
    }

    /// The unwritten pieces.
    fn left(&self) -> impl Iterator<Item = &[u8]> {
        let list = self
            .list
            .get(self.at..)
            .unwrap_or_default()
            .iter()
            .map(|piece| &piece[..]);
        self.head
            .get(self.sent..)
            .into_iter()
            .chain(list)
            .filter(|piece| !piece.is_empty())
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.left().map(<[u8]>::len).sum()
    }

    fn has_remaining(&self) -> bool {
        self.left().next().is_some()
    }

    fn chunk(&self) -> &[u8] {
        self.left().next().unwrap_or_default()
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        self.left()
            .zip(into)
            .map(|(piece, slot)| *slot = IoSlice::new(piece))
            .count()
    }

    fn advance(&mut self, mut count: usize) {
        let of_head = count.min(self.head.len() - self.sent);
        self.sent += of_head;
        count -= of_head;

        while let Some(piece) = self.list.get_mut(self.at).filter(|_| count > 0) {
            let part = count.min(piece.len());
            piece.advance(part);
            count -= part;
            self.at += usize::from(piece.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_leave_in_their_order_however_many_are_taken_at_once() {
        for step in 1..12 {
            let mut pieces = Pieces::default();
            for again in [true, true, false] {
                pieces.head.extend_from_slice(b"head");
                pieces
                    .list
                    .extend([&b"a"[..], b"", b"content"].map(Bytes::from_static));
                let mut written = Vec::new();
                while pieces.has_remaining() {
                    let mut slices = [IoSlice::new(&[]); 8];
                    let count = pieces.chunks_vectored(&mut slices);
                    let all = slices[..count]
                        .iter()
                        .flat_map(|slice| slice.to_vec())
                        .collect::<Vec<_>>();
                    assert_eq!(
                        (all.len(), &all[..pieces.chunk().len()]),
                        (pieces.remaining(), pieces.chunk())
                    );
                    let taken = step.min(all.len());
                    written.extend_from_slice(&all[..taken]);
                    pieces.advance(taken);
                }
                assert_eq!(written, b"headacontent");
                pieces.clear(again);
            }
            assert_eq!(pieces.head.capacity(), 0);
        }
    }

    #[test]
    fn the_room_of_a_large_head_is_given_back() {
        let mut pieces = Pieces {
            head: BytesMut::zeroed(2 * KEPT_ROOM),
            ..Pieces::default()
        };
        pieces.advance(2 * KEPT_ROOM);
        pieces.clear(true);
        assert_eq!(pieces.head.capacity(), 0);
    }
}
