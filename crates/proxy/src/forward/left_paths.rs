//! The paths that a tunnel of datagrams has left, on which answers may still come.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_observe::Exchange;
use hermes_packet::{Limits, PacketDirection, Side, Sink, Stop};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::datagram_path::Path;

/// How long answers are still taken from a path that was left: longer than any sensible path takes to answer.
#[doc(alias = "bound")]
const LINGER: Duration = Duration::from_secs(2);

/// Paths at once from which answers are still taken; with more, the next move waits.
#[doc(alias = "bound")]
const LINGERING: usize = 8;

/// How long a path that is being left may take to send what was read; its next hop may have stopped reading.
#[doc(alias = "bound")]
pub(super) const SWITCH_TIME: Duration = Duration::from_secs(1);

/// Paths that were left and may still answer.
#[derive(Default)]
pub(super) struct LeftPaths {
    tasks: JoinSet<()>,
    /// Cancelled when the tunnel ends.
    over: CancellationToken,
}

impl LeftPaths {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until another path may be left.
    pub(super) async fn room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= LINGERING {
            self.tasks.join_next().await;
        }
    }

    /// Goes on taking what comes on `old` for the client, whose tunnel has this `floor` of its limits.
    pub(super) fn add(&mut self, old: Path, client: Sink, exchange: Arc<Exchange>, floor: usize) {
        let over = self.over.clone();
        self.tasks.spawn(linger(old, client, exchange, floor, over));
    }

    /// Tells all of them to end. They do so in an orderly way: one that is dropped looks broken.
    pub(super) fn end(&self) {
        self.over.cancel();
    }

    /// Waits until all have ended.
    pub(super) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Takes what still comes on a path that was left, then ends it.
async fn linger(
    mut old: Path,
    client: Sink,
    exchange: Arc<Exchange>,
    floor: usize,
    over: CancellationToken,
) {
    let stop = Stop::default();
    // Nothing is sent there any more, so what it says of its limits does not matter.
    let limits = Limits::new(floor);
    let direction = PacketDirection {
        exchange: &exchange,
        from: Side::Target,
        stop: &stop,
        alone: false,
        limits: &limits,
    };

    {
        let mut answers = pin!(direction.run(&mut old.ends.source, &client));
        tokio::select! {
            _ = &mut answers => {}
            () = over.cancelled() => {}
            () = tokio::time::sleep(LINGER) => {
                stop.set();
                let _ = tokio::time::timeout(SWITCH_TIME, answers).await;
            }
        }
    }

    old.ends.farewell().await;
    drop(old.active);
}
