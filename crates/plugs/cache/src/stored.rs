//! A stored response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_http::ResponseHead;
use hermes_net::memory::{Memory, Owner, Purpose};
use parking_lot::Mutex;

use crate::body::Body;
use crate::disk::FileId;
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

/// The files of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilePlace {
    pub(crate) id: FileId,
    /// Bytes that they take.
    pub(crate) bytes: u64,
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
    /// Bytes of memory that it takes beside its content.
    pub(crate) beside: u64,
    pub(crate) marks: Marks,
}

/// The state of a response among the others.
pub(crate) struct Marks {
    /// Bytes of memory that it takes.
    held: AtomicU64,
    /// Its files.
    pub(crate) file: Mutex<Option<FilePlace>>,
    /// It was asked for since it was looked at last, to be removed.
    pub(crate) is_used: AtomicBool,
    /// Its content was read from disk since it left the memory.
    pub(crate) was_read: AtomicBool,
    /// It is stored no longer.
    pub(crate) is_gone: AtomicBool,
}

impl Marks {
    /// Those of a response of so many bytes that is not stored yet.
    pub(crate) fn new(held: u64) -> Self {
        Self {
            held: AtomicU64::new(held),
            file: Mutex::new(None),
            is_used: AtomicBool::new(false),
            was_read: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        }
    }
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
        let beside = beside(&head, &self.selection, &tags);
        Self {
            shelf: self.shelf.clone(),
            selection: self.selection.clone(),
            beside,
            marks: Marks::new(beside.saturating_add(self.length.unwrap_or(0))),
            serial: next_serial(),
            tags,
            head,
            freshness,
            body: self.body.clone(),
            length: self.length,
            stored_at: now,
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held(&self) -> u64 {
        self.marks.held.load(Ordering::Relaxed)
    }

    /// Counts the memory that its content has now.
    pub(crate) fn weigh(&self) -> u64 {
        let content = match self.body.disk() {
            Some(_) => 0,
            None => self.length.unwrap_or(0),
        };
        let held = self.beside.saturating_add(content);
        self.marks.held.store(held, Ordering::Relaxed);
        held
    }

    /// Frees the memory of its content if that is on disk, too; how many bytes.
    pub(crate) fn release(&self) -> u64 {
        let freed = self.body.release().min(self.held() - self.beside);
        self.marks.held.fetch_sub(freed, Ordering::Relaxed);
        self.marks.was_read.store(false, Ordering::Relaxed);
        freed
    }

    /// Has its content in memory again; whether there is room.
    pub(crate) fn take_back(&self, content: Bytes) -> bool {
        let bytes = content.len() as u64;
        let is_back = self.body.take_back(content);
        if is_back {
            self.marks.held.fetch_add(bytes, Ordering::Relaxed);
        }
        is_back
    }

    /// Its files.
    pub(crate) fn place(&self) -> Option<FilePlace> {
        *self.marks.file.lock()
    }

    /// Whether these are its files.
    pub(crate) fn has_place(&self, id: FileId) -> bool {
        self.place().is_some_and(|place| place.id == id)
    }

    /// Whether it is on disk.
    pub(crate) fn has_file(&self) -> bool {
        self.place().is_some()
    }

    /// Whether it may still be given.
    pub(crate) fn is_there(&self) -> bool {
        !self.marks.is_gone.load(Ordering::Relaxed)
    }

    /// Seconds for which it is fresh; how long ago it was, below zero.
    pub(crate) fn ttl(&self, age: u64) -> i64 {
        let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        seconds(self.freshness.lifetime) - seconds(age)
    }
}

/// Bytes that a response takes beside its content.
pub(crate) fn beside(head: &ResponseHead, selection: &Selection, tags: &Tags) -> u64 {
    (head.fields.footprint() + selection.size() + tags.size() + OVERHEAD) as u64
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
        self.with_body(self.body.clone(), length)
    }

    /// The same response with this content; `None` if there is no room for it.
    pub(crate) fn with_content(&self, content: Bytes) -> Option<Arc<Self>> {
        let length = content.len() as u64;
        let account = Memory::node().owner(self.shelf.owner.clone());
        let mut charge = account.empty_charge(Purpose::Cached);
        let has_room = charge.grow_if_free(usize::try_from(self.beside).unwrap_or(usize::MAX));
        let body = Body::new(charge, 0)
            .with_content(content)
            .filter(|_| has_room)?;
        Some(self.with_body(Arc::new(body), Some(length)))
    }

    fn with_body(&self, body: Arc<Body>, length: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            shelf: self.shelf.clone(),
            selection: self.selection.clone(),
            head: self.head.clone(),
            freshness: self.freshness,
            body,
            length,
            stored_at: self.stored_at,
            beside: self.beside,
            marks: Marks::new(self.beside.saturating_add(length.unwrap_or(0))),
            serial: next_serial(),
            tags: self.tags.clone(),
        })
    }
}
