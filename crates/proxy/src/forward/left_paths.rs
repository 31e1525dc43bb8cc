//! The paths that a tunnel of datagrams has left, on which answers may still come.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_ip::PIN_SILENCE;
use hermes_observe::Exchange;
use hermes_packet::{Limits, PacketDirection, Side, Sink, Steering, Stop};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::datagram_path::Path;

/// How long answers are still taken from a path that was left: longer than any sensible path takes to answer.
#[doc(alias = "bound")]
const LINGER: Duration = Duration::from_secs(2);

/// How often a path whose end keeps connections is looked at.
const LOOK: Duration = Duration::from_secs(5);

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
    /// Those whose ends keep connections.
    kept: JoinSet<()>,
    /// Cancelled when the tunnel ends.
    over: CancellationToken,
}

impl LeftPaths {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.kept.is_empty()
    }

    /// Waits until another path may be left.
    pub(super) async fn room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        while self.kept.try_join_next().is_some() {}
        if self.tasks.len() >= LINGERING {
            self.tasks.join_next().await;
        }
    }

    /// Goes on taking what comes on `old` for the client, whose tunnel has this `floor` of its limits.
    pub(super) fn add(&mut self, old: Path, client: Sink, exchange: Arc<Exchange>, floor: usize) {
        let over = self.over.clone();
        self.tasks.spawn(linger(old, client, exchange, floor, over));
    }

    /// Goes on with the connections of TCP that are open at the end of `old`.
    pub(super) fn keep(
        &mut self,
        old: Path,
        client: Sink,
        exchange: Arc<Exchange>,
        floor: usize,
        steering: Arc<Steering>,
    ) {
        let over = self.over.clone();
        if let Some(number) = steering.leave(&old.ends.sink) {
            let kept = KeptPath { steering, number };
            self.kept
                .spawn(kept.carry(old, client, exchange, floor, over));
        }
    }

    /// Tells all of them to end. They do so in an orderly way: one that is dropped looks broken.
    pub(super) fn end(&self) {
        self.over.cancel();
    }

    /// Waits until all have ended.
    pub(super) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        while self.kept.join_next().await.is_some() {}
    }
}

/// A path that was left, and whose end keeps connections.
struct KeptPath {
    steering: Arc<Steering>,
    number: u64,
}

impl KeptPath {
    /// Passes on what comes on it, until nothing was sent there for long, or others have taken its place.
    async fn carry(
        self,
        mut old: Path,
        client: Sink,
        exchange: Arc<Exchange>,
        floor: usize,
        over: CancellationToken,
    ) {
        let stop = Stop::default();
        let limits = Limits::new(floor);
        let direction = answers(&exchange, &stop, &limits);
        {
            let mut answers = pin!(direction.run_packets(&mut old.ends.source, &client));
            tokio::select! {
                _ = &mut answers => {}
                () = over.cancelled() => {}
                () = self.unused() => {
                    stop.set();
                    let _ = tokio::time::timeout(SWITCH_TIME, answers).await;
                }
            }
        }

        self.steering.forget(self.number);
        old.ends.farewell().await;
        drop(old.active);
    }

    /// Resolves when no connection uses it any more.
    async fn unused(&self) {
        let is_used = |idle: Duration| idle < PIN_SILENCE;
        while self.steering.idle(self.number).is_some_and(is_used) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// What still comes on a path that was left. Nothing is sent there that has limits, so what it says of them does not matter.
fn answers<'a>(exchange: &'a Exchange, stop: &'a Stop, limits: &'a Limits) -> PacketDirection<'a> {
    PacketDirection {
        exchange,
        from: Side::Target,
        stop,
        alone: false,
        limits,
        steering: None,
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
    let limits = Limits::new(floor);
    let direction = answers(&exchange, &stop, &limits);

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
