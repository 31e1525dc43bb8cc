//! A stored response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hermes_http::ResponseHead;
use hermes_net::memory::Owner;

use crate::body::Body;
use crate::freshness::Freshness;
use crate::name::ResourceName;
use crate::selection::Selection;
use crate::tags::Tags;

/// Bytes that a stored response takes beside its head, its key and its content.
#[doc(alias = "bound")]
const OVERHEAD: usize = 1024;

/// The place of a stored response.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    pub(crate) name: ResourceName,
    /// The user whose it is; `None`: it is everyone's.
    pub(crate) user: Option<Arc<str>>,
    /// Who pays for it.
    pub(crate) owner: Owner,
}

/// A response that is stored, or that is being stored.
pub(crate) struct Stored {
    pub(crate) shelf: Shelf,
    pub(crate) selection: Selection,
    /// Without the fields of its framing.
    pub(crate) head: ResponseHead,
    pub(crate) freshness: Freshness,
    pub(crate) body: Arc<Body>,
    /// The length of its content, where it is known.
    pub(crate) length: Option<u64>,
    pub(crate) stored_at: Instant,
    pub(crate) tags: Tags,
    /// Its place in the order of all responses of the process.
    pub(crate) serial: u64,
    /// Bytes of memory that it takes.
    pub(crate) held: AtomicU64,
    /// It was asked for since it was looked at last, to be removed.
    pub(crate) is_used: AtomicBool,
    /// It is stored no longer.
    pub(crate) is_gone: AtomicBool,
}

impl Stored {
    /// Its age (RFC 9111, section 4.2.3).
    pub(crate) fn age(&self, now: Instant) -> u64 {
        self.freshness
            .age(now.saturating_duration_since(self.stored_at))
    }

    /// The same content with other fields, as a 304 gave them.
    pub(crate) fn freshened(&self, head: ResponseHead, freshness: Freshness, now: Instant) -> Self {
        // More tags than may be: those that it had.
        let tags = Tags::of(&head.fields).unwrap_or_else(|| self.tags.clone());
        Self {
            shelf: self.shelf.clone(),
            selection: self.selection.clone(),
            held: AtomicU64::new(size(&head, &self.selection, &tags, self.length)),
            serial: next_serial(),
            tags,
            head,
            freshness,
            body: self.body.clone(),
            length: self.length,
            stored_at: now,
            is_used: AtomicBool::new(true),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether it may still be given.
    pub(crate) fn is_there(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed)
    }

    /// Seconds for which it is fresh; how long ago it was, below zero.
    pub(crate) fn ttl(&self, age: u64) -> i64 {
        let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        seconds(self.freshness.lifetime) - seconds(age)
    }
}

/// Bytes that a response takes.
pub(crate) fn size(
    head: &ResponseHead,
    selection: &Selection,
    tags: &Tags,
    length: Option<u64>,
) -> u64 {
    let beside = head.fields.footprint() + selection.size() + tags.size() + OVERHEAD;
    length.unwrap_or(0).saturating_add(beside as u64)
}

/// The next place in the order of all responses of the process.
pub(crate) fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How long a request waits for the answer to another one before it goes alone.
#[doc(alias = "bound")]
pub(crate) const COLLAPSED_WAIT: Duration = Duration::from_secs(5);

impl Stored {
    /// The same response, with the length that its content turned out to have.
    pub(crate) fn measured(&self) -> Arc<Self> {
        let length = self.body.whole().map(|whole| whole.len() as u64);
        Arc::new(Self {
            shelf: self.shelf.clone(),
            selection: self.selection.clone(),
            head: self.head.clone(),
            freshness: self.freshness,
            body: self.body.clone(),
            length,
            stored_at: self.stored_at,
            held: AtomicU64::new(size(&self.head, &self.selection, &self.tags, length)),
            serial: next_serial(),
            tags: self.tags.clone(),
            is_used: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        })
    }
}
