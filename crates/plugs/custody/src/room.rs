//! The room for more bytes, by the number of bytes that are held already.

use crate::window::PIECE;

/// Bytes of all objects that are held for readers, and as many for neighbours.
#[doc(alias = "bound")]
pub const HELD: u64 = 64 * 1024 * 1024;

/// Below so many bytes in all, no one can have more than half of what others leave.
pub(crate) const SHARED: u64 = HELD / 3;

/// Bytes of an object that may be held whatever others hold: those who read slowly cannot stop the rest.
#[doc(alias = "bound")]
pub const GUARANTEED: u64 = 64 * 1024;

/// Bytes of all objects from which on no more than [`LITTLE`] of one is held whatever others hold: so many that each have what is guaranteed
/// would have more than the machine.
#[doc(alias = "bound")]
pub(crate) const CROWDED: u64 = HELD / 2 * 3;

/// Bytes of an object that go on even then.
#[doc(alias = "bound")]
const LITTLE: u64 = 2 * PIECE;

/// Bytes that may be held beside those that are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Of all objects.
    pub free: u64,
    /// Of one object in any case, those that it has included.
    pub guaranteed: u64,
    /// The disk does not keep up: objects that are kept there have the guaranteed bytes alone.
    pub is_disk_full: bool,
}

impl Room {
    /// Where so many are held.
    pub fn of(held: u64) -> Self {
        Self {
            free: HELD.saturating_sub(held),
            guaranteed: if held < CROWDED { GUARANTEED } else { LITTLE },
            is_disk_full: false,
        }
    }

    /// Bytes that are held, as far as there is room.
    pub(crate) fn held(self) -> u64 {
        HELD - self.free
    }
}
