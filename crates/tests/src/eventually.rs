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
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
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
