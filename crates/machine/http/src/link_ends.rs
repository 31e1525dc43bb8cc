//! Lines of the log about links that end for an error: everything on a link ends with it, of many users.

use std::fmt::Display;
use std::time::Duration;

use hermes_net::{PeerAddress, clock};
use hermes_proto::h2::Reason;
use parking_lot::Mutex;
use tokio::time::Instant;

/// One line of the log about links that end, of all links: an origin can end its own as often as it is asked.
#[doc(alias = "bound")]
const TELL: Duration = Duration::from_secs(1);

/// Whether it is time for a line about a link that has ended.
fn may_tell() -> bool {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let mut told = TOLD.lock();
    let now = clock::now();
    let is_due = told.is_none_or(|told| now.saturating_duration_since(told) >= TELL);
    if is_due {
        *told = Some(now);
    }
    is_due
}

/// This side closes a link over this version for a mistake of the peer.
pub(crate) fn tell_own(version: u8, peer: &PeerAddress, fault: &dyn Display) {
    if may_tell() {
        tracing::warn!(%peer, %fault, "a link over HTTP/{version} is closed for an error of the peer");
    }
}

/// The peer has closed a link over this version for an error, by this code and in these words.
pub(crate) fn tell_peers(version: u8, peer: &PeerAddress, code: &dyn Display, reason: &str) {
    if may_tell() {
        tracing::warn!(%peer, %code, reason, "the peer has closed a link over HTTP/{version}");
    }
}

/// The peer takes no more streams on a link over HTTP/2. One that stops in an orderly way is no matter of the log.
pub(crate) fn tell_goaway(peer: &PeerAddress, reason: Reason) {
    if reason != Reason::NO_ERROR {
        tell_peers(2, peer, &reason, "it has sent GOAWAY");
    }
}
