//! The clock of this machine, as certificates and tokens speak of time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in seconds; 0 where the clock is before 1970.
#[must_use]
pub fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
