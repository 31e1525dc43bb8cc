//! How long certificates of members count.
//!
//! A certificate ends twice. Until its first end it opens a stream to a controller; then it has to be renewed. Other nodes believe it until
//! its `notAfter`, which is later: an overlay whose controllers are away goes on for the time between, the *grace*.

/// Seconds from the making of a certificate to its first end.
#[doc(alias = "bound")]
pub const LIFETIME: u64 = 7 * 24 * 60 * 60;

/// Seconds before its making from which it counts: a node's clock may be wrong by a day.
pub const EARLY: u64 = 36 * 60 * 60;

/// Seconds from the first end to `notAfter`, unless the overlay says otherwise.
#[doc(alias = "bound")]
pub const GRACE: u64 = 30 * 24 * 60 * 60;

/// The longest such time, in seconds.
#[doc(alias = "bound")]
pub const LONGEST_GRACE: u64 = 60 * 24 * 60 * 60;

/// The first end of a certificate with this `notBefore` and `notAfter`, in Unix seconds.
pub fn first_end(from: u64, until: u64) -> u64 {
    until.min(from.saturating_add(EARLY + LIFETIME))
}
