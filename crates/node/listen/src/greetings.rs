//! The first words of clients: how long a handshake may take once a listener drains, and which clients were pointed at a port that does not speak
//! their protocol, said rarely enough that no one can fill the log with it.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use hermes_net::StreamInfo;
use hermes_net::memory::Owner;
use hermes_observe::LineShares;
use hermes_proto::greeting::Greeting;
use parking_lot::Mutex;

/// How long a handshake that has begun may take once its listener drains: a round trip or two of a slow path. A client that says
/// no more would otherwise hold the end of the process up for the whole `limits.head_time`.
#[doc(alias = "bound")]
pub(super) const LAST_HANDSHAKE: Duration = Duration::from_secs(2);

/// Lines about clients that speak another protocol, over all listeners: one about each source in a while.
static LINES: LazyLock<Mutex<LineShares>> = LazyLock::new(|| Mutex::new(LineShares::new(1)));

/// Notes one.
pub(super) fn note(listener: &str, greeting: Greeting, source: &StreamInfo) {
    let peer = source.peer;
    let reason = greeting.reason();
    let owner = Owner::of(None, &peer);
    let next = LINES.lock().next(owner, Instant::now());
    if let Some(unsaid) = next {
        tracing::info!(listener, %peer, unsaid, "refused: {reason}");
    }
}
