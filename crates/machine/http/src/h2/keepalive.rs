//! PING on a connection: finds out whether the peer is still there.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::shared::Joint;

/// How the peer of a link is watched (RFC 9113, 6.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Time between two PINGs.
    pub every: Duration,
    /// Silence after a PING that ends the link. A peer that sends anything at all is there, however late its answer is.
    pub timeout: Duration,
}

/// Resolves when the peer has fallen silent; never where it is not watched, which takes no room.
pub(crate) fn silence(
    joint: &Arc<Joint>,
    keepalive: Option<Keepalive>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    match keepalive {
        Some(keepalive) => Box::pin(watch(joint.clone(), keepalive)),
        None => Box::pin(std::future::pending()),
    }
}

async fn watch(joint: Arc<Joint>, keepalive: Keepalive) {
    while answered(&joint, keepalive.timeout).await {
        sleep(keepalive.every).await;
    }
}

/// Sends a PING and waits for its answer; false once nothing at all has come for `time`.
async fn answered(joint: &Joint, time: Duration) -> bool {
    let before = joint.pongs.load(Ordering::Relaxed);
    joint.tell(|machine| machine.ping());
    loop {
        let heard = joint.heard();
        let answered = joint.answered.notified();
        if joint.pongs.load(Ordering::Relaxed) != before {
            return true;
        }

        if timeout(time, answered).await.is_err() && joint.heard() == heard {
            return false;
        }
    }
}
