//! Waiting for something to become true.

use std::time::{Duration, Instant};

/// Longest wait for anything in a test; nothing should take a tenth of it.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// How often to look again.
const AGAIN: Duration = Duration::from_millis(10);

/// Calls `look` until it finds something, and returns that.
///
/// # Panics
/// When it has not found anything after [`PATIENCE`].
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    found(look).unwrap_or_else(|| panic!("waited in vain: {what}"))
}

/// Calls `look` until it finds something; `None` after [`PATIENCE`].
pub fn found<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let found = look();
        if found.is_some() || began.elapsed() >= PATIENCE {
            return found;
        }
        std::thread::sleep(AGAIN);
    }
}

/// Waits until `holds` is true.
///
/// # Panics
/// As [`eventually`].
pub fn eventually_true(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}
