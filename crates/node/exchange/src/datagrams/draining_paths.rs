//! The paths that a tunnel of datagrams has left, on which answers may still come.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_ip::PIN_SILENCE;
use hermes_observe::Exchange;
use hermes_packet::{ConnectionPins, Limits, PacketDirection, Side, Sink, Stop};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::reach::datagram_path::Path;

/// How long answers are still taken from a path that was left: longer than any sensible path takes to answer.
#[doc(alias = "bound")]
const LINGER: Duration = Duration::from_secs(2);

/// How often a path whose end keeps connections is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Paths at once from which answers are still taken; with more, the next move waits.
#[doc(alias = "bound")]
const LINGERING: usize = 8;

/// How long a path that is being left may take to send datagrams that were read; its next hop may have stopped reading.
#[doc(alias = "bound")]
pub(crate) const SWITCH_TIME: Duration = Duration::from_secs(1);

/// Paths that were left and may still answer.
#[derive(Default)]
pub(crate) struct DrainingPaths {
    tasks: JoinSet<()>,
    /// Those whose ends keep connections.
    kept: JoinSet<()>,
    /// Cancelled when the tunnel ends.
    over: CancellationToken,
}

impl DrainingPaths {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.kept.is_empty()
    }

    /// Waits until another path may be left.
    pub(crate) async fn room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        while self.kept.try_join_next().is_some() {}
        if self.tasks.len() >= LINGERING {
            self.tasks.join_next().await;
        }
    }

    fn left(
        &self,
        path: Path,
        client: Sink,
        exchange: Arc<Exchange>,
        floor: usize,
    ) -> DrainingPath {
        DrainingPath {
            path,
            client,
            exchange,
            floor,
            over: self.over.clone(),
        }
    }

    /// Goes on taking datagrams that come on `path` for the client; `floor` is that of the tunnel's limits.
    pub(crate) fn add(&mut self, path: Path, client: Sink, exchange: Arc<Exchange>, floor: usize) {
        let left = self.left(path, client, exchange, floor);
        self.tasks
            .spawn(left.pass_on(Passes::All, tokio::time::sleep(LINGER)));
    }

    /// Goes on with the connections of TCP that are open at the end of `path`.
    pub(crate) fn keep(
        &mut self,
        path: Path,
        client: Sink,
        exchange: Arc<Exchange>,
        floor: usize,
        pins: Arc<ConnectionPins>,
    ) {
        // Connections can be steered only by packets in capsules.
        let Some(number) = pins.leave(&path.ends.sink) else {
            return;
        };
        let left = self.left(path, client, exchange, floor);
        self.kept.spawn(async move {
            let unused = unused(&pins, number);
            left.pass_on(
                Passes::Packets {
                    pins: &pins,
                    number,
                },
                unused,
            )
            .await;
        });
    }

    /// Tells all of them to end. They do so in an orderly way: one that is dropped looks broken.
    pub(crate) fn end(&self) {
        self.over.cancel();
    }

    /// Waits until all have ended.
    pub(crate) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        while self.kept.join_next().await.is_some() {}
    }
}

/// A path that was left, and the client of datagrams that still come on it.
struct DrainingPath {
    path: Path,
    client: Sink,
    exchange: Arc<Exchange>,
    floor: usize,
    over: CancellationToken,
}

/// The datagrams of a draining path that are passed on.
enum Passes<'a> {
    /// Everything: answers.
    All,
    /// Packets, of connections that the path's end keeps; it is steered to by this number.
    Packets {
        pins: &'a ConnectionPins,
        number: u64,
    },
}

impl DrainingPath {
    /// Passes datagrams on until `enough` resolves, or the tunnel or the path ends; then ends the path.
    async fn pass_on(mut self, passes: Passes<'_>, enough: impl Future<Output = ()>) {
        let stop = Stop::default();
        let limits = Limits::new(self.floor);
        let direction = PacketDirection {
            exchange: &self.exchange,
            from: Side::Target,
            stop: &stop,
            alone: false,
            // Nothing with limits is sent there: those that it announces do not matter.
            limits: &limits,
            pins: None,
        };

        let source = &mut self.path.ends.source;
        let answers = async {
            match passes {
                Passes::All => direction.run(source, &self.client).await,
                Passes::Packets { .. } => direction.run_packets(source, &self.client).await,
            }
        };
        {
            let mut answers = pin!(answers);
            tokio::select! {
                _ = &mut answers => {}
                () = self.over.cancelled() => {}
                () = enough => {
                    stop.set();
                    let _ = tokio::time::timeout(SWITCH_TIME, answers).await;
                }
            }
        }

        if let Passes::Packets { pins, number } = passes {
            pins.forget(number);
        }
        self.path.ends.farewell().await;
        drop(self.path.active);
    }
}

/// Resolves when no connection uses the path of this number any more.
async fn unused(pins: &ConnectionPins, number: u64) {
    let is_used = |idle: Duration| idle < PIN_SILENCE;
    while pins.idle(number).is_some_and(is_used) {
        tokio::time::sleep(LOOK).await;
    }
}
