//! The order in which streams send.
//!
//! More urgent streams go first (RFC 9218, section 10). Of one urgency, streams that want to be
//! sent one after the other go before those that share. Those that share take turns, and one that
//! begins to send and has little goes ahead of those with much, as in FQ-CoDel (RFC 8290): an
//! answer of a few bytes does not wait for a turn of each download beside it. A client chooses the
//! urgency, so it can hold up only itself; short streams cannot hold up the others, one of which
//! gets a turn after a few short ones.

use std::collections::{BTreeMap, VecDeque};

use crate::h3::Priority;

/// Bytes of a stream's turn while others wait, where nothing is known of the link. A stream with no more than that has little.
#[doc(alias = "bound")]
pub const SHORTEST_TURN: usize = 16 * 1024;

/// The same on a fast link.
#[doc(alias = "bound")]
pub const LONGEST_TURN: usize = 64 * 1024;

/// Streams with little that go ahead in a row where others wait.
#[doc(alias = "bound")]
const ROW: u8 = 8;

/// When a stream is sent, beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// 0 is the most urgent, 7 the least.
    urgency: u8,
    /// Its place among those of its urgency that come one after the other; the highest for those that share.
    place: u32,
}

impl Rank {
    /// Of a stream that shares with all others that say nothing.
    const USUAL: Self = Self {
        urgency: 3,
        place: u32::MAX,
    };

    /// Of a stream with this priority, which shares with others of its urgency.
    pub fn shared(priority: Priority) -> Self {
        Self {
            urgency: priority.urgency,
            ..Self::USUAL
        }
    }

    /// Of a stream that goes before the later ones of its urgency.
    pub fn before_later(priority: Priority, stream: u32) -> Self {
        Self {
            urgency: priority.urgency,
            place: stream,
        }
    }
}

impl Default for Rank {
    fn default() -> Self {
        Self::USUAL
    }
}

/// The streams that have content to send and wait for their turn.
#[derive(Debug)]
pub(super) struct Turns {
    /// Bytes of one turn.
    length: usize,
    usual: Ring,
    /// The streams of another rank: at most as many as there are streams.
    ranked: BTreeMap<Rank, Ring>,
}

/// Streams of one rank.
#[derive(Debug, Default)]
struct Ring {
    /// Streams that begin to send, and have little.
    sparse: VecDeque<u32>,
    others: VecDeque<u32>,
    /// How many of `sparse` went in a row.
    row: u8,
}

impl Ring {
    fn pop(&mut self) -> Option<u32> {
        if self.others.is_empty() {
            self.row = 0;
            return self.sparse.pop_front();
        }

        match self.sparse.pop_front() {
            // A client may open short streams without end: after a row of them one of the others has its turn.
            Some(stream) if self.row < ROW => {
                self.row += 1;
                Some(stream)
            }
            held_back => {
                if let Some(stream) = held_back {
                    self.sparse.push_front(stream);
                }
                self.row = 0;
                self.others.pop_front()
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.sparse.is_empty() && self.others.is_empty()
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            length: SHORTEST_TURN,
            usual: Ring::default(),
            ranked: BTreeMap::new(),
        }
    }
}

impl Turns {
    /// Bytes of one turn.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn set_length(&mut self, bytes: usize) {
        self.length = bytes.clamp(SHORTEST_TURN, LONGEST_TURN);
    }

    /// A stream begins to have content to send: so many bytes.
    pub(super) fn begin(&mut self, stream: u32, rank: Rank, bytes: usize) {
        let ring = self.ring(rank);
        if bytes <= SHORTEST_TURN {
            ring.sparse.push_back(stream);
        } else {
            ring.others.push_back(stream);
        }
    }

    /// A stream has had its turn, and has more.
    pub(super) fn go_on(&mut self, stream: u32, rank: Rank) {
        self.ring(rank).others.push_back(stream);
    }

    fn ring(&mut self, rank: Rank) -> &mut Ring {
        if rank == Rank::USUAL {
            &mut self.usual
        } else {
            self.ranked.entry(rank).or_default()
        }
    }

    /// The next stream to send.
    pub(super) fn next(&mut self) -> Option<u32> {
        let Some(mut first) = self.ranked.first_entry() else {
            return self.usual.pop();
        };
        // Nearly all streams have the usual rank, and cost no search in the map; here it takes its place in the order.
        if *first.key() > Rank::USUAL && !self.usual.is_empty() {
            return self.usual.pop();
        }

        let stream = first.get_mut().pop();
        // A rank may name one stream: empty rings would add up.
        if first.get().is_empty() {
            first.remove();
        }
        stream
    }

    /// Whether no stream waits.
    pub(super) fn is_empty(&self) -> bool {
        self.usual.is_empty() && self.ranked.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(turns: &mut Turns) -> Vec<u32> {
        std::iter::from_fn(|| turns.next()).collect()
    }

    #[test]
    fn a_little_goes_ahead_of_much_but_not_for_ever() {
        let mut turns = Turns::default();
        turns.begin(1, Rank::default(), SHORTEST_TURN + 1);
        turns.go_on(3, Rank::default());
        for stream in 0..20 {
            turns.begin(101 + 2 * stream, Rank::default(), SHORTEST_TURN);
        }

        let order = order(&mut turns);
        let place = |stream| order.iter().position(|one| *one == stream);
        assert_eq!((order.len(), order[0]), (22, 101));
        assert_eq!(place(1), Some(usize::from(ROW)));
        assert_eq!(place(3), Some(2 * usize::from(ROW) + 1));
        assert!(turns.is_empty());
    }

    #[test]
    fn the_more_urgent_comes_first_then_the_earlier_and_then_those_that_share() {
        let mut turns = Turns::default();
        let priority = |urgency| Priority {
            urgency,
            ..Priority::default()
        };
        turns.begin(1, Rank::default(), 1);
        turns.begin(3, Rank::shared(priority(7)), 1);
        turns.begin(5, Rank::before_later(priority(0), 5), 1);
        turns.begin(7, Rank::before_later(priority(3), 7), SHORTEST_TURN + 1);
        turns.begin(9, Rank::before_later(priority(0), 9), 1);
        turns.begin(11, Rank::shared(priority(0)), 1);
        assert_eq!(order(&mut turns), [5, 9, 11, 7, 1, 3]);
        assert!(turns.is_empty());
    }
}
