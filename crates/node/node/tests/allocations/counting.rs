//! An allocator that counts.
#![allow(
    unsafe_code,
    reason = "an allocator is unsafe by its nature; this one hands everything on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are held; what threads that are not counted allocate or free does not change it.
static HELD: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(true) };
}

/// Allocations so far of all threads that are counted.
pub fn allocations() -> usize {
    COUNT.load(Ordering::SeqCst)
}

/// Bytes that threads that are counted hold.
#[allow(dead_code, reason = "the other test counts bytes")]
pub fn held() -> isize {
    HELD.load(Ordering::SeqCst)
}

/// What this thread allocates does not count.
pub fn not_counted() {
    COUNTED.set(false);
}

/// Counts this many allocations, and bytes that were taken and given back.
fn count(calls: usize, more: usize, less: usize) {
    // A thread that ends has no such variable any more.
    if COUNTED.try_with(Cell::get).unwrap_or(false) {
        COUNT.fetch_add(calls, Ordering::SeqCst);
        HELD.fetch_add(more.cast_signed() - less.cast_signed(), Ordering::SeqCst);
    }
}

// SAFETY: every call is handed on, with its arguments as they came, to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller's promises are the callee's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller's promises are the callee's conditions.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size, layout.size());
        // SAFETY: the caller's promises are the callee's conditions.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, 0, layout.size());
        // SAFETY: the caller's promises are the callee's conditions.
        unsafe { System.dealloc(pointer, layout) }
    }
}
