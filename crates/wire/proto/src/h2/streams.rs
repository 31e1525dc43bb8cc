//! The streams of a connection: those that are open, those that wait for their turn, and those that are gone.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use super::stream::Stream;
use super::turns::Turns;
use crate::h3::Role;

/// Hashes the numbers of streams. A peer can choose them, but does not know the key.
#[derive(Debug, Clone, Copy)]
pub struct ByNumber(u64);

/// One number on its way to a hash.
#[derive(Debug)]
pub struct NumberHasher(u64);

impl Default for ByNumber {
    fn default() -> Self {
        static KEY: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
        Self(*KEY)
    }
}

impl BuildHasher for ByNumber {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(self.0)
    }
}

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // hashbrown takes the bucket from the low bits and the tag from the high ones: folding lets both depend on the key.
        let wide = u128::from(self.0 ^ u64::from(number)) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The state of a stream that is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    /// The stream was never opened.
    Idle,
    /// The stream has ended.
    Closed,
    /// We reset the stream, or may have: its frames were on their way (RFC 9113, section 5.1).
    Late,
}

#[derive(Debug)]
pub(super) struct Streams<C> {
    role: Role,
    open: HashMap<u32, Stream<C>, ByNumber>,
    /// Streams that have content to send and wait for their turn.
    pub(super) turns: Turns,
    /// Streams that we reset, oldest first.
    reset: VecDeque<u32>,
    is_reset: HashSet<u32, ByNumber>,
    /// Capacity of `reset`.
    remembered: usize,
    /// The highest stream that was forgotten: frames of streams up to it count as late, never as mistakes.
    forgotten: u32,
    /// The highest one that the peer opened.
    pub(super) highest: u32,
    /// The next one that we open.
    pub(super) next: u32,
}

impl<C> Streams<C> {
    pub(super) fn new(role: Role, remembered: usize) -> Self {
        Self {
            role,
            open: HashMap::default(),
            turns: Turns::default(),
            reset: VecDeque::new(),
            is_reset: HashSet::default(),
            remembered,
            forgotten: 0,
            highest: 0,
            next: 1,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get(&mut self, stream: u32) -> Option<&mut Stream<C>> {
        self.open.get_mut(&stream)
    }

    pub(super) fn contains(&self, stream: u32) -> bool {
        self.open.contains_key(&stream)
    }

    pub(super) fn insert(&mut self, number: u32, stream: Stream<C>) {
        self.open.insert(number, stream);
    }

    pub(super) fn remove(&mut self, stream: u32) -> Option<Stream<C>> {
        self.open.remove(&stream)
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.turns.clear();
    }

    /// All that are open.
    pub(super) fn all(&mut self) -> impl Iterator<Item = (u32, &mut Stream<C>)> {
        self.open
            .iter_mut()
            .map(|(number, stream)| (*number, stream))
    }

    /// Whether the client has opened this stream; without pushes, servers open none.
    fn was_opened(&self, stream: u32) -> bool {
        match self.role {
            Role::Server => stream <= self.highest,
            Role::Client => stream < self.next,
        }
    }

    /// The state of a stream that is not open.
    pub(super) fn absent(&self, stream: u32) -> Absent {
        // Even numbers are pushed streams, and here neither side pushes.
        if stream.is_multiple_of(2) || !self.was_opened(stream) {
            Absent::Idle
        } else if stream <= self.forgotten || self.is_reset.contains(&stream) {
            Absent::Late
        } else {
            Absent::Closed
        }
    }

    /// Remembers a stream that we reset: frames that were on their way are no mistake of the peer.
    pub(super) fn remember(&mut self, stream: u32) {
        if !self.is_reset.insert(stream) {
            return;
        }
        self.reset.push_back(stream);
        // A peer can provoke resets for ever: the memory of them is bounded, and forgetting errs towards tolerance.
        if self.reset.len() > self.remembered
            && let Some(oldest) = self.reset.pop_front()
        {
            self.is_reset.remove(&oldest);
            self.forgotten = self.forgotten.max(oldest);
        }
    }
}
