//! The received bytes of a connection, and the room that its peer should have.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The room that a connection gives its peer, by its unread bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Little is unread.
    Ample,
    /// A quarter of the connection's share.
    Less,
    /// A half of it.
    Little,
    /// Three quarters, or more.
    Least,
}

impl Level {
    const ALL: [Self; 4] = [Self::Ample, Self::Less, Self::Little, Self::Least];

    /// The level for this many unread bytes of the share; a level is left only when there are
    /// clearly fewer than those that led to it.
    fn of(self, unread: usize, most: usize) -> Self {
        let at = |bytes: usize| Self::ALL[(4 * bytes / most.max(1)).min(3)];
        let up = at(unread);
        if up > self {
            up
        } else {
            self.min(at(unread + most / 8))
        }
    }
}

/// The input of a connection.
#[derive(Debug)]
pub(super) struct Input {
    /// Bytes that were received and not read yet.
    unread: AtomicUsize,
    level: AtomicU8,
    /// The level has changed, or the awaited bytes have come.
    changed: Notify,
    /// Bytes that came, all in all.
    arrived: AtomicU64,
    /// The count of them that the peer's windows wait for; `u64::MAX` where they wait for none.
    awaited: AtomicU64,
}

impl Input {
    pub(super) fn new() -> Self {
        Self {
            unread: AtomicUsize::new(0),
            level: AtomicU8::new(0),
            changed: Notify::new(),
            arrived: AtomicU64::new(0),
            awaited: AtomicU64::new(u64::MAX),
        }
    }

    pub(super) fn level(&self) -> Level {
        Level::ALL[usize::from(self.level.load(Ordering::Relaxed)) % Level::ALL.len()]
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Whether this many bytes have come; if not, [`Self::changed`] tells when they have.
    pub(super) fn arrives(&self, count: u64) -> bool {
        // Stored before the count is read, as `arrive` counts before it reads: one of both sees the other, so that no wake-up is lost.
        self.awaited.store(count, Ordering::SeqCst);
        self.arrived.load(Ordering::SeqCst) >= count
    }

    /// Bytes came.
    pub(super) fn arrive(&self, bytes: usize) {
        let arrived = self.arrived.fetch_add(bytes as u64, Ordering::SeqCst) + bytes as u64;
        if arrived >= self.awaited.load(Ordering::SeqCst) {
            self.awaited.store(u64::MAX, Ordering::SeqCst);
            self.changed.notify_one();
        }
    }

    /// Bytes of a connection that may have `share` wait to be read.
    pub(super) fn add_unread(&self, bytes: usize, share: usize) {
        let before = self.unread.fetch_add(bytes, Ordering::Relaxed);
        self.note_unread(before + bytes, share);
    }

    /// As many bytes were read, or dropped.
    pub(super) fn take_unread(&self, bytes: usize, share: usize) {
        let before = self.unread.fetch_sub(bytes, Ordering::Relaxed);
        self.note_unread(before - bytes, share);
    }

    fn note_unread(&self, unread: usize, share: usize) {
        let level = self.level();
        let now = level.of(unread, share);
        if now != level {
            self.level.store(now as u8, Ordering::Relaxed);
            self.changed.notify_one();
        }
    }
}
