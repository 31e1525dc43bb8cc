//! Says which clients were pointed at a port that does not speak their protocol: rarely enough that no one can fill the log with it.

use std::time::Duration;

use hermes_net::StreamInfo;
use hermes_proto::greeting::Greeting;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Shortest time between two log lines about clients that speak another protocol, over all
/// listeners.
#[doc(alias = "bound")]
const QUIET: Duration = Duration::from_secs(10);

/// When the last line was written, and how many have not been since.
static LAST: Mutex<Option<(Instant, u64)>> = Mutex::new(None);

/// Notes one.
pub(super) fn note(listener: &str, greeting: Greeting, source: &StreamInfo) {
    let mut last = LAST.lock();
    let now = Instant::now();
    let unsaid = match &mut *last {
        Some((when, unsaid)) if now < *when + QUIET => {
            *unsaid += 1;
            return;
        }
        Some((_, unsaid)) => *unsaid,
        None => 0,
    };

    *last = Some((now, 0));
    drop(last);
    let peer = source.peer;
    let reason = greeting.reason();
    tracing::info!(listener, %peer, unsaid, "refused: {reason}");
}
