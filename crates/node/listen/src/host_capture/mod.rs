//! `capture` listeners with `host`: the connections and datagrams of this machine, and of machines that it is the router of.

mod datagrams;
mod settings;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_net::Watch;
use hermes_net::host_capture::{CaptureInForce, CaptureShare};

pub(crate) use settings::{captured, split};

use crate::held_syns::{HeldSyns, HoldingWorker};
use crate::stream::{self, CapturedConnections};

/// How often a node says that it is alive.
#[doc(alias = "bound")]
const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// One worker's share of a listener's captured traffic.
pub struct CapturedSockets {
    pub(crate) share: CaptureShare,
    /// Connections of all workers whose beginning is held.
    pub(crate) holds: Arc<HeldSyns>,
}

/// Takes captured traffic until told to stop. Connections go on after that.
pub(crate) async fn serve(
    entrance: Entrance,
    sockets: CapturedSockets,
    watch: &Watch,
) -> io::Result<()> {
    let CapturedSockets { share, holds } = sockets;
    let CaptureShare {
        tcp,
        udp,
        held,
        rules,
    } = share;
    let ending = async {
        watch.graceful().await;
        // New traffic goes its ordinary way at once; what came before is still served.
        rules.end();
    };
    let connections = async {
        let Some(listener) = tcp else { return Ok(()) };
        let captured = CapturedConnections {
            rules: rules.clone(),
            holds: holds.clone(),
        };
        stream::serve_captured(entrance.clone(), listener.into(), Some(captured), watch).await
    };
    let beginnings = async {
        let Some(held) = held else { return Ok(()) };
        if held.worker == 0 {
            watch.spawn(say_alive(rules.clone(), watch.clone()));
        }
        let worker = HoldingWorker::new(held, rules.clone(), holds.clone())?;
        worker.serve(entrance.clone(), watch).await
    };
    let datagrams = async {
        let Some(socket) = udp else { return Ok(()) };
        datagrams::serve(entrance.clone(), socket, watch).await
    };

    let ((), connections, beginnings, datagrams) =
        tokio::join!(ending, connections, beginnings, datagrams);
    connections.and(beginnings).and(datagrams)
}

/// Says again and again that this process is alive: where it stands still, held clients would wait for nothing.
async fn say_alive(rules: Arc<CaptureInForce>, watch: Watch) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(ALIVE_EVERY) => {}
            () = watch.graceful() => return,
        }
        // The kernel waits for its other processors in between.
        let own = rules.clone();
        let said = tokio::task::spawn_blocking(move || own.say_alive()).await;
        if let Ok(Err(error)) = said {
            tracing::warn!(%error, "traffic is not captured any more: the kernel does not hear that this node is alive");
        }
    }
}
