//! A stored response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hermes_http::ResponseHead;
use hermes_net::memory::Owner;

use crate::body::Body;
use crate::freshness::Freshness;
use crate::name::ResourceName;
use crate::selection::Selection;

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
    /// Bytes that it takes.
    pub(crate) size: usize,
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
        Self {
            shelf: self.shelf.clone(),
            selection: self.selection.clone(),
            size: size(&head, &self.selection, self.length),
            head,
            freshness,
            body: self.body.clone(),
            length: self.length,
            stored_at: now,
            is_used: AtomicBool::new(true),
            is_gone: AtomicBool::new(false),
        }
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
pub(crate) fn size(head: &ResponseHead, selection: &Selection, length: Option<u64>) -> usize {
    let content = usize::try_from(length.unwrap_or(0)).unwrap_or(usize::MAX);
    content.saturating_add(head.fields.footprint() + selection.size() + OVERHEAD)
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
            size: size(&self.head, &self.selection, length),
            is_used: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        })
    }
}
