//! The memory that one evaluation takes, counted by the allocator.
//!
//! Allocated bytes are counted, not held ones: the count only grows, so that the same policy and
//! input always come to the same figure. The interpreter looks at it every few steps and gives up.
//! One builtin can ask for a gigabyte between two looks, though, and an allocator can neither
//! refuse (the program would end) nor unwind. So a thread that goes far beyond its bound reports
//! this and stops for good: it keeps its memory, and gets no more.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::thread;

/// An allocator that counts for threads that evaluate a policy, and does nothing else for any other.
pub struct Metered<A>(pub A);

/// Allocations are not counted.
const UNMETERED: u64 = u64::MAX;

thread_local! {
    /// Bytes that this thread may still ask for.
    static LEFT: Cell<u64> = const { Cell::new(UNMETERED) };
    /// Called when the thread asks for more.
    static LAST_WORDS: RefCell<Option<LastWords>> = const { RefCell::new(None) };
}

/// The report of a thread before it stops for good.
pub(crate) type LastWords = Box<dyn FnOnce()>;

/// Begins to count. Beyond `limit` the thread calls its last words and stops for good. Without last words it goes on, with nothing left.
pub(crate) fn arm(limit: u64, last_words: Option<LastWords>) {
    LAST_WORDS.set(last_words);
    LEFT.set(limit);
}

/// Bytes that this thread may still ask for.
pub(crate) fn left() -> u64 {
    LEFT.get()
}

/// Ends the counting.
pub(crate) fn disarm() {
    LEFT.set(UNMETERED);
    LAST_WORDS.take();
}

#[inline]
fn charge(bytes: usize) {
    // Every allocation of the process passes here: one load and one comparison for all other threads.
    let left = LEFT.get();
    if left != UNMETERED {
        spend(left, bytes);
    }
}

#[cold]
fn spend(left: u64, bytes: usize) {
    match left.checked_sub(bytes as u64) {
        Some(rest) => LEFT.set(rest),
        // On a worker, which has to go on: the evaluation ends at the next look.
        None if LAST_WORDS.with_borrow(Option::is_none) => LEFT.set(0),
        None => stop(),
    }
}

/// Nothing may unwind through an allocator, and its result must be memory: so it does not return.
fn stop() -> ! {
    // The last words allocate: metered, they would come back here.
    LEFT.set(UNMETERED);
    if let Some(last_words) = LAST_WORDS.take() {
        last_words();
    }
    // `park` may return by itself.
    loop {
        thread::park();
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe to write")]
// SAFETY: every call goes on to the allocator within as it came, or never returns.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Metered<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller's promises are those of the allocator within.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        charge(size.saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}
